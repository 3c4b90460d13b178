// Reductions: sum, product, extrema, any, all, sums of squares (contract: backend/cpu/reduce.hpp).
//
// Deterministic: the reduced elements are cut into chunks whose size depends on the shape alone. Each chunk
// is folded by the same threads in the same order, and a second kernel folds the chunks' results in order.
// Groups of 8 adjacent floats are summed in float, then the sum is kept in double, so the error of f32 data
// is a few roundings for any length; a row's offset in a 16-byte vector determines the groups. There are two
// access patterns: along rows (a group of threads per row) and down columns (adjacent threads have adjacent
// results). Limit: memory bandwidth, each element once.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/kernels/rows/reduce.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Columns: adjacent results are adjacent in memory. A warp folds 32 columns (256 with vectors of 8); eight
// warps of a block alternate over the rows of a chunk.
inline constexpr int kColumnLines = kReduceThreads / kWarp;
template <class C, class Fold, int kVectorSize>
static __global__ void __launch_bounds__(kReduceThreads)
    reduce_columns(const __grid_constant__ ReduceLayout x,
                   const __grid_constant__ ReduceOutput<typename Fold::A> out, Fold fold, int64_t row) {
  using A = typename Fold::A;
  __shared__ A partial[kColumnLines][kWarp * kVectorSize];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, line = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t column = (static_cast<int64_t>(blockIdx.x) * kWarp + lane) * kVectorSize;
  const int64_t outer = blockIdx.z, chunk = blockIdx.y;
  const int64_t last = std::min((chunk + 1) * x.chunk, x.reduced.count);
  A sum[kVectorSize];
  for (int w = 0; w < kVectorSize; ++w) sum[w] = fold.neutral();
  if (column < row) {
    const int64_t start = x.kept.offset(0, outer * row + column);
    for_stored<C>(x.dtype, [&]<class T>(T*) {
      const T* data = static_cast<const T*>(x.data) + start;
      for (int64_t i = chunk * x.chunk + line; i < last; i += kColumnLines * 8) {
        C v[8][kVectorSize];  // eight rows in flight
        int count = 0;
#pragma unroll
        for (int k = 0; k < 8; ++k) {
          const int64_t at = i + k * kColumnLines;
          for (int w = 0; w < kVectorSize; ++w) v[k][w] = C{};
          if (at >= last) continue;
          ++count;
          const T* p = data + x.reduced.offset(0, at);
          if constexpr (kVectorSize == 1) {
            v[k][0] = to<C>(*p);
          } else {
            load(v[k], p);
          }
        }
#pragma unroll
        for (int w = 0; w < kVectorSize; ++w) {
          const C down[8] = {v[0][w], v[1][w], v[2][w], v[3][w], v[4][w], v[5][w], v[6][w], v[7][w]};
          sum[w] = fold(sum[w], fold.of(down, count));
        }
      }
    });
  }
#pragma unroll
  for (int w = 0; w < kVectorSize; ++w) partial[line][w * kWarp + lane] = sum[w];
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kWarp * kVectorSize; i += kReduceThreads) {
    const int64_t at = (static_cast<int64_t>(blockIdx.x) * kWarp + i % kWarp) * kVectorSize + i / kWarp;
    A total = partial[0][i];
    for (int k = 1; k < kColumnLines; ++k) total = fold(total, partial[k][i]);
    if (at < row) out.store((outer * row + at) * x.chunks + chunk, total);
  }
}

// Folds the chunks of each result by kGroup (1, 32 or 256) threads, and writes it in its dtype.
template <class Fold, int kGroup>
static __global__ void __launch_bounds__(kReduceThreads)
    finish_reduce(const __grid_constant__ ReduceOutput<typename Fold::A> out, int64_t chunks, Fold fold) {
  start_next_kernel();
  wait_for_previous_kernel();
  const int64_t r = static_cast<int64_t>(blockIdx.x) * (kReduceThreads / kGroup) + threadIdx.x / kGroup;
  const int lane = static_cast<int>(threadIdx.x) % kGroup;
  typename Fold::A sum = fold.neutral();
  if (r < out.out.count) {
#pragma unroll 4
    for (int64_t k = lane; k < chunks; k += kGroup) sum = fold(sum, out.partial[r * chunks + k]);
  }
  if constexpr (kGroup == kWarp) sum = warp_reduce(sum, fold);
  if constexpr (kGroup == kReduceThreads) {
    sum = block_reduce<kReduceThreads>(sum, fold);
  }
  if (r < out.out.count && lane == 0) out.write(r, sum);
}

