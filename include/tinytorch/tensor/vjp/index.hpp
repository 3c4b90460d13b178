// Derivatives of the indexing operations: each element gets the sum of the gradients of its copies.
#pragma once

#include <tinytorch/tensor/operators.hpp>
#include <tinytorch/tensor/primitive.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/backend/cpu/index.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/fill.hpp>

namespace tinytorch::inline TT_BUILD {

// Sizes of a shape before, along and after one dimension.
struct RowLayout {
  int64_t outer = 1, size = 1, inner = 1;
  RowLayout(const Shape& shape, int dim) : size(shape[dim]) {
    for (int d = 0; d < dim; ++d) outer *= shape[d];
    for (int d = dim + 1; d < shape.size(); ++d) inner *= shape[d];
  }
};

// g, index -> zeros(shape) plus the rows of g, added at `index` along dim
struct IndexSelectGrad final : Primitive<IndexSelectGrad> {
  static constexpr const char* kName = "index_select_grad";
  Shape shape;
  int dim;
  IndexSelectGrad(const Shape& s, int d) : shape(s), dim(d) {}
  Specs infer(const Tensors& in, Loc) const override { return {{shape, in[0].dtype()}}; }
  double flops(const Tensors& in, const Tensors&) const override {
    return static_cast<double>(in[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    // For 16-bit data, the sums are computed in f32, because they can have many terms.
    const bool narrow = is_16_bit(in[0].dtype());
    Tensor sums = narrow ? empty(shape, DType::f32, in[0].device()) : out[0];
    fill_values(sums, 0);
    const RowLayout l(shape, dim);
    const Tensor source = in[0].detach().to(sums.dtype()).contiguous(), at = in[1].contiguous();
    TT_KERNEL(sums,
              add_rows(sums.view_of(), source.view_of(), at.view_of(), l.outer, at.numel(), l.size, l.inner));
    if (narrow) TT_KERNEL(sums, copy(out[0].view_of(), sums.view_of()));
  }
  Save saves() const override { return Save::inputs; }
  bool saves_input(size_t i) const override { return i == 1; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    return {tinytorch::index_select(g[0], dim, s.inputs[1]), Tensor()};
  }
};

namespace vjp {

inline Tensors cat(const Tensor& g, const Shapes& shapes, int dim) {
  Tensors grads;
  int64_t at = 0;
  for (const Shape& s : shapes) {
    grads.push_back(g.slice(dim, at, at + s[dim]));
    at += s[dim];
  }
  return grads;
}
inline Tensor pad(const Tensor& g, const Shape& shape,
                  const std::vector<std::pair<int64_t, int64_t>>& widths) {
  Tensor inner = g;
  for (int d = 0; d < shape.size(); ++d) {
    const int64_t before = widths[static_cast<size_t>(d)].first;
    inner = inner.slice(d, before, before + shape[d]);
  }
  return inner;
}
inline Tensor flip(const Tensor& g, const Dims& dims) { return tinytorch::flip(g, dims); }
inline Tensor triangle(const Tensor& g, int64_t diagonal, bool lower) {
  return lower ? tril(g, diagonal) : triu(g, diagonal);
}
inline Tensor index_select(const Tensor& g, const Shape& shape, int dim, const Tensor& index) {
  return apply(IndexSelectGrad(shape, dim), {g, index});
}
inline Tensor gather(const Tensor& g, const Shape& shape, int dim, const Tensor& index) {
  return tinytorch::scatter_add(zeros(shape, g.dtype(), g.device()), dim, index, g);
}
inline Tensors scatter_add(const Tensor& g, int dim, const Tensor& index) {
  return {g, Tensor(), tinytorch::gather(g, dim, index)};
}

}  // namespace vjp
}  // namespace tinytorch::inline TT_BUILD
#endif
