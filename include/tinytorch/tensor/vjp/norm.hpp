// Derivatives of layer_norm and rms_norm: one pass over dy and x computes dx, dweight and dbias.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/norm.hpp>
#include <tinytorch/tensor/apply.hpp>

namespace tinytorch::inline TT_BUILD {

// Selects the gradients that are needed. Only these are outputs of the primitive; the kernel takes all of
// them in order, and an empty view for each that is not needed.
struct WantedGrads {
  std::vector<bool> wanted;

  Specs specs(const Shapes& shapes, DType dtype) const {
    Specs out;
    for (size_t k = 0; k < wanted.size(); ++k) {
      if (wanted[k]) out.push_back({shapes[k], dtype});
    }
    return out;
  }
  std::vector<backend::View> views(const Tensors& out) const {
    std::vector<backend::View> v(wanted.size());
    for (size_t k = 0, next = 0; k < wanted.size(); ++k) {
      if (wanted[k]) v[k] = out[next++].view_of();
    }
    return v;
  }
  // One gradient per input from the outputs; undefined where none is needed.
  Tensors spread(const Tensors& out) const {
    Tensors t(wanted.size());
    for (size_t k = 0, next = 0; k < wanted.size(); ++k) {
      if (wanted[k]) t[k] = out[next++];
    }
    return t;
  }
};

// dy, x, mean (undefined for rms_norm), rstd, weight -> those needed of dx, dweight, dbias
struct RowNormGrad final : Primitive<RowNormGrad> {
  static constexpr const char* kName = "layer_norm_grad";
  WantedGrads grads;
  Shapes shapes;
  RowNormGrad(WantedGrads g, Shapes s) : grads(std::move(g)), shapes(std::move(s)) {}
  Specs infer(const Tensors& in, Loc) const override { return grads.specs(shapes, in[1].dtype()); }
  double flops(const Tensors& in, const Tensors&) const override {
    return 13 * static_cast<double>(in[1].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    const std::vector<backend::View> to = grads.views(out);
    TT_KERNEL(in[0],
              layer_norm_grad(to[0], to[1], to.size() > 2 ? to[2] : backend::View{}, in[0].view_of(),
                              in[1].view_of(), view_or_none(in[2]), in[3].view_of(), view_or_none(in[4])));
  }
  bool differentiable() const override { return false; }
};

namespace vjp {

// Inputs x, weight, bias; outputs y, mean, rstd.
inline Tensors layer_norm(const Tensor& g, const Saved& s) {
  const WantedGrads wanted{s.needs_grad};
  return wanted.spread(apply_all(RowNormGrad(wanted, s.input_shapes),
                                 {g, s.inputs[0], s.outputs[1], s.outputs[2], s.inputs[1]}));
}
// Inputs x, weight; outputs y, rstd.
inline Tensors rms_norm(const Tensor& g, const Saved& s) {
  const WantedGrads wanted{s.needs_grad};
  return wanted.spread(
      apply_all(RowNormGrad(wanted, s.input_shapes), {g, s.inputs[0], Tensor(), s.outputs[1], s.inputs[1]}));
}

}  // namespace vjp
}  // namespace tinytorch::inline TT_BUILD
#endif
