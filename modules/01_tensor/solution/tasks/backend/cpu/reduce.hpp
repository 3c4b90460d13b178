// Reductions on the CPU: sum, product, extrema, any, all, sums of squares, arg-extrema, cumulative sum.
//
// The accumulate type is double for floating elements, so that a sum of a million f32 is still right, and a
// 64-bit integer for all others. Results are computed one after the other, each over its elements in order.
//
// Task 1.5: neutral, join, reduce_in, position_of_extreme, running_sum. The given parts of this header are in
// modules/01_tensor/frame/tinytorch/backend/cpu/reduce.hpp, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cpu {

// The neutral element of a reduction, which is also its result for no values: join(fn, neutral, x) is x. It
// is 0 for sums and any, and 1 for products and all. For max it is the lowest value of A, for min the
// highest: an infinity if A has one.
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

// The result so far, joined with one more value; sum_square adds value * value. In max and min a NaN is the
// result, whether it comes first or later; remember that no comparison with a NaN is true. any and all give 0
// or 1, and a value counts as true if it is not 0. Integer sums and products wrap around: a + b does not
// guarantee this, but binary_value<BinaryFn::add>(a, b, A(0)) does (backend/functors.hpp; other functions use
// its third argument).
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

// Each element of out is fn over the values that Split gives for it, divided by `divisor`. If the divisor is
// 1, do not divide: an integer result must be stored exactly, and a double is exact for integers up to 2^53
// only. A sum of n values costs n additions and reads each value once.
template <class A>
void reduce_in(ReduceFn fn, const View& out, const View& x, const bool* reduced, double divisor) {
  const Split split(x, reduced);
  for (int64_t r = 0; r < out.numel(); ++r) {
    A result = neutral<A>(fn);
    for_each_value<A>(split.values(r), [&](A value) { result = join(fn, result, value); });
    put(out, r, divisor == 1 ? result : static_cast<A>(static_cast<double>(result) / divisor));
  }
}

// Position of the largest (or smallest) of these values; if several are equal, the first one. If there is a
// NaN, the result is the position of the first NaN.
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

// to[i] = values[0] + ... + values[i] (prefix sum). The running sum stays in A; only a copy of it is rounded
// to the type of `to`. A sum of integers wraps around, the same as in join.
template <class A>
void running_sum(const View& to, const View& values) {
  A sum = A(0);
  int64_t at = 0;
  for_each_value<A>(values, [&](A value) {
    sum = binary_value<BinaryFn::add>(sum, value, A(0));
    put(to, at++, sum);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
