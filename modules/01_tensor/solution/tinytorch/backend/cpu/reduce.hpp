// Reductions on the CPU: sum, product, extrema, any, all, sums of squares, arg-extrema, cumulative sum.
//
// All are computed in two types alone: double for floating elements, so that a sum of a million f32 is still
// right, and 64-bit integers for all others. One result after the other, each over its elements in order.
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

#if TT_BODIES(BACKEND)
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

// --- the reductions ---

// What a reduction of no values gives, and what joined with any value leaves it as it is: 0 for sums and any,
// 1 for products and all, and for max and min the end of A that loses to all others (an infinity, if A has).
template <class A>
A neutral(ReduceFn fn) {
  using Limits = std::numeric_limits<A>;
  switch (fn) {
    case ReduceFn::prod:
    case ReduceFn::all:
      return A(1);
    case ReduceFn::max:
      return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    case ReduceFn::min:
      return Limits::has_infinity ? Limits::infinity() : Limits::max();
    default:
      return A(0);
  }
}

// The result so far, joined by one more value; sum_square adds value * value. NaN wins in max and min,
// whether it comes first or later: no comparison with NaN is true. any and all give 0 or 1, and a value is
// true when it is not 0. Integer sums and products wrap, which a + b does not promise and
// binary_value<BinaryFn::add>(a, b, A(0)) does (backend/functors.hpp; its third argument is for other
// functions).
template <class A>
A join(ReduceFn fn, A so_far, A value) {
  switch (fn) {
    case ReduceFn::sum:
      return binary_value<BinaryFn::add>(so_far, value, A(0));
    case ReduceFn::sum_square:
      return binary_value<BinaryFn::add>(so_far, binary_value<BinaryFn::mul>(value, value, A(0)), A(0));
    case ReduceFn::prod:
      return binary_value<BinaryFn::mul>(so_far, value, A(0));
    case ReduceFn::max:
      return value > so_far || value != value ? value : so_far;
    case ReduceFn::min:
      return value < so_far || value != value ? value : so_far;
    case ReduceFn::any:
      return so_far != A(0) || value != A(0) ? A(1) : A(0);
    default:
      return so_far != A(0) && value != A(0) ? A(1) : A(0);
  }
}

// Every element of out: fn over the values that Split gives for it, then divided by `divisor`. Where that is
// 1, an integer result is stored exactly; a double holds integers up to 2^53 alone. A sum of n values costs n
// additions, and reads each value once.
template <class A>
void reduce_in(ReduceFn fn, const View& out, const View& x, const bool* reduced, double divisor) {
  const Split split(x, reduced);
  for (int64_t r = 0; r < out.numel(); ++r) {
    A result = neutral<A>(fn);
    for_each_value<A>(split.values(r), [&](A value) { result = join(fn, result, value); });
    put(out, r, divisor == 1 ? result : static_cast<A>(static_cast<double>(result) / divisor));
  }
}

// Position of the largest (or smallest) of these values; the first one, where several are equal. A NaN beats
// all numbers, and the first NaN all later ones.
template <class A>
int64_t position_of_extreme(const View& values, bool largest) {
  A best = A(0);
  int64_t best_at = 0, at = 0;
  for_each_value<A>(values, [&](A value) {
    const bool better = largest ? value > best : value < best;
    const bool first_nan = value != value && best == best;
    if (at == 0 || better || first_nan) {
      best = value;
      best_at = at;
    }
    ++at;
  });
  return best_at;
}

// to[i] = values[0] + ... + values[i]. The sum is kept in A: what is rounded to out's type is not added to.
// A sum of integers wraps, as in join.
template <class A>
void running_sum(const View& to, const View& values) {
  A sum = A(0);
  int64_t at = 0;
  for_each_value<A>(values, [&](A value) {
    sum = binary_value<BinaryFn::add>(sum, value, A(0));
    put(to, at++, sum);
  });
}

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
