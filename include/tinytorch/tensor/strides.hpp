// Shape algebra: row-major strides, NumPy broadcasting, and what a view's sizes and strides are.
//
//   contiguous_strides([2,3,4]) = [12,4,1]
//   broadcast_shapes([5,1,4], [3,1]) = [5,3,4]     sizes align at the right; 1 stretches
// Source: NumPy user guide, "Broadcasting"; NumPy's no-copy reshape rule.
#pragma once

#include <algorithm>
#include <optional>
#include <tinytorch/core/shape.hpp>

namespace tinytorch::inline TT_BUILD {

// Strides of a row-major tensor without gaps: 1 for the last dimension, and for each other one the number of
// elements that its later dimensions hold. A size of 0 counts as 1.
inline Strides contiguous_strides(const Shape& shape) {
  Strides strides = Strides::filled(shape.size(), 1);
  for (int d = shape.size() - 2; d >= 0; --d)
    strides[d] = strides[d + 1] * std::max<int64_t>(shape[d + 1], 1);
  return strides;
}

// Row-major without gaps. A dimension of size 1 may have any stride; an empty tensor is always contiguous.
inline bool is_contiguous(const Shape& shape, const Strides& strides) {
  if (shape.numel() == 0) return true;
  int64_t expected = 1;
  for (int d = shape.size() - 1; d >= 0; --d) {
    if (shape[d] != 1 && strides[d] != expected) return false;
    expected *= shape[d];
  }
  return true;
}

// The common shape of two operands, or nothing where a pair of sizes differs and neither is 1.
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

// Strides that show a tensor as the larger shape `to`, stepping 0 where it is stretched and in dimensions
// that it lacks. `to` must be broadcast_shapes(shape, something).
inline Strides broadcast_strides(const Shape& shape, const Strides& strides, const Shape& to) {
  Strides out = Strides::filled(to.size(), 0);
  const int shift = to.size() - shape.size();
  for (int d = 0; d < shape.size(); ++d)
    out[d + shift] = shape[d] == 1 && to[d + shift] != 1 ? 0 : strides[d];
  return out;
}

// Strides that show the same elements, in the same order, as `to`; nothing where only a copy can.
// Groups of dimensions with equal products correspond; inside a group the old strides must be mergeable.
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

// The same elements seen in another way, without moving one.
struct StridedShape {
  Shape shape;
  Strides strides;
  int64_t first = 0;  // offset of its first element from the old one's, in elements of memory
};

// Dimension d of the result is dimension order[d] of the old one; order names each once. A transpose is the
// order that exchanges two.
inline StridedShape permuted(const Shape& shape, const Strides& strides, const Dims& order) {
  StridedShape out;
  for (int64_t d : order) {
    out.shape.push_back(shape[static_cast<int>(d)]);
    out.strides.push_back(strides[static_cast<int>(d)]);
  }
  return out;
}

// A position of a slice as a number in [0, size]: a negative one counts from the end, one outside is moved to
// the nearest end.
inline int64_t slice_position(int64_t position, int64_t size) {
  return std::clamp<int64_t>(position < 0 ? position + size : position, 0, size);
}

// Every step-th index of dimension `dim` from `start` to below `stop`; 0 <= start <= stop <= its size and
// step >= 1. In memory it begins start * strides[dim] elements further on.
inline StridedShape sliced(const Shape& shape, const Strides& strides, int dim, int64_t start, int64_t stop,
                           int64_t step) {
  StridedShape out{shape, strides, start * strides[dim]};
  out.shape[dim] = (stop - start + step - 1) / step;
  out.strides[dim] = strides[dim] * step;
  return out;
}

}  // namespace tinytorch::inline TT_BUILD
