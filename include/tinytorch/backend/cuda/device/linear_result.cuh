// The epilogue of a linear layer's kernel: it adds the bias and writes out [M, N] of any floating dtype and
// strides.
#pragma once

#include <tinytorch/backend/cuda/device/walk.cuh>
#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

struct LinearResult {
  void* out = nullptr;
  int64_t row = 0, step = 0;
  DType dtype = DType::f32;
  const void* bias = nullptr;  // null: none
  int64_t bias_step = 0;
  DType bias_dtype = DType::f32;

  LinearResult() = default;
  LinearResult(const View& to, const View& added) {
    out = to.data, row = to.strides[0], step = to.strides[1], dtype = to.dtype;
    bias = added.data, bias_dtype = added.dtype;
    bias_step = added.data ? added.strides[0] : 0;
  }
  // Element n of the bias, which exists.
  __device__ __forceinline__ float bias_at(int64_t n) const {
    float x = 0;
    for_stored<float>(bias_dtype,
                      [&]<class T>(T*) { x = to<float>(static_cast<const T*>(bias)[n * bias_step]); });
    return x;
  }
  // Returns true if 8 results of type T that begin at a column n % 8 == 0 are 16 aligned bytes.
  template <class T>
  __host__ __device__ __forceinline__ bool has_vectors() const {
    return dtype == dtype_of<T> && step == 1 && row % 8 == 0 && reinterpret_cast<uintptr_t>(out) % 16 == 0;
  }
  __device__ __forceinline__ void store(int64_t m, int64_t n, float sum) const {
    if (bias) sum += bias_at(n);
    for_stored<float>(dtype, [&]<class T>(T*) { static_cast<T*>(out)[m * row + n * step] = to<T>(sum); });
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
