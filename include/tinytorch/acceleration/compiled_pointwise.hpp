// A pointwise program that runs as compiled code as soon as that is ready.
//
//   CompiledPointwise compiled(program);
//   if (!compiled.run(out, in)) backend::cpu::pointwise(program, out, in);   // the same bits
//
// The first call with a class of layout starts the compiler in the background; until the kernel is ready,
// run() returns false and the caller uses the interpreter. A kernel serves all sizes. Without a compiler
// run() always returns false. Threads may share an object.
#pragma once

#include <algorithm>
#include <mutex>
#include <span>
#include <string>
#include <tinytorch/acceleration/kernel_builder.hpp>
#include <tinytorch/backend/cpu/loops/non_temporal.hpp>
#include <tinytorch/core/parallel.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD::acceleration {

class CompiledPointwise {
 public:
  struct Options {
    bool background = true;            // false: the first call waits for the compiler
    KernelBuilder* builder = nullptr;  // null: the one of this process
  };

  explicit CompiledPointwise(PointwiseProgram program) : CompiledPointwise(std::move(program), Options()) {}
  CompiledPointwise(PointwiseProgram program, Options options)
      : program_(std::move(program)),
        builder_(options.builder ? *options.builder : KernelBuilder::shared()),
        background_(options.background) {}

  const PointwiseProgram& program() const { return program_; }

  // Computes the program if its kernel is ready; false: nothing was done. Shapes and overlaps as in
  // backend::cpu::pointwise.
  bool run(std::span<const View> out, std::span<const View> in) {
    if (out.empty() || out[0].numel() == 0) return true;
    const auto call = kernel_call_for(program_, out[0].shape, in, non_temporal(out, in));
    if (!call) return false;
    const KernelFunction kernel = kernel_for(call->layout);
    if (kernel == nullptr) return false;
    void* results[kKernelOperands];
    const void* operands[kKernelOperands] = {};
    for (size_t k = 0; k < out.size(); ++k) results[k] = out[k].data;
    for (size_t k = 0; k < in.size(); ++k) operands[k] = in[k].data;
    parallel_for(out[0].numel(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
      kernel(results, operands, call->arguments.data(), begin, end);
    });
    return true;
  }

  // Starts the compiler for inputs and results of these layouts, without running anything.
  void prepare(std::span<const View> out, std::span<const View> in) {
    if (out.empty() || out[0].numel() == 0) return;
    if (const auto call = kernel_call_for(program_, out[0].shape, in, false)) kernel_for(call->layout);
  }

  // The kernels of this program, one for each class of layout that was seen.
  std::vector<std::shared_ptr<const BuiltKernel>> kernels() const {
    const std::lock_guard guard(mutex_);
    std::vector<std::shared_ptr<const BuiltKernel>> all;
    for (const Variant& v : variants_) all.push_back(v.kernel);
    return all;
  }

 private:
  struct Variant {
    KernelLayout layout;
    std::shared_ptr<BuiltKernel> kernel;
  };

  // True if results are written past the caches, by the rule of all elementwise functions.
  static bool non_temporal(std::span<const View> out, std::span<const View> in) {
    int64_t bytes = 0;
    for (const View& v : out) bytes += backend::cpu::bytes_of(v);
    for (const View& v : in) bytes += backend::cpu::bytes_of(v);
    if (bytes <= streaming_bytes) return false;
    return std::ranges::none_of(out, [&](const View& o) {
      return std::ranges::any_of(in, [&](const View& v) { return v.data == o.data; });
    });
  }

  KernelFunction kernel_for(const KernelLayout& layout) {
    {
      const std::lock_guard guard(mutex_);
      for (const Variant& v : variants_)
        if (v.layout == layout) return v.kernel->run;
    }
    const std::shared_ptr<BuiltKernel> kernel = builder_.build(program_, layout, background_);
    const std::lock_guard guard(mutex_);
    variants_.push_back({layout, kernel});
    return kernel->run;
  }

  const PointwiseProgram program_;
  KernelBuilder& builder_;
  const bool background_;
  mutable std::mutex mutex_;
  std::vector<Variant> variants_;
};

}  // namespace tinytorch::inline TT_BUILD::acceleration
