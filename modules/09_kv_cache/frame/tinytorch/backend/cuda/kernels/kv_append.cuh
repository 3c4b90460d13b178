// Writes the keys and values of a step's new tokens into a cache (contract: backend/cpu/kv_append.hpp). One
// warp writes one row. Limit: bytes of the rows, read once and written once.
//
// The frame of a course header: it has the given parts, and includes the functions of task 9.12. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <limits>
#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/elements.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kAppendWarps = 4;

// Rows [N, heads, D] with any strides.
template <class A>
struct StepRows : Stored<A> {
  int64_t row, head, col;
  explicit StepRows(const View& x)
      : Stored<A>{x.data, x.dtype}, row(x.strides[0]), head(x.strides[1]), col(x.strides[2]) {}
  __device__ __forceinline__ int64_t place(int64_t n, int64_t h, int64_t d) const {
    return n * row + h * head + d * col;
  }
  __device__ __forceinline__ A at(int64_t n, int64_t h, int64_t d) const {
    return this->read(place(n, h, d));
  }
  // Reads elements at, at + step, ... of which `count` exist; the others become zeros. All loads are on the
  // way together, because the dtype is asked once.
  template <int kCount>
  __device__ __forceinline__ void read_columns(A (&x)[kCount], int64_t at, int64_t step, int count) const {
    if constexpr (std::is_same_v<A, float>) {
      if (this->dtype == DType::bf16) return read_as<BFloat16>(x, at, step, count);
      if (this->dtype == DType::f16) return read_as<Half>(x, at, step, count);
    }
    read_as<A>(x, at, step, count);
  }
  // Writes adjacent columns of a row, from element `at` on.
  template <int kCount>
  __device__ __forceinline__ void write_columns(int64_t at, const A (&x)[kCount]) const {
    if constexpr (std::is_same_v<A, float>) {
      if (this->dtype == DType::bf16) return write_as<BFloat16>(at, x);
      if (this->dtype == DType::f16) return write_as<Half>(at, x);
    }
    write_as<A>(at, x);
  }

 private:
  template <class T, int kCount>
  __device__ __forceinline__ void read_as(A (&x)[kCount], int64_t at, int64_t step, int count) const {
    const T* const first = static_cast<const T*>(this->data) + at;
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] = i < count ? to<A>(first[i * step]) : A(0);
  }
  template <class T, int kCount>
  __device__ __forceinline__ void write_as(int64_t at, const A (&x)[kCount]) const {
    T* const to_first = static_cast<T*>(this->data) + at;
#pragma unroll
    for (int i = 0; i < kCount; ++i) to_first[i * col] = to<T>(x[i]);
  }
};

__device__ __forceinline__ int64_t sequence_of(const KvView& kv, int64_t n);  // task 9.12
template <class A, class K>
__device__ __forceinline__ void append_scaled(K* out, float* scale, const StepRows<A>& x, int64_t n,
                                              int64_t g, int64_t D);  // task 9.12

// A row of i4 in the registers of a warp: number 32 j + lane is x[j], so that x[j] of all lanes is a group.
inline constexpr int kMostGroups = 8;  // of heads up to 256, the limit of the CUDA kernels

// Rotates blocks of hadamard_block(D) numbers.
template <int kGroups>
__device__ __forceinline__ void rotate_row(float (&x)[kGroups], int64_t D) {
  const int n = static_cast<int>(hadamard_block(D)), lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int half = 1; half < kWarp && half < n; half *= 2) {
#pragma unroll
    for (float& own : x) {
      const float other = shuffle_xor(own, half);
      own = lane & half ? other - own : own + other;
    }
  }
#pragma unroll
  for (int half = 1; half < kGroups; half *= 2) {
    if (half * kWarp >= n) break;
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
      if (j & half) continue;
      const float low = x[j], high = x[j + half];
      x[j] = low + high, x[j + half] = low - high;
    }
  }
  const float factor = 1 / sqrtf(static_cast<float>(n));
#pragma unroll
  for (float& own : x) own *= factor;
}

template <class A>
__device__ __forceinline__ void append_int4(uint8_t* out, BFloat16* scales, const StepRows<A>& from,
                                            int64_t n, int64_t g, int64_t D, bool is_key) {
  constexpr int kHalf = static_cast<int>(kKvGroup) / 2;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  A read[kMostGroups];
  from.read_columns(read, from.place(n, g, lane), kKvGroup * from.col,
                    static_cast<int>(ceil_div(D - lane, kKvGroup)));
  float x[kMostGroups];
#pragma unroll
  for (int j = 0; j < kMostGroups; ++j) x[j] = static_cast<float>(read[j]);
  if (is_key) rotate_row(x, D);
#pragma unroll
  for (int j = 0; j < kMostGroups; ++j) {
    if (j * kKvGroup >= D) break;
    const float least = warp_reduce(x[j], Minimum()), largest = warp_reduce(x[j], Maximum());
    const BFloat16 stored = int4_scale(least, largest);
    const auto scale = static_cast<double>(stored);
    double number = scale != 0 ? rint(static_cast<double>(x[j]) / scale) : 0;
    number = number > 7 ? 7 : number >= -8 ? number : number < -8 ? -8 : 0;  // 0 for NaN
    const auto code = static_cast<unsigned>(static_cast<int>(number) + 8);
    const unsigned high = shuffle_xor(code, kHalf);
    if (lane < kHalf) out[j * kHalf + lane] = static_cast<uint8_t>(code | high << 4);
    if (lane == 0) scales[j] = stored;
  }
}

template <class A, class K>
__device__ __forceinline__ void append_row(const KvView& kv, void* pool, void* scales, const StepRows<A>& x,
                                           int64_t n, int64_t g, int64_t row, bool is_key);  // task 9.12

// Calls f with null pointers of the compute type and of the element type of a cache for queries, keys and
// values of `queries`.
template <class F>
void dispatch_cache(DType queries, const KvView& kv, F&& f) {
  const bool of_dtype = kv.format == KvFormat::of_dtype;
  if (!is_floating(queries) || (queries == DType::f64) != (of_dtype && kv.dtype == DType::f64)) {
    fail("TT-DTYPE-02",
         std::string("attention to a cache: queries of ") + name_of(queries) + " do not fit a cache of " +
             (of_dtype ? name_of(kv.dtype) : name_of(kv.format)) +
             "\n  rule: f64 with f64, other floating dtypes with f32, bf16, f16, i8, fp8 and i4");
  }
  if (kv.format == KvFormat::i4 && kv.head_size > kMostGroups * kKvGroup) {
    fail("TT-SHAPE-04", "a cache of i4 on CUDA: heads of " + std::to_string(kv.head_size) +
                            " features are longer than 256\n  hint: use more and smaller heads, or the CPU");
  }
  float* const single = nullptr;
  if (kv.format == KvFormat::i4) return f(single, static_cast<Int4*>(nullptr));
  if (kv.format == KvFormat::fp8) return f(single, static_cast<Float8*>(nullptr));
  if (kv.dtype == DType::f64) return f(static_cast<double*>(nullptr), static_cast<double*>(nullptr));
  if (kv.dtype == DType::f32) return f(single, static_cast<float*>(nullptr));
  if (kv.dtype == DType::bf16) return f(single, static_cast<BFloat16*>(nullptr));
  if (kv.dtype == DType::f16) return f(single, static_cast<Half*>(nullptr));
  f(single, static_cast<int8_t*>(nullptr));
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#include <tasks/backend/cuda/kernels/kv_append.cuh>
