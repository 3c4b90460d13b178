// FusedPointwise: several elementwise steps of a graph as one primitive with one kernel.
//
// Profilers, a second capture and the planner see it like any other operation: its FLOPs are the sum of its
// parts, and its bytes are those of its operands and results alone. It has no derivative, because graphs of a
// derivative are fused after they were captured.
#pragma once

#include <memory>
#include <string>
#include <tinytorch/acceleration/compiled_pointwise.hpp>
#include <tinytorch/acceleration/device_pointwise.hpp>
#include <tinytorch/backend/cpu/pointwise.hpp>
#include <tinytorch/backend/cuda/launch.hpp>
#include <tinytorch/tensor/primitive.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// Chooses what computes a fused step: the interpreter, or a kernel that is compiled by the system's C++
// compiler (CPU) or by NVRTC (GPU). With `background`, the interpreter runs until the kernel is ready; with
// `compiled`, the first run waits for it.
enum class RegionKernels : uint8_t { interpreted, background, compiled };

struct FusedPointwise final : Primitive<FusedPointwise> {
  static constexpr const char* kName = "fused";
  std::shared_ptr<const backend::PointwiseProgram> program;
  std::shared_ptr<acceleration::CompiledPointwise> compiled;  // on the CPU; null: the interpreter always runs
  std::shared_ptr<acceleration::DevicePointwise> on_device;   // the same on a GPU
  Shape shape;                                                // of every result
  std::string parts;                                          // "fused(add, gelu, mul)"
  double work = 0;                                            // FLOPs

  const char* name() const override { return parts.c_str(); }
  Specs infer(const Tensors&, Loc) const override {
    Specs specs;
    for (const int v : program->outputs) specs.push_back({shape, program->dtype_of_value(v)});
    return specs;
  }
  double flops(const Tensors&, const Tensors&) const override { return work; }
  bool differentiable() const override { return false; }
  void run(const Tensors& inputs, Tensors& outputs) const override {
    SmallVector<backend::View, 8> in, out;
    for (const Tensor& t : inputs) in.push_back(t.view_of());
    for (const Tensor& t : outputs) out.push_back(t.view_of());
    const std::span<const backend::View> results(out.begin(), out.end()), operands(in.begin(), in.end());
    if (compiled && compiled->run(results, operands)) return;
    if (on_device && on_device->run(results, operands)) return;
    TT_KERNEL(outputs[0], pointwise(*program, results, operands));
  }
};

}  // namespace tinytorch::inline TT_BUILD
