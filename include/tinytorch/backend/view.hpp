// View: a tensor as kernels see it. It has a pointer, an element type, sizes and strides, and no ownership
// and no graph.
#pragma once

#include <tinytorch/core/dtype.hpp>
#include <tinytorch/core/shape.hpp>

namespace tinytorch::inline TT_BUILD::backend {

struct View {
  void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;
  Strides strides;  // in elements; 0 along a broadcast dimension

  int rank() const { return shape.size(); }
  int64_t numel() const { return shape.numel(); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  bool contiguous() const {
    int64_t expected = 1;
    for (int d = rank() - 1; d >= 0; --d) {
      if (shape[d] != 1 && strides[d] != expected) return numel() == 0;
      expected *= shape[d];
    }
    return true;
  }
};

// The transposed view of a matrix: [R, C] as [C, R].
// Rows first to first + count - 1 of a matrix.
inline View rows_of(const View& v, int64_t first, int64_t count) {
  View part = v;
  part.data = static_cast<uint8_t*>(v.data) + first * v.strides[0] * static_cast<int64_t>(size_of(v.dtype));
  part.shape[0] = count;
  return part;
}
inline View transposed(const View& v) {
  return {v.data, v.dtype, {v.shape[1], v.shape[0]}, {v.strides[1], v.strides[0]}};
}

// v [..., R, C] without its last two dimensions.
inline View batches_of(const View& v) {
  return {v.data, v.dtype, Shape(v.shape.begin(), v.shape.end() - 2),
          Strides(v.strides.begin(), v.strides.end() - 2)};
}

}  // namespace tinytorch::inline TT_BUILD::backend
