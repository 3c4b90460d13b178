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
#include <optional>
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

  // A call of fixed sizes and strides, of which only the addresses change from run to run.
  struct FixedCall {
    KernelCall call;
    int64_t elements = 0, bytes = 0;  // of each result; of all operands and results
    std::shared_ptr<const BuiltKernel> kernel{};
  };
  // The call with operands and results of these shapes, strides and dtypes; their addresses are not read. It
  // starts the compiler. Nothing if no kernel is made for them. Shapes as in backend::cpu::pointwise.
  std::optional<FixedCall> fix(std::span<const View> out, std::span<const View> in) {
    if (out.empty() || out[0].numel() == 0) return FixedCall{};
    auto call = kernel_call_for(program_, out[0].shape, in, false);
    if (!call) return std::nullopt;
    FixedCall fixed{std::move(*call), out[0].numel()};
    for (const View& v : out) fixed.bytes += backend::cpu::bytes_of(v);
    for (const View& v : in) fixed.bytes += backend::cpu::bytes_of(v);
    fixed.kernel = kernel_for(fixed.call.layout);
    return fixed;
  }
  // Runs the call on these addresses if its kernel is ready; false: nothing was done. Results that are large
  // are written past the caches, by the rule of all elementwise functions. Overlaps as in
  // backend::cpu::pointwise.
  static bool run(FixedCall& fixed, std::span<void* const> out, std::span<const void* const> in) {
    if (fixed.elements == 0) return true;
    const KernelFunction kernel = fixed.kernel->run;
    if (kernel == nullptr) return false;
    const bool in_place =
        std::ranges::any_of(out, [&](const void* o) { return std::ranges::find(in, o) != in.end(); });
    fixed.call.arguments.back() = fixed.bytes > streaming_bytes && !in_place ? 1 : 0;
    parallel_for(fixed.elements, kElementwiseGrain, [&](int64_t begin, int64_t end) {
      kernel(out.data(), in.data(), fixed.call.arguments.data(), begin, end);
    });
    return true;
  }

  // Computes the program if its kernel is ready; false: nothing was done.
  bool run(std::span<const View> out, std::span<const View> in) {
    std::optional<FixedCall> fixed = fix(out, in);
    if (!fixed) return false;
    void* results[kKernelOperands];
    const void* operands[kKernelOperands] = {};
    for (size_t k = 0; k < out.size(); ++k) results[k] = out[k].data;
    for (size_t k = 0; k < in.size(); ++k) operands[k] = in[k].data;
    return run(*fixed, {results, out.size()}, {operands, in.size()});
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

  std::shared_ptr<const BuiltKernel> kernel_for(const KernelLayout& layout) {
    {
      const std::lock_guard guard(mutex_);
      for (const Variant& v : variants_)
        if (v.layout == layout) return v.kernel;
    }
    const std::shared_ptr<BuiltKernel> kernel = builder_.build(program_, layout, background_);
    const std::lock_guard guard(mutex_);
    variants_.push_back({layout, kernel});
    return kernel;
  }

  const PointwiseProgram program_;
  KernelBuilder& builder_;
  const bool background_;
  mutable std::mutex mutex_;
  std::vector<Variant> variants_;
};

}  // namespace tinytorch::inline TT_BUILD::acceleration