// --- launchers ---

template <class Fold>
void finish(const Fold& fold, const ReduceOutput<typename Fold::A>& out, int64_t chunks) {
  if (!out.partial) return;
  const int group = chunks <= 8 ? 1 : (chunks <= 256 ? kWarp : kReduceThreads);
  const auto kernel =
      group == 1 ? finish_reduce<Fold, 1>
                 : (group == kWarp ? finish_reduce<Fold, kWarp> : finish_reduce<Fold, kReduceThreads>);
  launch(kernel, early(over(out.out.count * group, kReduceThreads)), out, chunks, fold);
}

template <class C, class Fold, int kGroup>
void launch_reduce_rows(const ReduceLayout& l, const ReduceOutput<typename Fold::A>& out, const Fold& fold) {
  const auto kernel = reduce_rows<C, Fold, kGroup>;
  LaunchConfig config = early(over(l.kept.count * l.chunks * kGroup, kReduceThreads));
  if (kGroup <= kWarp) {
    const int64_t most = 4 * resident_blocks(kernel, config);
    config.grid.x = static_cast<unsigned>(std::min<int64_t>(config.grid.x, most));
  }
  launch(kernel, config, l, out, fold);
}

// Reduces by tiles if x is contiguous narrow rows of the result's dtype and each row is reduced; else
// returns false.
template <class C, class Fold>
bool reduce_in_tiles(const Fold& fold, const View& out, const View& x, const bool* reduced, int64_t results,
                     int64_t length, double divisor) {
  bool in_rows = x.contiguous() && out.contiguous() && out.dtype == x.dtype && length > 0, within = false;
  for (int d = 0; d < x.rank(); ++d) {
    if (x.shape[d] == 1) continue;
    within = within || reduced[d];
    in_rows = in_rows && reduced[d] == within;
  }
  if (!in_rows || length * static_cast<int64_t>(size_of(x.dtype)) >= 256) return false;
  dispatch_stored(x.dtype, [&]<class T>(T*) {
    if constexpr (std::is_same_v<Compute<T>, C>) {
      using Work = ReduceTiles<T, Fold>;
      launch_tiles<Work>(plan_tiles<Work>(results, length), {out.as<T>(), x.as<const T>(), fold, divisor},
                         results, length);
    }
  });
  return true;
}

// Enough groups of threads to fill a large GPU several times.
inline constexpr int64_t kReduceGroups = 132 * 8 * 4;

// The dimensions of x that are kept, or those that are reduced, merged.
struct ReducePart {
  Shape shape;
  Strides strides;
  // True if the strides of the first dimensions are multiples of a vectorized access.
  bool is_aligned(int first_dims, int64_t size) const {
    const int64_t align = std::min<int64_t>(16, 8 * size);
    bool fits = true;
    for (int d = 0; d < first_dims; ++d) fits = fits && (shape[d] == 1 || strides[d] * size % align == 0);
    return fits;
  }
};

template <class C, class Fold>
void reduce_down_columns(const Fold& fold, ReduceLayout& l, const ReducePart& kept, const ReducePart& reduced,
                         const View& out, double divisor) {
  using A = typename Fold::A;
  const auto size = static_cast<int64_t>(size_of(l.dtype));
  const int64_t results = l.kept.count, length = l.reduced.count, row = kept.shape.back();
  const bool begins_aligned =
      reinterpret_cast<uintptr_t>(l.data) % static_cast<uintptr_t>(std::min<int64_t>(16, 8 * size)) == 0;
  const bool vectorized = row % 8 == 0 && begins_aligned && reduced.is_aligned(reduced.shape.size(), size) &&
                          kept.is_aligned(kept.shape.size() - 1, size);
  const int64_t across = ceil_div(row, kWarp * (vectorized ? 8 : 1)) * (results / row);
  l.chunks =
      std::clamp<int64_t>(kReduceGroups / 4 / across, 1, std::min<int64_t>(ceil_div(length, 64), 1024));
  l.chunk = ceil_div(length, l.chunks);
  l.chunks = ceil_div(length, l.chunk);
  l.vector = vectorized;
  const DeviceScratch<A> partial(l.chunks > 1 ? results * l.chunks : 0);
  const ReduceOutput<A> to_{Plan<1>({out}, 1).operands, partial.data(), divisor};
  const dim3 grid(static_cast<unsigned>(ceil_div(row, kWarp * (vectorized ? 8 : 1))),
                  static_cast<unsigned>(l.chunks), static_cast<unsigned>(results / row));
  launch(vectorized ? reduce_columns<C, Fold, 8> : reduce_columns<C, Fold, 1>, {grid, dim3(kReduceThreads)},
         l, to_, fold, row);
  finish<Fold>(fold, to_, l.chunks);
}

