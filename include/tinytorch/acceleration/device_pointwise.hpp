// A pointwise program on a GPU that runs as compiled code as soon as that is ready.
//
//   DevicePointwise compiled(program);
//   if (!compiled.run(out, in)) backend::cuda::pointwise(program, out, in);   // the same bits
//
// The counterpart of CompiledPointwise (compiled_pointwise.hpp): the first call with a class of layout starts
// the compiler, and until the kernel is ready run() returns false. Without NVRTC, and on the emulator, it
// always does. Threads may share an object.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <tinytorch/acceleration/device_kernels.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD::acceleration {

class DevicePointwise {
 public:
  // With `background` false, a call waits for the compiler. `kernels`: null for those of the process.
  explicit DevicePointwise(PointwiseProgram program, bool background = true, DeviceKernels* kernels = nullptr)
      : program_(std::move(program)), background_(background), kernels_(kernels) {}

  // Queues the program on the current stream if its kernel is ready; false: nothing was done. Shapes and
  // overlaps as in backend::cpu::pointwise.
  bool run(std::span<const View> out, std::span<const View> in) {
    if (out.empty() || out[0].numel() == 0) return true;
    const auto call = kernel_call_for(program_, out[0].shape, in, false);
    if (!call) return false;
    void* results[kKernelOperands];
    const void* operands[kKernelOperands] = {};
    for (size_t k = 0; k < out.size(); ++k) results[k] = out[k].data;
    for (size_t k = 0; k < in.size(); ++k) operands[k] = in[k].data;
    const std::span<void* const> to(results, out.size());
    const std::span<const void* const> from(operands, in.size());
    const int elements = elements_per_thread(program_, *call, to, from);
    const LoadedKernel* const kernel = kernel_for(call->layout, elements);
    if (kernel == nullptr) return false;
    launch_pointwise(*kernel, *call, elements, to, from, out[0].numel());
    return true;
  }

  // Why no kernel runs for the layouts that were seen; empty if all do, or wait for their trial.
  std::string problem() {
    const std::lock_guard guard(mutex_);
    for (const Variant& v : variants_)
      if (std::string found = v.kernel->problem(); !found.empty()) return found;
    return {};
  }

 private:
  struct Variant {
    KernelLayout layout;
    int elements;
    int device;
    std::shared_ptr<DeviceKernel> kernel;
  };

  const LoadedKernel* kernel_for(const KernelLayout& layout, int elements) {
    std::shared_ptr<DeviceKernel> kernel;
    {
      const std::lock_guard guard(mutex_);
      const int device = backend::cuda::current_device();
      for (const Variant& v : variants_)
        if (v.layout == layout && v.elements == elements && v.device == device) kernel = v.kernel;
      if (!kernel) {
        DeviceKernels& kernels = kernels_ ? *kernels_ : DeviceKernels::shared();
        kernel = kernels.build(emit_cuda(program_, layout, elements), background_);
        variants_.push_back({layout, elements, device, kernel});
      }
    }
    return kernel->usable(
        [&](const LoadedKernel& k) { return agrees_on_device(program_, layout, elements, k); });
  }

  const PointwiseProgram program_;
  const bool background_;
  DeviceKernels* const kernels_;
  std::mutex mutex_;
  std::vector<Variant> variants_;
};

}  // namespace tinytorch::inline TT_BUILD::acceleration
