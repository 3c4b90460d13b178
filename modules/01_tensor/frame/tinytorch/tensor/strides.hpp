// Shape arithmetic: row-major strides, NumPy broadcasting, and the sizes and strides of views.
//
// The frame of a course header: it has the given parts, and includes the functions of tasks 1.1, 1.2 and 1.6.
// It is cut from the library's header by modules/frames.py.
#pragma once

#include <algorithm>
#include <optional>
#include <tinytorch/core/shape.hpp>

namespace tinytorch::inline TT_BUILD {

inline Strides contiguous_strides(const Shape& shape);                  // task 1.1
inline bool is_contiguous(const Shape& shape, const Strides& strides);  // task 1.1

inline std::optional<Shape> broadcast_shapes(const Shape& a, const Shape& b);                   // task 1.2
inline Strides broadcast_strides(const Shape& shape, const Strides& strides, const Shape& to);  // task 1.2

// Task 1.6.
inline std::optional<Strides> reshape_strides(const Shape& from, const Strides& strides, const Shape& to);

// A view of the same elements with another shape, without moving any of them.
struct StridedShape {
  Shape shape;
  Strides strides;
  int64_t first = 0;  // offset of the view's first element from the old first element, in elements
};

inline StridedShape permuted(const Shape& shape, const Strides& strides, const Dims& order);  // task 1.6
inline int64_t slice_position(int64_t position, int64_t size);                                // task 1.6
inline StridedShape sliced(const Shape& shape, const Strides& strides, int dim, int64_t start, int64_t stop,
                           int64_t step);  // task 1.6

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/tensor/strides.hpp>
