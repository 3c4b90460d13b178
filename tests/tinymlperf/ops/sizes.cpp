// The limits of a match follow from the shapes of its tasks: every question of every op fits, on the CPU and
// on a GPU, in the channel, in the memory of a worker's sandbox and in the memory that the GPU's worker
// reserves.
#include <tinymlperf/device/measured_op.hpp>

#include <doctest/doctest.h>

#include <tinymlperf/ops/sizes.hpp>
#include <tinymlperf/ops/tasks.hpp>
#include <tinymlperf/sandbox/policy.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
using namespace tinymlperf::judge::kernels;

namespace {

// Every shape that a match may ask on the CPU or on a GPU, with hidden ones of several matches.
std::vector<Shape> asked(const KernelTask& task, bool on_gpu) {
  std::vector<Shape> out = on_gpu ? on_device({task})[0].shapes : task.shapes;
  tinytorch::Generator random(41);
  for (int match = 0; match < 20; ++match)
    for (const Shape& sides : draw_hidden_shapes(task, random)) out.push_back(sides);
  return out;
}

// The size of a message from its parts, without the tensors' memory.
size_t encoded_bytes(std::span<const Operand> tensors) {
  size_t bytes = 4;
  for (const Operand& o : tensors)
    bytes +=
        4 + 8 * o.shape.size() + static_cast<size_t>(count(o.shape)) * channel::bytes_of_one(dtype_of(o));
  return bytes;
}
std::vector<Operand> question(const KernelTask& task, const Shape& sides) {
  std::vector<Operand> out = task.operands(sides);
  const auto letters = static_cast<int64_t>(task.name.size());
  const auto dimensions = static_cast<int64_t>(task.output(sides).size());
  for (const auto& [n, dtype] : {std::pair{letters, channel::DType::u8},
                                 {dimensions, channel::DType::i64},
                                 {int64_t{1}, channel::DType::u8}})
    out.push_back({{n}, Role::arranged, 0, dtype});
  return out;
}
std::vector<Operand> answer(const KernelTask& task, const Shape& sides) {
  constexpr int64_t kComplaint = 1000;
  return {{task.output(sides), Role::arranged, 0, task.result},
          {{3}, Role::arranged, 0, channel::DType::f64},
          {{kComplaint}, Role::arranged, 0, channel::DType::u8}};
}

}  // namespace

TEST_CASE("the sizes of a message are those of its encoded tensors") {
  for (const KernelTask& task : tasks()) {
    CAPTURE(task.name);
    tinytorch::Generator random(7);
    for (const Shape& sides : draw_hidden_shapes(task, random)) {
      const channel::Tensors in = draw_inputs(task, sides, Distribution::ordinary, 3);
      CHECK(channel::encode(in).size() == encoded_bytes(task.operands(sides)));
      size_t bytes = 0;
      for (const channel::Tensor& t : in) bytes += t.bytes.size();
      CHECK(input_bytes(task, sides) == bytes);
    }
  }
}

TEST_CASE("every question and every answer of every op fits in the limits of its match") {
  for (const bool on_gpu : {false, true}) {
    const std::vector<KernelTask> all = on_gpu ? on_device(tasks()) : tasks();
    const uint64_t together = limits_of_messages(all).tensors;
    for (const KernelTask& task : all) {
      CAPTURE(task.name);
      const uint64_t alone = limits_of_messages({task}).tensors;
      CHECK(alone <= together);
      for (const Shape& sides : asked(task, on_gpu)) {
        CHECK(encoded_bytes(question(task, sides)) <= alone);
        CHECK(encoded_bytes(answer(task, sides)) <= alone);
      }
    }
  }
}

TEST_CASE("a task with larger shapes has larger limits, and no others than its own") {
  KernelTask task = task_named("attention_paged");
  task.device_shapes.push_back({64, 1, 8, 4, 128, 64, 32});  // two pools of half a gibibyte each
  const std::vector<KernelTask> all = on_device({task});
  CHECK(encoded_bytes(question(task, task.device_shapes.back())) > channel::Limits{}.tensors);
  CHECK(encoded_bytes(question(task, task.device_shapes.back())) <= limits_of_messages(all).tensors);
  CHECK(device::arena_bytes(all) > device::arena_bytes(tasks()));
  CHECK(limits_of_messages({task_named("gelu")}).tensors < limits_of_messages(tasks()).tensors);
}

TEST_CASE("a worker has the memory for every question, several times") {
  // The bytes that arrive (their buffer doubles as it grows), the frame, the parsed tensors and their answer.
  constexpr uint64_t kCopies = 6;
  CHECK(kCopies * limits_of_messages(tasks()).tensors <
        static_cast<uint64_t>(sandbox::Policy{}.memory_bytes) / 2);
}

TEST_CASE("the memory of the GPU's worker holds the tensors of every op twice, with the largest workspace") {
  const size_t all = device::arena_bytes(tasks());
  for (const KernelTask& task : on_device(tasks())) {
    CAPTURE(task.name);
    for (const Shape& sides : asked(task, true)) {
      // The arena's own steps, with the largest random offset at each.
      using Arena = device::detail::GuardedArena;
      size_t at = (size_t{64} << 20) - 512;
      for (int twice = 0; twice < 2; ++twice) {
        std::vector<size_t> pieces{output_bytes(task, sides), size_t{1} << 30};
        for (const Operand& o : task.operands(sides)) pieces.push_back(bytes_of_operand(o));
        for (const size_t bytes : pieces) {
          at += Arena::kGuard + 63 * 512;
          CHECK(at + bytes + 2 * Arena::kGuard <= all);
          at += (bytes + 511) / 512 * 512 + Arena::kGuard;
        }
      }
    }
  }
}

TEST_CASE("an op leaves elements of its output unwritten only if its task says so") {
  for (const KernelTask& task : tasks()) {
    CAPTURE(task.name);
    tinytorch::Generator random(11);
    bool unwritten = false;
    for (int match = 0; match < 4; ++match)
      for (const Shape& sides : draw_hidden_shapes(task, random)) {
        const channel::Tensors in = draw_inputs(task, sides, Distribution::ordinary, 5);
        const Shape out = task.output(sides);
        std::vector<double> row(static_cast<size_t>(out.empty() ? 1 : out.back()));
        const int64_t rows = row.empty() ? 0 : count(out) / static_cast<int64_t>(row.size());
        for (int64_t r = 0; r < rows; ++r) {
          task.oracle(in, r, row);
          unwritten = unwritten || std::ranges::any_of(row, [](double x) { return std::isnan(x); });
        }
      }
    CHECK(unwritten == task.partial);
  }
}
