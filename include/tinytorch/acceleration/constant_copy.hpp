// ConstantCopy: the step of a captured graph by which each replay gets elements of its own of a constant that
// later steps overwrite.
#pragma once

#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/tensor/operators.hpp>
#include <tinytorch/tensor/primitive.hpp>

namespace tinytorch::inline TT_BUILD {

// The elements of a constant as a tensor that later steps may overwrite.
struct ConstantCopy final : Primitive<ConstantCopy> {
  static constexpr const char* kName = "copy";
  Specs infer(const Tensors& in, Loc) const override { return {{in[0].shape(), in[0].dtype()}}; }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], copy(out[0].view_of(), in[0].view_of()));
  }
  bool pointwise(backend::PointwiseStep& s) const override { return s.set(backend::PointwiseKind::convert); }
  bool differentiable() const override { return false; }
};

}  // namespace tinytorch::inline TT_BUILD
