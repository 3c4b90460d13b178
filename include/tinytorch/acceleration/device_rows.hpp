// A row program on a GPU that runs as one generated kernel as soon as that is ready.
//
// The counterpart of DevicePointwise (device_pointwise.hpp). Until the kernel is ready, and where none is
// made, run() returns false and the steps run one by one. The kernel adds in another order than the steps do,
// so its trial has a tolerance, and only Math::fast uses it.
#pragma once

#include <algorithm>
#include <bit>
#include <climits>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <tinytorch/acceleration/agreement.hpp>
#include <tinytorch/acceleration/device_kernels.hpp>
#include <tinytorch/acceleration/emit_cuda_rows.hpp>
#include <tinytorch/autograd/grad_mode.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD::acceleration {

// False for few and very long rows: a block for each row would leave most of a GPU idle.
inline bool has_row_kernel(int64_t rows, int64_t length) { return rows >= 64 || length <= 1 << 16; }

// The kernel for rows of this program at these addresses; nothing if none is made: for few and very long rows
// (has_row_kernel), or for more arguments than a kernel takes.
inline std::optional<RowCut> row_cut(const RowProgram& program, std::span<void* const> out,
                                     std::span<const void* const> in) {
  constexpr int64_t kArgumentBytes = 4000;
  const RowScalars scalars(program);
  const size_t bytes = 8 * (out.size() + in.size()) + 16 * scalars.steps.size() + 32;
  if (bytes > kArgumentBytes || program.rows > INT_MAX) return std::nullopt;
  if (!has_row_kernel(program.rows, program.length)) return std::nullopt;
  size_t narrowest = 8;
  const auto by_element = [](RowExtent e) { return e == RowExtent::full || e == RowExtent::line; };
  const auto look = [&](int v) {
    const RowValue& value = program.value(v);
    if (by_element(value.extent) && value.dtype != DType::boolean)
      narrowest = std::min(narrowest, size_of(value.dtype));
  };
  for (size_t k = 0; k < in.size(); ++k) look(static_cast<int>(k));
  for (const int v : program.outputs) look(v);
  RowCut cut;
  cut.elements = static_cast<int>(16 / narrowest);
  const auto whole = [&](int v, const void* data) {
    const RowValue& value = program.value(v);
    const auto access = std::min<size_t>(16, size_of(value.dtype) * static_cast<size_t>(cut.elements));
    return !by_element(value.extent) || reinterpret_cast<uintptr_t>(data) % access == 0;
  };
  bool vectors = true;
  for (size_t k = 0; k < in.size(); ++k) vectors = vectors && whole(static_cast<int>(k), in[k]);
  for (size_t k = 0; k < out.size(); ++k) vectors = vectors && whole(program.outputs[k], out[k]);
  if (!vectors) cut.elements = 1;
  cut.shifted = program.length % cut.elements != 0;
  const int64_t pieces =
      ceil_div(program.length, int64_t{cut.elements}) + (cut.shifted ? 1 : 0);  // of the row with most
  const int64_t most = cut.elements == 1 ? 8 : 4;                               // parts
  if (pieces <= 16) {
    cut.lanes = static_cast<int>(std::max<uint64_t>(4, std::bit_ceil(static_cast<uint64_t>(pieces))));
  } else {
    while (cut.lanes < 1024 && pieces > cut.lanes * most) cut.lanes = cut.lanes == 32 ? 128 : 2 * cut.lanes;
  }
  const int64_t parts = ceil_div(pieces, int64_t{cut.lanes});
  const int64_t kept = parts * CudaRowEmitter::kept_bytes(program) * cut.elements;
  cut.parts = parts <= 2 * most && kept <= (cut.lanes == 1024 ? 128 : 256) ? static_cast<int>(parts) : 0;
  return cut;
}

inline void launch_rows(const LoadedKernel& kernel, const RowProgram& program, RowCut cut, int64_t rows,
                        std::span<void* const> out, std::span<const void* const> in) {
  std::vector<std::byte> argument;  // the struct of emit_cuda_rows.hpp, which has no padding
  const auto add = [&](const void* from, size_t bytes) {
    const auto* const first = static_cast<const std::byte*>(from);
    argument.insert(argument.end(), first, first + bytes);
  };
  const void* const absent = nullptr;
  add(out.data(), out.size_bytes());
  add(in.data(), in.size_bytes());
  if (in.empty()) add(&absent, sizeof absent);
  for (const RowScalars::Step& s : RowScalars(program).steps) add(s.fn.p, sizeof s.fn.p);
  const double unused = 0;
  add(&unused, sizeof unused);
  add(&rows, sizeof rows);
  add(&program.length, sizeof program.length);
  backend::cuda::launch(kernel, ceil_div(rows, int64_t{cut.rows_of_block()}), cut.block(), argument.data());
}

