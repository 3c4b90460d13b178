// Gradients of softmax and its logarithm in strips (strips.cuh): SoftmaxGradStrips is the Work for long rows
// of softmax_grad.cuh.
#pragma once

#include <tinytorch/backend/cuda/device/strips.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

template <class T>
struct SoftmaxGradArrays {
  T* dx;
  const T *dy, *y;
  bool logarithm;
};

template <class T, bool kAligned>
struct SoftmaxGradStrips : PlainStripWork {
  using Element = T;
  using Arrays = SoftmaxGradArrays<T>;
  using A = Compute<T>;
  using Sums = A;
  static constexpr int kInputs = 2, kBlocks = kAligned ? 1 : 2, kVectorSize = kVectorSizeOf<T>;
  using S = Strip<T, kInputs, kAligned ? 4 : 2, kAligned>;

  Arrays a;
  int64_t C;

  __device__ __forceinline__ SoftmaxGradStrips(const Arrays& arrays, const S&, int64_t columns)
      : a(arrays), C(columns) {}
  static __host__ __device__ __forceinline__ const T* input(const Arrays& arrays, int k) {
    return k == 0 ? arrays.dy : arrays.y;
  }
  static __host__ __device__ __forceinline__ const T* result(const Arrays& arrays) { return arrays.dx; }
  static __device__ __forceinline__ T fill() { return T{}; }
  __device__ __forceinline__ Sums visit(const S& strip, const RowStats&) const {
    A sum = 0;
    strip.each([&](int, const A(&in)[kInputs][kVectorSize]) {
#pragma unroll
      for (int k = 0; k < kVectorSize; ++k) sum += a.logarithm ? in[0][k] : in[0][k] * in[1][k];
    });
    return sum;
  }
  __device__ __forceinline__ void finish(const S& strip, const RowStats&, const Sums& sum,
                                         int64_t row) const {
    strip.each([&](int v, const A(&in)[kInputs][kVectorSize]) {
      A d[kVectorSize];
#pragma unroll
      for (int k = 0; k < kVectorSize; ++k) {
        d[k] = a.logarithm ? in[0][k] - exp_of<T>(in[1][k]) * sum : in[1][k] * (in[0][k] - sum);
      }
      strip.write(a.dx + row * C, v, d);
    });
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
