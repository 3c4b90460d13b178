// Writes the keys and values of a step's new tokens into a cache (contract: backend/cpu/kv_append.hpp). One
// warp writes one row. Limit: bytes of the rows, read once and written once.
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

// The sequence of row n: the last b with first_row[b] <= n, by binary search.
__device__ __forceinline__ int64_t sequence_of(const KvView& kv, int64_t n) {
  int64_t low = 0, high = kv.batch;
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    if (kv.first_row[middle] <= n)
      low = middle;
    else
      high = middle;
  }
  return low;
}

template <class A, class K>
__device__ __forceinline__ void append_row(const KvView& kv, K* pool, float* scales, const StepRows<A>& x,
                                           int64_t n, int64_t g, int64_t row) {
  const int64_t D = kv.head_size;
  K* const out = pool + row * D;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if constexpr (std::is_same_v<K, int8_t>) {
    A largest = 0;
    for (int64_t d = lane; d < D; d += kWarp) largest = Maximum()(largest, std::abs(x.at(n, g, d)));
    largest = warp_reduce(largest, Maximum());
    const bool finite = largest <= std::numeric_limits<A>::max();  // false for NaN
    const double inverse = finite && largest > 0 ? 127 / static_cast<double>(largest) : 0;
    for (int64_t d = lane; d < D; d += kWarp)
      out[d] = finite ? static_cast<int8_t>(rint(static_cast<double>(x.at(n, g, d)) * inverse)) : int8_t(0);
    if (lane == 0) {
      scales[row] = finite ? static_cast<float>(largest) / 127 : std::numeric_limits<float>::quiet_NaN();
    }
  } else {
    for (int64_t d = lane; d < D; d += kWarp) out[d] = to<K>(x.at(n, g, d));
  }
}

// blockIdx.y: 0 for keys, 1 for values.
template <class A, class K>
static __global__ void __launch_bounds__(kAppendWarps* kWarp)
    kv_append_kernel(const __grid_constant__ KvView kv, StepRows<A> k, StepRows<A> v, int64_t rows) {
  const int64_t line = static_cast<int64_t>(blockIdx.x) * kAppendWarps + threadIdx.x / kWarp;
  const int64_t n = line / kv.groups, g = line % kv.groups;
  if (n >= rows) return;
  const int64_t b = sequence_of(kv, n), last = kv.first_row[b + 1];
  if (n >= last) return;  // a row of no sequence: those that pad a step to a fixed length
  const int64_t token = kv.lengths[b] - (last - n);
  const bool overwritten = kv.ring > 0 && token >= kv.sinks && last - n > kv.ring;
  if (overwritten) return;
  const int64_t row = kv.row_of(kv.run(b, token, token + 1), g);
  if (blockIdx.y == 0)
    append_row(kv, static_cast<K*>(kv.keys), kv.key_scales, k, n, g, row);
  else
    append_row(kv, static_cast<K*>(kv.values), kv.value_scales, v, n, g, row);
}

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

void kv_append(const KvView& kv, const View& k, const View& v) {
  if (k.numel() == 0) return;
  dispatch_cache(k.dtype, kv.dtype, [&]<class A, class K>(A*, K*) {
    const int64_t rows = k.shape[0];
    const auto blocks = static_cast<unsigned>(ceil_div(rows * kv.groups, kAppendWarps));
    launch(kv_append_kernel<A, K>, {dim3(blocks, 2), dim3(kAppendWarps * kWarp)}, kv, StepRows<A>(k),
           StepRows<A>(v), rows);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
