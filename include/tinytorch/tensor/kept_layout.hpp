// Memory layout of an elementwise operation's result: that of its inputs (PyTorch's "preserve_format").
//
//   The first input that has the result's shape and no gaps in memory decides: the result gets its strides.
//   A row-major tensor and a permuted view of one have no gaps. Without such an input (all are broadcast,
//   sliced with gaps or expanded), the result is row-major.
//
//   x [2, 3, 4] row-major   x.t() * 2              strides [12, 1, 4], like x.t()
//                           x.t() + y [2, 4, 3]    the same, because x.t() is first
//                           y [2, 4, 3] + x.t()    row-major, like y
//                           x.slice(2, 1) * 2      row-major, because x.slice(2, 1) has gaps
// The rule holds for unary and binary functions, where, casts, clone, zeros_like, ones_like and dropout, and
// so for the gradients that are computed by them.
#pragma once

#include <tinytorch/backend/layout.hpp>
#include <tinytorch/tensor/tensor.hpp>

namespace tinytorch::inline TT_BUILD {

// Index of the input whose layout the result takes, for Spec::layout_like; -1 if the result is row-major.
// conv2d, pooling and batch_norm keep channels-last images on the CPU (follows_channels_last); all other
// operations, such as contiguous() and copies to another device, give row-major results.
inline int8_t kept_layout(const Tensors& inputs, const Shape& shape) {
  if (shape.size() < 2) return -1;  // only one layout is possible
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& t = inputs[i];
    if (!(t.shape() == shape)) continue;
    if (t.is_contiguous()) return -1;
    if (backend::is_dense(shape, t.strides())) return static_cast<int8_t>(i);
  }
  return -1;
}

// True if the result of an image operation should be channels-last, because `images` are.
inline bool follows_channels_last(const Tensor& images) {
  return images.device().is_cpu() && backend::is_channels_last(images.view_of());
}

// Uninitialized memory of x's shape, in x's layout if x has no gaps, else row-major.
inline Tensor empty_like(const Tensor& x, DType dtype, TT_LOC) {
  Tensor t = empty(x.shape(), dtype, x.device(), loc);
  if (!x.is_contiguous() && backend::is_dense(x.shape(), x.strides())) t.impl()->strides = x.strides();
  return t;
}

}  // namespace tinytorch::inline TT_BUILD
