// Derivative of rotate_pairs: a rotation is linear, and its transpose rotates back.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/rotate_pairs.hpp>
#include <tinytorch/tensor/apply.hpp>

namespace tinytorch::inline TT_BUILD {

// x, cos, sin and, if they differ, positions -> x rotated
struct RotatePairsOp final : Primitive<RotatePairsOp> {
  static constexpr const char* kName = "rotate_pairs";
  int64_t first;
  bool inverse;
  RotatePairsOp(int64_t f, bool i) : first(f), inverse(i) {}
  Specs infer(const Tensors& in, Loc) const override { return {{in[0].shape(), in[0].dtype()}}; }
  double flops(const Tensors& in, const Tensors&) const override {
    return 3 * static_cast<double>(in[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    const backend::View positions = in.size() > 3 ? in[3].view_of() : backend::View{};
    TT_KERNEL(out[0], rotate_pairs(out[0].view_of(), in[0].view_of(),
                                   {in[1].view_of(), in[2].view_of(), positions, first, inverse}));
  }
  Save saves() const override { return Save::inputs; }
  bool saves_input(size_t i) const override { return i > 0; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    Tensors in = s.inputs, grads(in.size());
    in[0] = g[0];
    grads[0] = apply(RotatePairsOp(first, !inverse), in);
    return grads;
  }
};

}  // namespace tinytorch::inline TT_BUILD
#endif
