// Sorting of rows: values and positions, stable, NaN largest (contract: backend/cpu/sort.hpp).
//
// Pairs (key, position) are ordered by key, then by position. So no two pairs are equal, and any comparison
// sort is stable. A block sorts tiles of 1024 pairs in shared memory by a bitonic network. In longer rows,
// each merge pass merges pairs of sorted runs: each element finds its position by binary search in the other
// run.
// Source: Batcher, "Sorting networks and their applications", 1968.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/walk.cuh>
#include <tinytorch/backend/cuda/kernels/scan.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kSortTile = 1024, kSortThreads = 256;

// Positions have the size of keys, so that a pair has no padding bytes, whose copy would read uninitialized
// memory.
template <class C>
struct alignas(2 * sizeof(C)) SortPair {
  using Position = std::conditional_t<sizeof(C) == 8, int64_t, int32_t>;
  C key;
  Position at;
};

// True if a comes before b.
template <class C>
__device__ __forceinline__ bool before(const SortPair<C>& a, const SortPair<C>& b, bool descending) {
  const bool a_nan = a.key != a.key, b_nan = b.key != b.key;
  if (a_nan != b_nan) return descending ? a_nan : b_nan;
  if (a_nan || a.key == b.key) return a.at < b.at;
  return descending ? a.key > b.key : a.key < b.key;
}

// Sorts each tile of each row into `pairs` [rows, n].
template <class C, class T>
static __global__ void __launch_bounds__(kSortThreads)
    sort_tiles_kernel(SortPair<C>* pairs, const T* x, int64_t n, int64_t tiles, bool descending) {
  __shared__ SortPair<C> tile[kSortTile];
  const int64_t row = blockIdx.x / tiles, first = blockIdx.x % tiles * kSortTile;
  const int count = static_cast<int>(std::min(static_cast<int64_t>(kSortTile), n - first));
  int width = 1;
  while (width < count) width *= 2;
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kSortThreads) {
    // Pairs beyond the end come after all others.
    tile[i] = i < count ? SortPair<C>{to<C>(x[row * n + first + i]),
                                      static_cast<typename SortPair<C>::Position>(first + i)}
                        : SortPair<C>{C(0), 0x7fffffff - (kSortTile - i)};
  }
  const auto follows = [&](const SortPair<C>& a, const SortPair<C>& b) {
    const bool a_beyond = a.at >= 0x7fffffff - kSortTile, b_beyond = b.at >= 0x7fffffff - kSortTile;
    if (a_beyond || b_beyond) return a_beyond && (!b_beyond || a.at > b.at);
    return before(b, a, descending);
  };
  for (int size = 2; size <= width; size *= 2) {
    for (int step = size / 2; step > 0; step /= 2) {
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < width / 2; i += kSortThreads) {
        const int low = i / step * step * 2 + i % step, high = low + step;
        const bool upward = (low & size) == 0;
        const SortPair<C> a = tile[low], b = tile[high];
        if (follows(a, b) == upward) {
          tile[low] = b;
          tile[high] = a;
        }
      }
    }
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kSortThreads)
    pairs[row * n + first + i] = tile[i];
}

// Merges adjacent sorted runs of `run` pairs in each row.
template <class C>
static __global__ void __launch_bounds__(kSortThreads)
    merge_runs_kernel(SortPair<C>* out, const SortPair<C>* in, int64_t count, int64_t n, int64_t run,
                      bool descending) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kSortThreads + threadIdx.x;
  if (i >= count) return;
  const int64_t row = i / n, at = i % n, pair = at / (2 * run) * 2 * run;
  const bool left = at - pair < run;
  const int64_t other = left ? std::min(pair + run, n) : pair,
                other_end = left ? std::min(pair + 2 * run, n) : pair + run;
  const SortPair<C> mine = in[i];
  int64_t low = other, high = other_end;  // number of pairs of the other run that come before this one
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (before(in[row * n + middle], mine, descending)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  out[row * n + pair + (at - (left ? pair : pair + run)) + (low - other)] = mine;
}

template <class C, class T>
static __global__ void __launch_bounds__(kSortThreads)
    first_pairs_kernel(T* values, int64_t* indices, const T* x, const SortPair<C>* pairs, int64_t count,
                       int64_t n, int64_t k) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kSortThreads + threadIdx.x;
  if (i >= count) return;
  const int64_t row = i / k, at = pairs[row * n + i % k].at;
  values[i] = x[row * n + at];
  indices[i] = at;
}

void sort_rows(const View& values, const View& indices, const View& x, int64_t k, bool descending) {
  const int64_t rows = x.shape[0], n = x.shape[1];
  if (rows * k == 0) return;
  if (k == 1 && descending) return arg_extreme(indices, x, 1, true, values.data);  // no need to sort
  if (n >= (int64_t{1} << 30)) fail("TT-SHAPE-15", "sort: at most 2^30 elements along the sorted dimension");
  const int64_t tiles = ceil_div(n, kSortTile);
  dispatch_compute(x.dtype, [&]<class C>(C*) {
    const DeviceScratch<SortPair<C>> a(rows * n), b(tiles > 1 ? rows * n : 0);
    SortPair<C>*sorted = a.data(), *spare = b.data();
    dispatch(x.dtype, [&]<class T>(T*) {
      if constexpr (std::is_constructible_v<C, T> || kIs16Bit<T>) {
        launch(sort_tiles_kernel<C, T>, {dim3(static_cast<unsigned>(rows * tiles)), dim3(kSortThreads)},
               sorted, x.as<const T>(), n, tiles, descending);
        for (int64_t run = kSortTile; run < n; run *= 2) {
          launch(merge_runs_kernel<C>, over(rows * n, kSortThreads), spare, sorted, rows * n, n, run,
                 descending);
          std::swap(sorted, spare);
        }
        launch(first_pairs_kernel<C, T>, over(rows * k, kSortThreads), values.as<T>(), indices.as<int64_t>(),
               x.as<const T>(), sorted, rows * k, n, k);
      }
    });
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
