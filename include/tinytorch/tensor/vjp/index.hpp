// Derivatives of the indexing operations: each element gets the sum of the gradients of its copies.
#pragma once

#include <tinytorch/tensor/operators.hpp>
#include <tinytorch/tensor/primitive.hpp>

#if TT_BODIES(TENSOR)

namespace tinytorch::inline TT_BUILD {

// zeros(shape) plus the rows of g, added at `index` along dim: the derivative of index_select.
TT_API Tensor scatter_rows(const Tensor& g, const Shape& shape, int dim, const Tensor& index);

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
  return scatter_rows(g, shape, dim, index);
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