// Takes the place of a recorder, which must not see the operations of a trial.
struct Unobserved final : OpObserver {
  void after(const PrimitiveBase&, const Tensors&, const Tensors&, Cost) override {}
};

// True if the kernel's results for random rows, of numbers between `low` and 3, are close to those of the
// steps.
inline bool agrees_above(const RowProgram& program, RowCut cut, const LoadedKernel& kernel, double low) {
  Unobserved nobody;
  const Observing unseen(nobody);
  const NoGrad no_grad;
  const Device device{DeviceType::cuda, backend::cuda::current_device()};
  const int64_t count = std::min<int64_t>(program.rows, 7);
  Generator random(1);
  RowsRun run(program, count);
  std::vector<const void*> in;
  std::vector<void*> out;
  Tensors inputs, mine, expected;
  for (size_t k = 0; k < program.inputs; ++k) {
    const RowValue& value = program.values[k];
    const Shape shape = run.shape_of(value.extent, value.shape);
    std::vector<double> numbers(static_cast<size_t>(shape.numel()));
    for (double& x : numbers)
      x = value.dtype == DType::boolean ? static_cast<double>(random.below(2)) : random.uniform(low, 3);
    const Tensor host = empty(shape, value.dtype, cpu);
    backend::write_flat(host.view_of(), 0, numbers.data(), shape.numel());
    inputs.push_back(host.to(device));
    run.set(static_cast<int>(k), inputs.back());
    in.push_back(inputs.back().view_of().data);
  }
  for (const int v : program.outputs) {
    const RowValue& value = program.value(v);
    const Shape shape = run.shape_of(value.extent, value.shape);
    mine.push_back(empty(shape, value.dtype, device)), expected.push_back(empty(shape, value.dtype, device));
    run.set(v, expected.back());
    out.push_back(mine.back().view_of().data);
  }
  run.run(device);
  launch_rows(kernel, program, cut, count, out, in);
  for (size_t k = 0; k < mine.size(); ++k)
    if (!close_enough(expected[k], mine[k])) return false;
  return true;
}
// The trial of a kernel. Roots and logarithms of negative numbers would be NaN, which says nothing.
inline bool agrees_by_rows(const RowProgram& program, RowCut cut, const LoadedKernel& kernel) {
  return agrees_above(program, cut, kernel, -3) && agrees_above(program, cut, kernel, 0.5);
}

class DeviceRows {
 public:
  explicit DeviceRows(std::shared_ptr<const RowProgram> program, bool background = true,
                      DeviceKernels* kernels = nullptr)
      : program_(std::move(program)), background_(background), kernels_(kernels) {}

  // Queues the program on the current stream if its kernel is ready; false: nothing was done.
  bool run(const Tensors& outputs, const Tensors& inputs) {
    std::vector<void*> out;
    std::vector<const void*> in;
    for (const Tensor& t : outputs) out.push_back(t.view_of().data);
    for (const Tensor& t : inputs) in.push_back(t.view_of().data);
    const auto cut = row_cut(*program_, out, in);
    if (!cut) return false;
    std::shared_ptr<DeviceKernel> kernel;
    {
      const std::lock_guard guard(mutex_);
      std::shared_ptr<DeviceKernel>& known = made_[{backend::cuda::current_device(), *cut}];
      if (!known) {
        DeviceKernels& kernels = kernels_ ? *kernels_ : DeviceKernels::shared();
        known = kernels.build(emit_cuda_rows(*program_, *cut), background_);
      }
      kernel = known;
    }
    const LoadedKernel* const ready =
        kernel->usable([&](const LoadedKernel& k) { return agrees_by_rows(*program_, *cut, k); });
    if (ready == nullptr) return false;
    launch_rows(*ready, *program_, *cut, program_->rows, out, in);
    return true;
  }

  // Why no kernel runs; empty if one does, or waits for its trial.
  std::string problem() {
    const std::lock_guard guard(mutex_);
    for (const auto& [key, kernel] : made_)
      if (std::string found = kernel->problem(); !found.empty()) return found;
    return {};
  }

 private:
  const std::shared_ptr<const RowProgram> program_;
  const bool background_;
  DeviceKernels* const kernels_;
  std::mutex mutex_;
  std::map<std::pair<int, RowCut>, std::shared_ptr<DeviceKernel>> made_;  // by device
};

}  // namespace tinytorch::inline TT_BUILD::acceleration

namespace tinytorch::inline TT_BUILD {

inline void FusedRows::run(const Tensors& inputs, Tensors& outputs) const {
  if (on_device && on_device->run(outputs, inputs)) return;
  run_rows(*program, inputs, outputs);
}

}  // namespace tinytorch::inline TT_BUILD
