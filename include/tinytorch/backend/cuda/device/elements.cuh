// Elements: a tensor with any strides and a floating dtype that is known only at run time. A kernel with such
// operands is compiled for each compute type (float, or double for f64), not for each storage type: it is
// shorter to write and to compile, but slower than a kernel with vectorized accesses of 16 bytes
// (vector.cuh).
//
//   const int64_t first = x.place(row * C);                 offset of the row's first element
//   sum += x.read(first + c * x.step);                      element c of the row
#pragma once

#include <tinytorch/backend/cuda/device/vector.cuh>
#include <tinytorch/backend/layout.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Memory with elements of a dtype, read and written as compute type C: float for f32, bf16 and f16; double
// for f64.
template <class C>
struct Stored {
  void* data = nullptr;
  DType dtype = DType::f32;

  // False for an absent operand, such as no bias.
  __host__ __device__ __forceinline__ bool exists() const { return data != nullptr; }
  __device__ __forceinline__ C read(int64_t at) const {
    if constexpr (std::is_same_v<C, float>) {
      if (dtype == DType::bf16) return to<float>(static_cast<const BFloat16*>(data)[at]);
      if (dtype == DType::f16) return to<float>(static_cast<const Half*>(data)[at]);
    }
    return static_cast<const C*>(data)[at];
  }
  __device__ __forceinline__ void write(int64_t at, C x) const {
    if constexpr (std::is_same_v<C, float>) {
      if (dtype == DType::bf16) return void(static_cast<BFloat16*>(data)[at] = to<BFloat16>(x));
      if (dtype == DType::f16) return void(static_cast<Half*>(data)[at] = to<Half>(x));
    }
    static_cast<C*>(data)[at] = x;
  }
  // Vectorized read and write of kCount contiguous elements. `at` is a multiple of kCount, and `data` is
  // aligned to 16 bytes.
  template <int kCount>
  __device__ __forceinline__ void read(C (&x)[kCount], int64_t at) const {
    if constexpr (std::is_same_v<C, float>) {
      if (dtype == DType::bf16) return load(x, static_cast<const BFloat16*>(data) + at);
      if (dtype == DType::f16) return load(x, static_cast<const Half*>(data) + at);
    }
    load(x, static_cast<const C*>(data) + at);
  }
  template <int kCount>
  __device__ __forceinline__ void write(int64_t at, const C (&x)[kCount]) const {
    if constexpr (std::is_same_v<C, float>) {
      if (dtype == DType::bf16) return store(static_cast<BFloat16*>(data) + at, x);
      if (dtype == DType::f16) return store(static_cast<Half*>(data) + at, x);
    }
    store(static_cast<C*>(data) + at, x);
  }
  // x rounded to the storage type.
  __device__ __forceinline__ C rounded(C x) const {
    if constexpr (std::is_same_v<C, float>) {
      if (dtype == DType::bf16) return to<float>(to<BFloat16>(x));
      if (dtype == DType::f16) return to<float>(to<Half>(x));
    }
    return x;
  }
};

template <class C>
struct Elements : Stored<C> {
  int rank = 0;
  int64_t count = 0, step = 1;  // step: stride of the last dimension
  int64_t size[kMaxRank] = {}, stride[kMaxRank] = {};

  Elements() = default;
  explicit Elements(const View& v) : Stored<C>{v.data, v.dtype}, count(v.numel()) {
    if (v.rank() > 0) step = v.strides.back();
    Shape shape = v.shape;
    Strides strides[1] = {v.strides};
    collapse(shape, strides, 1);
    rank = shape.size();
    for (int d = 0; d < rank; ++d) {
      size[d] = shape[d];
      stride[d] = strides[0][d];
    }
  }
  // Offset of the element with row-major number i.
  __device__ __forceinline__ int64_t place(int64_t i) const {
    int64_t at = 0;
    for (int d = rank - 1; d > 0; --d) {
      at += i % size[d] * stride[d];
      i /= size[d];
    }
    return at + i * stride[0];
  }
};

// Calls f with a null pointer of the compute type of a floating dtype t. Throws TT-DTYPE-02 for other dtypes.
template <class F>
void dispatch_floating(DType t, F&& f) {
  if (t == DType::f64) return f(static_cast<double*>(nullptr));
  if (t == DType::f32 || is_16_bit(t)) return f(static_cast<float*>(nullptr));
  fail("TT-DTYPE-02", "this kernel needs a floating dtype");
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
