// Which order in memory the result of an elementwise op takes: that of its inputs, as in PyTorch
// ("preserve_format").
//
//   The first input that has the result's shape and is dense decides. Dense: it fills its memory without
//   gaps, as a row-major tensor or a permuted view of one. The result gets its strides. Without such an input
//   (all are broadcast, sliced with gaps or expanded), the result is row-major.
//
//   x [2, 3, 4] row-major      x.t() * 2              strides [12, 1, 4], as x.t() has
//                              x.t() + y [2, 4, 3]    the same: x.t() comes first
//                              y [2, 4, 3] + x.t()    row-major, as y is
//                              x.slice(2, 1) * 2      row-major: x.slice(2, 1) has gaps
//
// This holds for unary and binary functions, where, casts, clone, zeros_like, ones_like and dropout, and so
// for the gradients that are made of them. conv2d, pooling and batch_norm keep images that lie pixel by pixel
// ("channels last") on the CPU. All others, contiguous() and copies to another device among them, give
// row-major results.
#pragma once

#include <tinytorch/backend/layout.hpp>
#include <tinytorch/tensor/tensor.hpp>

namespace tinytorch::inline TT_BUILD {

// The input that decides for a result of that shape, as Spec takes it; -1: the result is row-major.
inline int8_t kept_layout(const Tensors& inputs, const Shape& shape) {
  if (shape.size() < 2) return -1;  // there is one order
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& t = inputs[i];
    if (!(t.shape() == shape)) continue;
    if (t.is_contiguous()) return -1;
    if (backend::is_dense(shape, t.strides())) return static_cast<int8_t>(i);
  }
  return -1;
}

// Whether images that are computed from these are to lie pixel by pixel, as they do.
inline bool follows_channels_last(const Tensor& images) {
  return images.device().is_cpu() && backend::is_channels_last(images.view_of());
}

// Uninitialized memory of x's shape and of that layout.
inline Tensor empty_like(const Tensor& x, DType dtype, TT_LOC) {
  Tensor t = empty(x.shape(), dtype, x.device(), loc);
  if (!x.is_contiguous() && backend::is_dense(x.shape(), x.strides())) t.impl()->strides = x.strides();
  return t;
}

}  // namespace tinytorch::inline TT_BUILD
