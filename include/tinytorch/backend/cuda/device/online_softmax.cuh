// Online softmax state: the running maximum m and the sum s of e^(x - m), which cannot overflow. Two states
// are merged by scaling both sums to the larger maximum.
//
// Source: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.
#pragma once

#include <limits>
#include <tinytorch/backend/cuda/device/row.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

template <class A>
inline constexpr A kMinusInfinity = -std::numeric_limits<A>::infinity();

// m = max x, s = sum of e^(x - m), over the values x included so far.
template <class A>
struct OnlineSoftmax {
  A m = kMinusInfinity<A>, s = 0;
};
template <class T, class A>
__device__ __forceinline__ OnlineSoftmax<A> merge(OnlineSoftmax<A> a, OnlineSoftmax<A> b) {
  const A m = Maximum()(a.m, b.m);
  // A state of only -inf adds 0. Without this case the difference of two infinities would give NaN.
  const A a_sum = a.m == kMinusInfinity<A> ? A(0) : a.s * exp_of<T>(a.m - m);
  const A b_sum = b.m == kMinusInfinity<A> ? A(0) : b.s * exp_of<T>(b.m - m);
  return {m, a_sum + b_sum};
}
// Adds one value to the state.
template <class T, class A>
__device__ __forceinline__ void include(OnlineSoftmax<A>& sum, A x) {
  if (x > sum.m || x != x) {
    sum.s = (sum.m == kMinusInfinity<A> ? A(0) : sum.s * exp_of<T>(sum.m - x)) + A(1);
    sum.m = x;
    if (x == std::numeric_limits<A>::infinity() || x != x) sum.s = std::numeric_limits<A>::quiet_NaN();
  } else if (sum.m != kMinusInfinity<A>) {
    sum.s += exp_of<T>(x - sum.m);
  }
}
// The sum s of a whole row. A row of only -inf gives NaN, because its softmax is 0/0.
template <class A>
__device__ __forceinline__ A finished(const OnlineSoftmax<A>& sum) {
  return sum.m == kMinusInfinity<A> ? std::numeric_limits<A>::quiet_NaN() : sum.s;
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
