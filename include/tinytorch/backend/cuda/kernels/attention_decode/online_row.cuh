// The online softmax of a query row of attention to a cache, for the kernels for any device
// (attention_decode/paged.cuh): sums relative to the largest score so far.
// Source: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.
#pragma once

#include <limits>
#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/vector.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

__device__ __forceinline__ float exp2_of(float x) { return exp2_approx(x); }
__device__ __forceinline__ double exp2_of(double x) { return exp2(x); }

// The online softmax of one query row, of which a lane has kCount columns.
template <class A, int kCount>
struct DecodeRow {
  static constexpr A kNone = -std::numeric_limits<A>::infinity();
  A largest = kNone, weight = 0, sum[kCount] = {};

  __device__ __forceinline__ void raise(A top) {
    const A factor = factor_of(largest, top);
    largest = top;
    weight *= factor;
#pragma unroll
    for (int i = 0; i < kCount; ++i) sum[i] *= factor;
  }
  // Adds a token with weight p and the value scale * value.
  __device__ __forceinline__ void add(A p, A scale, const A (&value)[kCount]) {
    weight += p;
#pragma unroll
    for (int i = 0; i < kCount; ++i) sum[i] += p * scale * value[i];
  }
  // The first column of the result; 0 without tokens.
  __device__ __forceinline__ A result() const { return weight == A(0) ? A(0) : sum[0] / weight; }
  // Adds the sums of a later part of the tokens.
  __device__ __forceinline__ void merge(const DecodeRow& other) {
    const A top = other.largest > largest ? other.largest : largest;
    raise(top);
    const A factor = factor_of(other.largest, top);
    weight += factor * other.weight;
#pragma unroll
    for (int i = 0; i < kCount; ++i) sum[i] += factor * other.sum[i];
  }
  // Merges with the lane (own lane xor step). Both lanes compute lower + upper, so that they have the same
  // bits.
  __device__ __forceinline__ void meet(int step, bool upper) {
    const A theirs = shuffle_xor(largest, step), top = theirs > largest ? theirs : largest;
    const A own_factor = factor_of(largest, top), their_factor = factor_of(theirs, top);
    const auto both = [&](A own, A other) {
      const A a = own * own_factor, b = other * their_factor;
      return upper ? b + a : a + b;
    };
    largest = top;
    weight = both(weight, shuffle_xor(weight, step));
#pragma unroll
    for (int i = 0; i < kCount; ++i) sum[i] = both(sum[i], shuffle_xor(sum[i], step));
  }
  // The factor by which sums relative to `from` become relative to `top`. Without a largest score they are
  // 0, or NaN from scores that are NaN.
  static __device__ __forceinline__ A factor_of(A from, A top) {
    return from == top || from == kNone ? A(1) : exp2_of(from - top);
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
