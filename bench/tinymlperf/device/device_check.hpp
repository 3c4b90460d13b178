// Checks device code before its match (`tinymlperf worker --check`): runs each op of a plan on small hidden
// shapes, with an allocation of its own for each tensor.
//
//   once    for a run under compute-sanitizer, which then detects out-of-bounds accesses, reads of
//           uninitialized memory and data races
//   twice   runs each op twice on the same inputs, also on a public shape: outputs that differ in a bit are
//           an error unless the plan says "deterministic": false
#pragma once

#include <tinymlperf/device/program.hpp>
#include <tinymlperf/ops/tasks.hpp>

namespace tinymlperf::device {

enum class Check { once, twice };

namespace detail {

class OwnBuffers {
 public:
  explicit OwnBuffers(size_t bytes) : bytes_(bytes), data_(tinytorch::backend::cuda::allocate(bytes, 0)) {}
  ~OwnBuffers() { tinytorch::backend::cuda::deallocate(data_, bytes_, 0); }
  OwnBuffers(const OwnBuffers&) = delete;
  OwnBuffers& operator=(const OwnBuffers&) = delete;
  void* data() const { return data_; }

 private:
  size_t bytes_;
  void* data_;
};

// An output that the op writes only in part is given filled with NaN, as in a match. Any other is left
// uninitialized, so that compute-sanitizer finds the elements that the op forgot.
inline std::vector<std::byte> run_once(Program& program, const judge::kernels::KernelTask& task,
                                       const channel::Tensors& in, const Shape& sides) {
  namespace cuda = tinytorch::backend::cuda;
  const std::string& op = task.name;
  const Shape out = task.output(sides);
  const channel::DType type = task.result;
  Buffers b;
  std::vector<std::unique_ptr<OwnBuffers>> owned;
  const auto take = [&](size_t bytes) {
    if (bytes == 0) return static_cast<void*>(nullptr);
    owned.push_back(std::make_unique<OwnBuffers>(bytes));
    return owned.back()->data();
  };
  b.shapes.out = out, b.result = type;
  for (const channel::Tensor& t : in) {
    b.shapes.in.push_back(t.shape), b.types.push_back(t.dtype), b.in.push_back(take(t.bytes.size()));
    cuda::copy_bytes(b.in.back(), tinytorch::cuda, t.bytes.data(), tinytorch::cpu, t.bytes.size());
  }
  std::vector<std::byte> result(channel::bytes_of_one(type) *
                                static_cast<size_t>(judge::kernels::count(out)));
  b.out = take(result.size());
  if (task.partial && !result.empty()) cuda::fill_bytes(b.out, 0xFF, result.size(), 0);
  b.workspace = take(static_cast<size_t>(program.workspace(op, b.shapes)));
  program.load(op);
  program.queue(op, b);
  cuda::synchronize();
  cuda::copy_bytes(result.data(), tinytorch::cpu, b.out, tinytorch::cuda, result.size());
  return result;
}

}  // namespace detail

// Shapes and inputs are drawn from `seed`. Throws std::runtime_error if two runs of an op differ.
inline void check_plan(const std::filesystem::path& folder, Check how, uint64_t seed) {
  using namespace judge::kernels;
  tinytorch::backend::cuda::set_caching(false);
  PlanProgram program(folder);
  tinytorch::Generator random(seed);
  for (const auto& [op, plan] : program.plan()) {
    const KernelTask& task = task_named(op);
    std::vector<Shape> all = draw_hidden_shapes(task, random);
    if (how == Check::twice) all.push_back(task.device_shapes.front());
    for (const Shape& sides : all) {
      const channel::Tensors in = draw_inputs(task, sides, Distribution::ordinary, random.below(1u << 30));
      const auto first = detail::run_once(program, task, in, sides);
      if (how == Check::once || !plan.deterministic) continue;
      if (detail::run_once(program, task, in, sides) != first)
        throw std::runtime_error(op + " " + to_text(sides) +
                                 ": two runs on the same inputs gave different bits; if this is intended, "
                                 "set \"deterministic\": false "
                                 "in plan.json");
    }
  }
}

}  // namespace tinymlperf::device
