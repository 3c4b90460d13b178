// Shape arithmetic: row-major strides, NumPy broadcasting, and the sizes and strides of views.
//
//   contiguous_strides([2,3,4]) = [12,4,1]
//   broadcast_shapes([5,1,4], [3,1]) = [5,3,4]     sizes are aligned at the right; a 1 is stretched
//
// Source: NumPy user guide, "Broadcasting"; NumPy's no-copy reshape rule.
#pragma once

#include <algorithm>
#include <optional>
#include <tinytorch/core/shape.hpp>

namespace tinytorch::inline TT_BUILD {

// Strides of a row-major tensor without gaps: 1 for the last dimension; for every other one, the product of
// the sizes of the later dimensions. A size of 0 counts as 1.
inline Strides contiguous_strides(const Shape& shape) {
  Strides strides = Strides::filled(shape.size(), 1);
  for (int d = shape.size() - 2; d >= 0; --d)
    strides[d] = strides[d + 1] * std::max<int64_t>(shape[d + 1], 1);
  return strides;
}

// True for row-major strides without gaps. A dimension of size 1 may have any stride; an empty tensor is
// always contiguous.
inline bool is_contiguous(const Shape& shape, const Strides& strides) {
  if (shape.numel() == 0) return true;
  int64_t expected = 1;
  for (int d = shape.size() - 1; d >= 0; --d) {
    if (shape[d] != 1 && strides[d] != expected) return false;
    expected *= shape[d];
  }
  return true;
}

// The common shape of two operands, or nullopt if two sizes differ and neither is 1.
inline std::optional<Shape> broadcast_shapes(const Shape& a, const Shape& b) {
  if (a == b) return a;
  const int rank = std::max(a.size(), b.size());
  Shape out = Shape::filled(rank, 1);
  for (int d = 0; d < rank; ++d) {
    const int ia = d - (rank - a.size()), ib = d - (rank - b.size());
    const int64_t size_a = ia >= 0 ? a[ia] : 1, size_b = ib >= 0 ? b[ib] : 1;
    if (size_a != size_b && size_a != 1 && size_b != 1) return std::nullopt;
    out[d] = size_a == 1 ? size_b : size_a;
  }
  return out;
}

// Strides that present a tensor as the larger shape `to`: 0 in stretched and in added dimensions. `to` must
// be broadcast_shapes(shape, other) for some other shape.
inline Strides broadcast_strides(const Shape& shape, const Strides& strides, const Shape& to) {
  Strides out = Strides::filled(to.size(), 0);
  const int shift = to.size() - shape.size();
  for (int d = 0; d < shape.size(); ++d)
    out[d + shift] = shape[d] == 1 && to[d + shift] != 1 ? 0 : strides[d];
  return out;
}

// Strides that present the same elements, in the same order, as shape `to`; nullopt if this needs a copy.
// Groups of dimensions with equal products correspond; inside a group, the old strides must be mergeable.
inline std::optional<Strides> reshape_strides(const Shape& from, const Strides& strides, const Shape& to) {
  if (from.numel() == 0) return contiguous_strides(to);
  Shape old_shape;
  Strides old_strides;
  for (int d = 0; d < from.size(); ++d) {
    if (from[d] == 1) continue;
    old_shape.push_back(from[d]);
    old_strides.push_back(strides[d]);
  }
  Strides out = Strides::filled(to.size(), 1);
  int i = 0, j = 0;
  while (i < old_shape.size() && j < to.size()) {
    int i_end = i + 1, j_end = j + 1;
    int64_t old_size = old_shape[i], new_size = to[j];
    while (old_size != new_size) {
      if (old_size < new_size) {
        old_size *= old_shape[i_end++];
      } else {
        new_size *= to[j_end++];
      }
    }
    for (int k = i; k + 1 < i_end; ++k) {
      if (old_strides[k] != old_strides[k + 1] * old_shape[k + 1]) return std::nullopt;
    }
    int64_t step = old_strides[i_end - 1];
    for (int k = j_end - 1; k >= j; --k) {
      out[k] = step;
      step *= to[k];
    }
    i = i_end;
    j = j_end;
  }
  return out;
}

// A view of the same elements with another shape, without moving any of them.
struct StridedShape {
  Shape shape;
  Strides strides;
  int64_t first = 0;  // offset of the view's first element from the old first element, in elements
};

// Dimension d of the result is dimension order[d] of the old shape; `order` contains each dimension once. A
// transpose is the order that exchanges two dimensions.
inline StridedShape permuted(const Shape& shape, const Strides& strides, const Dims& order) {
  StridedShape out;
  for (int64_t d : order) {
    out.shape.push_back(shape[static_cast<int>(d)]);
    out.strides.push_back(strides[static_cast<int>(d)]);
  }
  return out;
}

// Converts a position of a slice to a number in [0, size]. A negative position counts from the end; a
// position outside is clamped.
inline int64_t slice_position(int64_t position, int64_t size) {
  return std::clamp<int64_t>(position < 0 ? position + size : position, 0, size);
}

// Every step-th index of dimension `dim` from `start` to below `stop`. Requires 0 <= start <= stop <= size of
// `dim`, and step >= 1. The first element of the view is start * strides[dim] elements after the old one.
inline StridedShape sliced(const Shape& shape, const Strides& strides, int dim, int64_t start, int64_t stop,
                           int64_t step) {
  StridedShape out{shape, strides, start * strides[dim]};
  out.shape[dim] = ceil_div(stop - start, step);
  out.strides[dim] = strides[dim] * step;
  return out;
}

}  // namespace tinytorch::inline TT_BUILD