template <class C, class Fold>
void reduce_along_rows(const Fold& fold, ReduceLayout& l, const View& out, double divisor) {
  using A = typename Fold::A;
  const int64_t results = l.kept.count, length = l.reduced.count;
  // At most a warp per row, if each lane then has several loads in flight and there are enough rows.
  const bool small = length <= 1024 || (size_of(l.dtype) == 2 && length <= 16384 && results >= kReduceGroups);
  l.chunks =
      small ? 1
            : std::clamp<int64_t>(kReduceGroups / std::max<int64_t>(1, results), 1, ceil_div(length, 8192));
  l.chunk = ceil_div(ceil_div(std::max<int64_t>(length, 1), l.chunks), 8) * 8;
  l.chunks = std::max<int64_t>(1, ceil_div(length, l.chunk));
  const DeviceScratch<A> partial(l.chunks > 1 ? results * l.chunks : 0);
  const ReduceOutput<A> to_{Plan<1>({out}, 1).operands, partial.data(), divisor};
  if (!small) {
    launch_reduce_rows<C, Fold, kReduceThreads>(l, to_, fold);
  } else if (length <= 32) {
    launch_reduce_rows<C, Fold, 1>(l, to_, fold);
  } else if (length <= 512) {
    launch_reduce_rows<C, Fold, 4>(l, to_, fold);
  } else {
    launch_reduce_rows<C, Fold, kWarp>(l, to_, fold);
  }
  finish<Fold>(fold, to_, l.chunks);
}

template <class C, class Fold>
void reduce_with(const Fold& fold, const View& out, const View& x, const bool* is_reduced, double divisor) {
  ReduceLayout l;
  ReducePart kept, reduced;
  l.kept = part_of(x, is_reduced, false, kept.shape, kept.strides);
  l.reduced = part_of(x, is_reduced, true, reduced.shape, reduced.strides);
  l.data = x.data;
  l.dtype = x.dtype;
  const int64_t results = l.kept.count, length = l.reduced.count, row = kept.shape.back();
  if constexpr (std::is_floating_point_v<typename Fold::A>) {
    if (reduce_in_tiles<C>(fold, out, x, is_reduced, results, length, divisor)) return;
  }
  if (kept.strides.back() == 1 && row >= 16 && reduced.strides.back() != 1 && length > 1 &&
      results / row <= 65535) {
    return reduce_down_columns<C>(fold, l, kept, reduced, out, divisor);
  }
  l.vector = reduced.shape.size() == 1 && reduced.strides[0] == 1;
  reduce_along_rows<C>(fold, l, out, divisor);
}

void reduce(ReduceFn fn, const View& out, const View& x, const bool* reduced, double divisor) {
  if (out.numel() == 0) return;
  dispatch_compute(x.dtype, [&]<class C>(C*) {
    using Limits = std::numeric_limits<C>;
    switch (fn) {
      case ReduceFn::sum:
      case ReduceFn::sum_square:
        return reduce_with<C>(FoldSum<C>{fn == ReduceFn::sum_square}, out, x, reduced, divisor);
      case ReduceFn::prod:
        return reduce_with<C>(FoldProduct<C>{}, out, x, reduced, 1);
      case ReduceFn::max:
        return reduce_with<C>(
            FoldExtreme<C>{true, std::is_integral_v<C> ? Limits::lowest() : -Limits::infinity()}, out, x,
            reduced, 1);
      case ReduceFn::min:
        return reduce_with<C>(
            FoldExtreme<C>{false, std::is_integral_v<C> ? Limits::max() : Limits::infinity()}, out, x,
            reduced, 1);
      default:
        return reduce_with<C>(FoldTruth<C>{fn == ReduceFn::all}, out, x, reduced, 1);
    }
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
