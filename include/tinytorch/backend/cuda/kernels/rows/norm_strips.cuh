// Normalization of long rows in strips (strips.cuh): NormStrips is a Work of kernels/norm.cuh.
//
// A thread computes the mean of its elements and the sum of their squared distances from it. Pairs of these
// moments are merged exactly, so that a large mean costs no precision.
// Source: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances",
// 1979.
#pragma once

#include <tinytorch/backend/cuda/device/strips.cuh>
#include <tinytorch/backend/cuda/kernels/rows/norm.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// The mean of n elements, and the sum of their squared distances from it.
template <class A>
struct MomentSums {
  A n, mean, squares;
  __device__ __forceinline__ MomentSums operator+(const MomentSums& other) const {
    const A total = n + other.n, distance = other.mean - mean;
    const A part = total == A(0) ? A(0) : other.n / total;
    return {total, mean + distance * part, squares + other.squares + distance * distance * n * part};
  }
};

template <class T>
struct NormStripArrays {
  NormArrays<T> norm;
  const T* x;
};

// Weights are read again for each row, mostly from the L1 cache.
template <class T, bool kAligned>
struct NormStrips : PlainStripWork {
  using Arrays = NormStripArrays<T>;
  using Element = T;
  using A = Compute<T>;
  using Sums = MomentSums<A>;
  static constexpr int kInputs = 1, kBlocks = 2, kVectorSize = kVectorSizeOf<T>;
  using S = Strip<T, kInputs, 2, kAligned>;

  NormArrays<T> a;
  int64_t C;

  __device__ __forceinline__ NormStrips(const Arrays& arrays, const S&, int64_t columns)
      : a(arrays.norm), C(columns) {}
  static __host__ __device__ __forceinline__ const T* input(const Arrays& arrays, int) { return arrays.x; }
  static __host__ __device__ __forceinline__ const T* result(const Arrays& arrays) { return arrays.norm.out; }
  static __device__ __forceinline__ T fill() { return T{}; }
  __device__ __forceinline__ Sums visit(const S& strip, const RowStats&) const {
    Sums sums{0, 0, 0};
    strip.each([&](int v, const A(&in)[kInputs][kVectorSize]) {
#pragma unroll
      for (int k = 0; k < kVectorSize; ++k) {
        sums.n += strip.holds(v, k) ? A(1) : A(0);
        sums.mean += in[0][k];
      }
    });
    // rms_norm has no mean: squares are squared distances from 0.
    sums.mean = a.mean && sums.n != A(0) ? sums.mean / sums.n : A(0);
    strip.each([&](int v, const A(&in)[kInputs][kVectorSize]) {
#pragma unroll
      for (int k = 0; k < kVectorSize; ++k) {
        const A d = strip.holds(v, k) ? in[0][k] - sums.mean : A(0);
        sums.squares += d * d;
      }
    });
    return sums;
  }
  __device__ __forceinline__ void finish(const S& strip, const RowStats&, const Sums& sums,
                                         int64_t row) const {
    const A rstd = A(1) / std::sqrt(sums.squares / static_cast<A>(C) + a.eps);
    if (strip.first <= 0 && threadIdx.x == 0) {
      if (a.mean) a.mean[row] = sums.mean;
      a.rstd[row] = rstd;
    }
    strip.each([&](int v, const A(&in)[kInputs][kVectorSize]) {
      A y[kVectorSize], w[kVectorSize], b[kVectorSize];
      if (a.weight) strip.read_same_columns(w, a.weight, v);
      if (a.bias) strip.read_same_columns(b, a.bias, v);
#pragma unroll
      for (int k = 0; k < kVectorSize; ++k) {
        y[k] = (in[0][k] - sums.mean) * rstd;
        if (a.weight) y[k] *= w[k];
        if (a.bias) y[k] += b[k];
      }
      strip.write(a.out + row * C, v, y);
    });
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
