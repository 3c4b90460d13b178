// Reductions on the CPU: sum, product, extrema, any, all, sums of squares, arg-extrema, cumulative sum.
//
// The frame of a course header: it has the given parts, and includes the functions of task 1.5.
#pragma once

#include <tinytorch/backend/parameters.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out = fn over the dimensions d of x with reduced[d], divided by `divisor` for sum and sum_square. out has
// the remaining dimensions in order (those reduced may also be present with size 1). NaN wins in max and min.
TT_API void reduce(ReduceFn fn, const View& out, const View& x, const bool* reduced, double divisor = 1);
// out (i64) = position of the first largest (or smallest) value along dim; the first NaN counts as such.
TT_API void arg_extreme(const View& out, const View& x, int dim, bool largest);
// out = running sum along dim.
TT_API void cumsum(const View& out, const View& x, int dim);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND) || defined(TINYTORCH_TASK)
#include <limits>
#include <tinytorch/backend/functors.hpp>
#include <tinytorch/backend/layout.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// --- the walk ---

// x cut in two by its dimensions: those kept number the results, those reduced the values of one result.
struct Split {
  View kept, reduced;  // both look at x's data

  Split(const View& x, const bool* is_reduced)
      : kept{x.data, x.dtype, {}, {}}, reduced{x.data, x.dtype, {}, {}} {
    for (int d = 0; d < x.rank(); ++d) {
      View& part = is_reduced[d] ? reduced : kept;
      part.shape.push_back(x.shape[d]);
      part.strides.push_back(x.strides[d]);
    }
  }
  // The values of result number r; results are numbered in row-major order.
  View values(int64_t r) const {
    int64_t index[kMaxRank];
    const int64_t offset = locate(kept.shape, kept.strides, r, index);
    View v = reduced;
    v.data = v.as<char>() + offset * static_cast<int64_t>(size_of(v.dtype));
    return v;
  }
};

// The values of v, one after the other in row-major order, each converted to A.
template <class A, class F>
void for_each_value(const View& v, F f) {
  Shape outer = v.shape;
  Strides strides[] = {v.strides};
  collapse(outer, strides, 1);  // as few and as long rows as can be
  const int64_t length = outer.back(), step = strides[0].back();
  outer.pop_back();
  dispatch(v.dtype, [&]<class T>(T*) {
    for (int64_t row = 0; row < outer.numel(); ++row) {
      int64_t index[kMaxRank];
      const T* x = v.as<const T>() + locate(outer, strides[0], row, index);
      for (int64_t j = 0; j < length; ++j) f(convert<A>(x[j * step]));
    }
  });
}

// Element number i of v, counted in row-major order, becomes `value`.
template <class A>
void put(const View& v, int64_t i, A value) {
  int64_t index[kMaxRank];
  const int64_t at = locate(v.shape, v.strides, i, index);
  dispatch(v.dtype, [&]<class T>(T*) { v.as<T>()[at] = convert<T>(value); });
}

// Calls f with a null pointer of the type in which elements of dtype t are added up.
template <class F>
void dispatch_accumulator(DType t, F&& f) {
  if (is_floating(t)) return f(static_cast<double*>(nullptr));
  f(static_cast<int64_t*>(nullptr));
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#include <tasks/backend/cpu/reduce.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// --- what the library calls ---

TT_API void reduce(ReduceFn fn, const View& out, const View& x, const bool* reduced, double divisor) {
  const bool sums = fn == ReduceFn::sum || fn == ReduceFn::sum_square;
  dispatch_accumulator(x.dtype, [&]<class A>(A*) { reduce_in<A>(fn, out, x, reduced, sums ? divisor : 1); });
}

TT_API void arg_extreme(const View& out, const View& x, int dim, bool largest) {
  bool reduced[kMaxRank] = {};
  reduced[dim] = true;
  const Split split(x, reduced);
  dispatch_accumulator(x.dtype, [&]<class A>(A*) {
    for (int64_t r = 0; r < out.numel(); ++r) put(out, r, position_of_extreme<A>(split.values(r), largest));
  });
}

TT_API void cumsum(const View& out, const View& x, int dim) {
  bool reduced[kMaxRank] = {};
  reduced[dim] = true;
  const Split from(x, reduced), to(out, reduced);
  dispatch_accumulator(x.dtype, [&]<class A>(A*) {
    for (int64_t r = 0; r < from.kept.numel(); ++r) running_sum<A>(to.values(r), from.values(r));
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
