// Layout of strided views: broadcast strides, collapsed dimensions, memory order, and compute types; the same
// on every device.
//
// The frame of a course header: it has the given parts, and includes the functions of task 1.3. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <algorithm>
#include <limits>
#include <span>
#include <tinytorch/backend/view.hpp>
#include <utility>

namespace tinytorch::inline TT_BUILD::backend {

// Calls f with a null pointer of the compute type of dtype t.
template <class F>
decltype(auto) dispatch_compute(DType t, F&& f) {
  switch (t) {
    case DType::f32:
    case DType::bf16:
    case DType::f16:
      return f(static_cast<float*>(nullptr));
    case DType::f64:
      return f(static_cast<double*>(nullptr));
    case DType::i64:
      return f(static_cast<int64_t*>(nullptr));
    default:
      return f(static_cast<int32_t*>(nullptr));
  }
}

inline Strides stretch(const View& v, const Shape& shape);  // task 1.3
template <size_t kCount>
void collapse(Shape& shape, Strides (&strides)[kCount], size_t count);  // task 1.3

// True if strides are non-increasing, so that row-major order is memory order.
inline bool strides_fall(const Shape& shape, const Strides& strides) {
  int64_t outer = std::numeric_limits<int64_t>::max();
  for (int d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    if (strides[d] > outer) return false;
    outer = strides[d];
  }
  return true;
}

// Sorts the dimensions of all operands by the strides of operand 0, usually the output, in descending order.
// Elementwise functions may process elements in any order; in this one, operands of the same permuted layout
// collapse like row-major ones.
inline void sort_dimensions(Shape& shape, std::span<Strides> strides) {
  for (int d = 1; d < shape.size(); ++d) {
    for (int at = d; at > 0 && strides[0][at] > strides[0][at - 1]; --at) {
      std::swap(shape[at], shape[at - 1]);
      for (Strides& s : strides) std::swap(s[at], s[at - 1]);
    }
  }
}

inline constexpr size_t kMostInputs = 3;  // inputs of an elementwise function

// Stretches the inputs to the shape of out, and permutes the dimensions of all views to match the memory
// order of out.
inline void sort_views(View& out, std::span<View> in) {
  Shape shape = out.shape;
  Strides strides[kMostInputs + 1] = {out.strides};
  for (size_t k = 0; k < in.size(); ++k) strides[k + 1] = stretch(in[k], out.shape);
  sort_dimensions(shape, std::span(strides).first(in.size() + 1));
  out.shape = shape, out.strides = strides[0];
  for (size_t k = 0; k < in.size(); ++k) in[k].shape = shape, in[k].strides = strides[k + 1];
}

// Calls f(out, in) with the dimensions of all views in the memory order of out (sort_dimensions()).
template <size_t kInputs, class F>
void in_order_of(const View& out, const View (&in)[kInputs], F&& f) {
  static_assert(kInputs <= kMostInputs);
  View to = out, sorted[kInputs];
  std::ranges::copy(in, sorted);
  sort_views(to, sorted);
  f(to, sorted);
}

// True if the elements fill a block of memory without gaps for some order of the dimensions, as in a permuted
// view of a contiguous tensor.
inline bool is_dense(const Shape& shape, const Strides& strides) {
  Shape sorted = shape;
  Strides s[] = {strides};
  sort_dimensions(sorted, s);
  return View{nullptr, DType::f32, sorted, s[0]}.contiguous();
}

// True if images [N, C, H, W] are channels-last (NHWC): the channels of a pixel are adjacent. Images of one
// channel or of one pixel have both layouts and count as channels-first.
inline bool is_channels_last(const View& v) {
  return v.rank() == 4 && v.shape[1] > 1 && v.shape[2] * v.shape[3] > 1 && v.strides[1] == 1;
}
// A view of x [N, C, ...] as [N, ..., C].
inline View channels_at_end(const View& x) {
  View v = x;
  v.shape.erase(1);
  v.strides.erase(1);
  v.shape.push_back(x.shape[1]);
  v.strides.push_back(x.strides[1]);
  return v;
}
// True if x [N, C, ...], of any rank, is contiguous in channels-last order and not in row-major order.
// noinline: if inlined, g++ 13 warns about accesses beyond the rank.
[[gnu::noinline]] inline bool is_dense_channels_last(const View& x) {
  return x.rank() > 2 && !x.contiguous() && channels_at_end(x).contiguous();
}
// Strides of contiguous channels-last images of shape s [N, C, H, W].
inline Strides channels_last_strides(const Shape& s) { return {s[1] * s[2] * s[3], 1, s[1] * s[3], s[1]}; }

// Task 1.3.
inline int64_t locate(const Shape& shape, const Strides& strides, int64_t linear, int64_t* index);

}  // namespace tinytorch::inline TT_BUILD::backend

#include <tasks/backend/layout.hpp>
