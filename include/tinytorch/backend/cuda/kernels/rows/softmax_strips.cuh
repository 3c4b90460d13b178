// Softmax and its logarithm in strips (strips.cuh): SoftmaxStrips is the Work for long rows of softmax.cuh.
#pragma once

#include <tinytorch/backend/cuda/device/online_softmax.cuh>
#include <tinytorch/backend/cuda/device/strips.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

template <class T>
struct SoftmaxArrays {
  T* out;
  const T* x;
  bool logarithm;
};

// Online softmax state that blocks merge.
template <class T>
struct StripOnlineSoftmax {
  OnlineSoftmax<Compute<T>> exps;
  __device__ __forceinline__ StripOnlineSoftmax operator+(const StripOnlineSoftmax& other) const {
    return {merge<T>(exps, other.exps)};
  }
};

// Online softmax state of a thread's elements of a strip: the maximum first, then one exponential per
// element.
template <class T, int kVectors, bool kAligned>
__device__ __forceinline__ OnlineSoftmax<Compute<T>> sum_of_strip(
    const Strip<T, 1, kVectors, kAligned>& strip) {
  using A = Compute<T>;
  constexpr int kInputs = 1, kVectorSize = kVectorSizeOf<T>;
  OnlineSoftmax<A> sum;
  strip.each([&](int, const A(&in)[kInputs][kVectorSize]) {
#pragma unroll
    for (int k = 0; k < kVectorSize; ++k) sum.m = Maximum()(sum.m, in[0][k]);
  });
  if (sum.m == kMinusInfinity<A>) return sum;
  strip.each([&](int, const A(&in)[kInputs][kVectorSize]) {
#pragma unroll
    for (int k = 0; k < kVectorSize; ++k) sum.s += exp_of<T>(in[0][k] - sum.m);
  });
  return sum;
}

template <class T, bool kAligned>
struct SoftmaxStrips : PlainStripWork {
  using Element = T;
  using Arrays = SoftmaxArrays<T>;
  using A = Compute<T>;
  using Sums = StripOnlineSoftmax<T>;
  static constexpr int kInputs = 1, kBlocks = 2, kVectorSize = kVectorSizeOf<T>;
  using S = Strip<T, kInputs, 4, kAligned>;

  Arrays a;
  int64_t C;

  __device__ __forceinline__ SoftmaxStrips(const Arrays& arrays, const S&, int64_t columns)
      : a(arrays), C(columns) {}
  static __host__ __device__ __forceinline__ const T* input(const Arrays& arrays, int) { return arrays.x; }
  static __host__ __device__ __forceinline__ const T* result(const Arrays& arrays) { return arrays.out; }
  static __device__ __forceinline__ T fill() { return to<T>(kMinusInfinity<A>); }
  __device__ __forceinline__ Sums visit(const S& strip, const RowStats&) const {
    return {sum_of_strip(strip)};
  }
  __device__ __forceinline__ void finish(const S& strip, const RowStats&, const Sums& sums,
                                         int64_t row) const {
    const A m = sums.exps.m, s = finished(sums.exps);
    const A scale = A(1) / s, shift = a.logarithm ? std::log(s) : A(0);
    strip.each([&](int v, const A(&in)[kInputs][kVectorSize]) {
      A y[kVectorSize];
#pragma unroll
      for (int k = 0; k < kVectorSize; ++k) {
        y[k] = a.logarithm ? in[0][k] - m - shift : exp_of<T>(in[0][k] - m) * scale;
      }
      strip.write(a.out + row * C, v, y);
    });
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
