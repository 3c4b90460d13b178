// Derivative of embedding: each row of dy is added to the row of the table that the index selected.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/embedding.hpp>
#include <tinytorch/tensor/apply.hpp>

namespace tinytorch::inline TT_BUILD {

// dy, index -> dweight
struct EmbeddingGrad final : Primitive<EmbeddingGrad> {
  static constexpr const char* kName = "embedding_grad";
  Shape weight_shape;
  explicit EmbeddingGrad(Shape w) : weight_shape(w) {}
  Specs infer(const Tensors& in, Loc) const override { return {{weight_shape, in[0].dtype()}}; }
  double flops(const Tensors& in, const Tensors&) const override {
    return static_cast<double>(in[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], embedding_grad(out[0].view_of(), in[0].view_of(), in[1].view_of()));
  }
  Save saves() const override { return Save::inputs; }
  bool saves_input(size_t i) const override { return i == 1; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    return {tinytorch::embedding(g[0], s.inputs[1]), Tensor()};
  }
};

namespace vjp {
inline Tensor embedding(const Tensor& g, const Tensor& index, const Shape& weight_shape) {
  return apply(EmbeddingGrad(weight_shape), {g, index});
}
}  // namespace vjp

}  // namespace tinytorch::inline TT_BUILD
#endif
