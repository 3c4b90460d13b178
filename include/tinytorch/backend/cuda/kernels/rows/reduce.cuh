// Reductions along rows (kernels/reduce.cuh): a group of threads folds contiguous elements; narrow rows are
// processed in tiles.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/device/tiles.cuh>
#include <tinytorch/backend/cuda/kernels/rows/reduce_folds.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kReduceThreads = 256;

// Folds this thread's share of the contiguous elements [first, last) of a result at `data`; kGroup threads
// share them. Groups of 8 elements begin at aligned addresses. The elements before the first and after the
// last group are loaded first, one per thread, if kGroup >= 16.
template <class C, int kGroup, class T, class Fold>
__device__ __forceinline__ typename Fold::A fold_contiguous(const T* data, int64_t first, int64_t last,
                                                            const Fold& fold) {
  using A = typename Fold::A;
  constexpr int kAhead = sizeof(T) == 2 ? 4 : 2;  // loads in flight
  constexpr int64_t kAlign = kAccessBytes<T, 8>, kStep = kGroup * 8;
  const int lane = static_cast<int>(threadIdx.x) % kGroup;
  A sum = fold.neutral();
  const auto phase = static_cast<int64_t>(reinterpret_cast<uintptr_t>(data + first) % kAlign / sizeof(T));
  const int64_t begin = std::min(phase == 0 ? first : first - phase + 8, last);
  const int64_t end = std::max(begin, last - (last - begin) % 8);
  const auto part = [&](int64_t from, int64_t to_) {
    C some[8] = {};
#pragma unroll
    for (int k = 0; k < 8; ++k) some[k] = from + k < to_ ? to<C>(data[from + k]) : C{};
    if (from < to_) sum = fold(sum, fold.of(some, static_cast<int>(to_ - from)));
  };
  C edge[8] = {};
  bool has_edge = false;
  if constexpr (kGroup >= 16) {
    const int64_t at = lane < 8 ? first + lane : end + lane - 8;
    has_edge = lane < 8 ? at < begin : lane < 16 && at < last;
    if (has_edge) edge[0] = to<C>(data[at]);
  } else if (lane == 0) {
    part(first, begin);
  }
  int64_t i = begin + lane * 8;
  C ahead[kAhead][8];
  for (; i + (kAhead - 1) * kStep < end; i += kAhead * kStep) {
#pragma unroll
    for (int a = 0; a < kAhead; ++a) load(ahead[a], data + i + a * kStep);
#pragma unroll
    for (int a = 0; a < kAhead; ++a) sum = fold(sum, fold.of(ahead[a], 8));
  }
  if (i < end) {  // the last loads are also in flight together; those beyond the end repeat the last group
#pragma unroll
    for (int a = 0; a < kAhead - 1; ++a) load(ahead[a], data + std::min(i + a * kStep, end - 8));
#pragma unroll
    for (int a = 0; a < kAhead - 1; ++a) {
      const A next = fold(sum, fold.of(ahead[a], 8));
      sum = i + a * kStep < end ? next : sum;
    }
  }
  if (has_edge) sum = fold(sum, fold.of(edge, 1));
  if (kGroup < 16 && lane == kGroup - 1 && end < last) part(end, last);
  return sum;
}

// Folds this thread's share of elements [first, last) with any strides.
template <class C, int kGroup, class T, class Fold>
__device__ __forceinline__ typename Fold::A fold_strided(const ReduceLayout& x, const T* data, int64_t first,
                                                         int64_t last, const Fold& fold) {
  typename Fold::A sum = fold.neutral();
  for (int64_t i = first + static_cast<int>(threadIdx.x) % kGroup; i < last; i += kGroup * 8) {
    C v[8] = {};
    int count = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const int64_t at = i + k * kGroup;
      v[k] = at < last ? to<C>(data[x.reduced.offset(0, at)]) : C{};
      count += at < last;
    }
    sum = fold(sum, fold.of(v, count));
  }
  return sum;
}

// kGroup threads (1, 4, 32 or 256) fold one chunk of a result after the other, because short rows are too
// little work for a block each.
template <class C, class Fold, int kGroup>
static __global__ void __launch_bounds__(kReduceThreads)
    reduce_rows(const __grid_constant__ ReduceLayout x,
                const __grid_constant__ ReduceOutput<typename Fold::A> out, Fold fold) {
  using A = typename Fold::A;
  start_next_kernel();
  wait_for_previous_kernel();
  constexpr int kGroups = kReduceThreads / kGroup;
  const int64_t tasks = x.kept.count * x.chunks, group = threadIdx.x / kGroup;
  for (int64_t begin = static_cast<int64_t>(blockIdx.x) * kGroups; begin < tasks;
       begin += static_cast<int64_t>(gridDim.x) * kGroups) {
    // All threads of a warp take part in its reduction.
    const int64_t task = std::min(begin + group, tasks - 1);
    // A division takes longer than a short row.
    const int64_t result = x.chunks == 1 ? task : task / x.chunks;
    const int64_t first = (task - result * x.chunks) * x.chunk;
    const int64_t last = std::min(first + x.chunk, x.reduced.count);
    const int64_t start = x.kept.offset(0, result);
    A sum = fold.neutral();
    for_stored<C>(x.dtype, [&]<class T>(T*) {
      const T* const data = static_cast<const T*>(x.data) + start;
      sum = x.vector ? fold_contiguous<C, kGroup>(data, first, last, fold)
                     : fold_strided<C, kGroup>(x, data, first, last, fold);
    });
    if constexpr (kGroup <= kWarp) {
      sum = warp_reduce<kGroup>(sum, fold);
    } else {
      sum = block_reduce<kReduceThreads>(sum, fold);
    }
    if (static_cast<int>(threadIdx.x) % kGroup == 0 && begin + group < tasks) out.store(task, sum);
  }
}

// Work for contiguous narrow rows, many per tile (tiles.cuh); the results have the rows' dtype.
template <class T, class Fold>
struct ReduceTiles {
  struct Arrays {
    T* out;
    const T* x;
    Fold fold;
    double divisor;
  };
  using Element = T;
  using A = typename Fold::A;
  struct RowStats {};
  static constexpr int kInputs = 1;
  static constexpr int kBytes = 16384;
  static constexpr bool kByRow = true, kWrites = false;
  Arrays a;
  __device__ __forceinline__ ReduceTiles(const Arrays& arrays, int, int) : a(arrays) {}
  static __device__ __forceinline__ const T* input(const Arrays& arrays, int) { return arrays.x; }
  static __device__ __forceinline__ T* output(const Arrays&) { return nullptr; }
  __device__ __forceinline__ RowStats measure(const TileRow<T, 1>& row, int64_t r, bool leads) const {
    A sum = a.fold.neutral();
    row.each([&](int, const Compute<T>(&x)[1]) { sum = a.fold(sum, a.fold.of(x[0])); });
    sum = row.reduce(sum, a.fold);
    if (leads) a.out[r] = a.divisor == 1 ? to<T>(sum) : to<T>(static_cast<double>(sum) / a.divisor);
    return {};
  }
  static __device__ __forceinline__ void end(const TileColumns<Compute<T>>&) {}
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
