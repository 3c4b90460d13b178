// Writes the keys and values of a step's new tokens into a cache (contract: backend/cpu/kv_append.hpp). One
// warp writes one row. Limit: bytes of the rows, read once and written once.
//
// The frame of a course header: it has the given parts, and includes the functions of task 9.12. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <limits>
#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/elements.cuh>
#include <tinytorch/backend/cuda/kernels/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kAppendWarps = 4;

// Rows [N, heads, D] with any strides.
template <class A>
struct StepRows : Stored<A> {
  int64_t row, head, col;
  explicit StepRows(const View& x)
      : Stored<A>{x.data, x.dtype}, row(x.strides[0]), head(x.strides[1]), col(x.strides[2]) {}
  __device__ __forceinline__ A at(int64_t n, int64_t h, int64_t d) const {
    return this->read(n * row + h * head + d * col);
  }
};

__device__ __forceinline__ int64_t sequence_of(const KvView& kv, int64_t n);  // task 9.12
template <class A, class K>
__device__ __forceinline__ void append_row(const KvView& kv, K* pool, float* scales, const StepRows<A>& x,
                                           int64_t n, int64_t g, int64_t row);  // task 9.12

// Calls f with null pointers of the compute type and of the element type of a cache for queries, keys and
// values of `queries`.
template <class F>
void dispatch_cache(DType queries, DType cache, F&& f) {
  if (!is_floating(queries) || (queries == DType::f64) != (cache == DType::f64)) {
    fail("TT-DTYPE-02", std::string("attention to a cache: queries of ") + name_of(queries) +
                            " do not fit a cache of " + name_of(cache) +
                            "\n  rule: f64 with f64, other floating dtypes with f32, bf16, f16 and i8");
  }
  float* const single = nullptr;
  if (cache == DType::f64) return f(static_cast<double*>(nullptr), static_cast<double*>(nullptr));
  if (cache == DType::f32) return f(single, static_cast<float*>(nullptr));
  if (cache == DType::bf16) return f(single, static_cast<BFloat16*>(nullptr));
  if (cache == DType::f16) return f(single, static_cast<Half*>(nullptr));
  f(single, static_cast<int8_t*>(nullptr));
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#include <tasks/backend/cuda/kernels/kv_append.cuh>
