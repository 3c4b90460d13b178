// Scans along one dimension: position of the extreme value, and prefix sum (contracts:
// backend/cpu/reduce.hpp).
//
// A line is the elements along that dimension. If adjacent lines are adjacent in memory, each thread
// processes one line; if a line is contiguous, a warp or a block processes it. Deterministic: the order of
// additions depends on shape and strides alone. Float sums are kept in double.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/walk.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kScanThreads = 256;

// Lines of x along a dimension. `start` gives the first elements (operand 0: out, operand 1: x).
struct Lines {
  Operands<2> start;
  int64_t length, out_step, x_step;
};

// Lines over all dimensions but `dim`.
inline Lines lines_along(const View& out, const View& x, int dim, bool out_has_dim) {
  Shape shape;
  Strides strides[2];
  for (int d = 0, o = 0; d < x.rank(); ++d) {
    if (d != dim) {
      shape.push_back(x.shape[d]);
      strides[0].push_back(out.strides[o]);
      strides[1].push_back(x.strides[d]);
    }
    o += d != dim || out_has_dim;
  }
  collapse(shape, strides, 2);
  Lines l;
  set_shape(l.start, shape);
  l.length = x.shape[dim];
  l.x_step = x.strides[dim];
  l.out_step = out_has_dim ? out.strides[dim] : 0;
  const View* views[] = {&out, &x};
  for (int k = 0; k < 2; ++k) {
    l.start.operand[k].data = views[k]->data;
    l.start.operand[k].dtype = views[k]->dtype;
    for (int d = 0; d < l.start.rank; ++d) l.start.operand[k].stride[d] = strides[k][d];
  }
  return l;
}

// A value and its position. beats(): the better value wins; among equal values, and among NaNs, the first.
template <class C>
struct Candidate {
  C value;
  int64_t at;
};
template <class C>
__device__ __forceinline__ bool beats(const Candidate<C>& a, const Candidate<C>& b, bool largest) {
  const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
  if (a_nan || b_nan) return a_nan && (!b_nan || a.at < b.at);
  if (a.value == b.value) return a.at < b.at;
  return largest ? a.value > b.value : a.value < b.value;
}

template <class C>
__device__ __forceinline__ void keep_better(Candidate<C>& best, const Candidate<C>& next, bool largest) {
  if (next.at >= 0 && (best.at < 0 || beats(next, best, largest))) best = next;
}
// The best candidate of a warp, in every lane. A lane without elements has at == -1.
template <class C>
__device__ __forceinline__ void warp_best(Candidate<C>& best, bool largest) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    keep_better(best,
                {__shfl_xor_sync(kAllLanes, best.value, step), __shfl_xor_sync(kAllLanes, best.at, step)},
                largest);
  }
}

// Writes the position of a line's best element, and its value if `values`, with the layout of the positions,
// is not null.
template <class C>
__device__ __forceinline__ void write_best(const Lines& l, int64_t line, const Candidate<C>& best,
                                           void* values) {
  const int64_t at = l.start.offset(0, line);
  static_cast<int64_t*>(l.start.operand[0].data)[at] = best.at;
  if (!values) return;
  for_stored<C>(l.start.operand[1].dtype,
                [&]<class T>(T*) { static_cast<T*>(values)[at] = to<T>(best.value); });
}

// Lines are cut into chunks, so that few long lines fill the GPU, too. kGroup lanes (1 or 32) process a
// chunk. Adjacent groups have adjacent lines if a group is one thread, whose lines are adjacent in memory;
// else adjacent chunks. The best of each chunk goes to `partial`, or is the result if there is one chunk.
template <class C, int kGroup>
static __global__ void __launch_bounds__(kScanThreads)
    arg_extreme_kernel(const __grid_constant__ Lines l, int64_t chunk, int64_t chunks, Candidate<C>* partial,
                       bool largest, void* values) {
  start_next_kernel();
  wait_for_previous_kernel();
  constexpr int kInFlight = 8;
  const int64_t group = (static_cast<int64_t>(blockIdx.x) * kScanThreads + threadIdx.x) / kGroup;
  const int lane = static_cast<int>(threadIdx.x) % kGroup;
  const bool inside = group < l.start.count * chunks;
  const int64_t line = kGroup == 1 ? group % l.start.count : group / chunks;
  const int64_t part = kGroup == 1 ? group / l.start.count : group % chunks;
  Candidate<C> best{C(0), -1};
  if (inside) {
    const int64_t last = std::min((part + 1) * chunk, l.length);
    for_stored<C>(l.start.operand[1].dtype, [&]<class T>(T*) {
      const T* x = static_cast<const T*>(l.start.operand[1].data) + l.start.offset(1, line);
      for (int64_t i = part * chunk + lane; i < last; i += kGroup * kInFlight) {
        C value[kInFlight];
#pragma unroll
        for (int k = 0; k < kInFlight; ++k) {
          if (i + k * kGroup < last) value[k] = to<C>(x[(i + k * kGroup) * l.x_step]);
        }
#pragma unroll
        for (int k = 0; k < kInFlight; ++k) {
          if (i + k * kGroup < last) keep_better(best, {value[k], i + k * kGroup}, largest);
        }
      }
    });
  }
  if constexpr (kGroup == kWarp) warp_best(best, largest);
  if (!inside || lane != 0) return;
  if (partial)
    partial[line * chunks + part] = best;
  else
    write_best(l, line, best, values);
}

// A warp chooses the best of the chunks of a line.
template <class C>
static __global__ void __launch_bounds__(kScanThreads)
    best_of_chunks(const __grid_constant__ Lines l, int64_t chunks, const Candidate<C>* partial, bool largest,
                   void* values) {
  start_next_kernel();
  wait_for_previous_kernel();
  const int64_t line = (static_cast<int64_t>(blockIdx.x) * kScanThreads + threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  Candidate<C> best{C(0), -1};
  if (line < l.start.count) {
    for (int64_t k = lane; k < chunks; k += kWarp) keep_better(best, partial[line * chunks + k], largest);
  }
  warp_best(best, largest);
  if (line < l.start.count && lane == 0) write_best(l, line, best, values);
}

template <class C>
using ScanType = std::conditional_t<std::is_integral_v<C>, int64_t, double>;

// Calls f with a null pointer of the output's type: the dtype of x, or i64 for integers.
template <class C, class F>
__device__ __forceinline__ void for_sum_stored(DType t, F&& f) {
  if constexpr (std::is_integral_v<C>) {
    f(static_cast<int64_t*>(nullptr));
  } else {
    for_stored<C>(t, f);
  }
}

// A thread processes a line.
template <class C>
static __global__ void __launch_bounds__(kScanThreads) cumsum_lines(const __grid_constant__ Lines l) {
  const int64_t line = static_cast<int64_t>(blockIdx.x) * kScanThreads + threadIdx.x;
  if (line >= l.start.count) return;
  for_stored<C>(l.start.operand[1].dtype, [&]<class T>(T*) {
    for_sum_stored<C>(l.start.operand[0].dtype, [&]<class Out>(Out*) {
      const T* x = static_cast<const T*>(l.start.operand[1].data) + l.start.offset(1, line);
      Out* out = static_cast<Out*>(l.start.operand[0].data) + l.start.offset(0, line);
      ScanType<C> sum = 0;
      for (int64_t i = 0; i < l.length; ++i) {
        sum += static_cast<ScanType<C>>(to<C>(x[i * l.x_step]));
        out[i * l.out_step] = to<Out>(sum);
      }
    });
  });
}

// Prefix sum of one chunk of a line, 4 elements per thread at a time. With write_out, it starts from the
// totals of the chunks before; without, only the chunk's total is stored in `totals`.
inline constexpr int kScanEach = 4;
template <class C>
static __global__ void __launch_bounds__(kScanThreads)
    cumsum_chunks(const __grid_constant__ Lines l, int64_t chunk, int64_t chunks, ScanType<C>* totals,
                  bool write_out) {
  using A = ScanType<C>;
  constexpr int kWarps = kScanThreads / kWarp;
  __shared__ A warps[kWarps];
  const int64_t line = blockIdx.x / chunks, part = blockIdx.x % chunks;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t first = part * chunk, last = std::min(first + chunk, l.length);
  A before = 0;
  if (write_out) {
    for (int64_t k = 0; k < part; ++k) before += totals[line * chunks + k];
  }
  for (int64_t i = first; i < last; i += kScanThreads * kScanEach) {
    A value[kScanEach], sum = 0;
    const int64_t at = i + static_cast<int64_t>(threadIdx.x) * kScanEach;
    for_stored<C>(l.start.operand[1].dtype, [&]<class T>(T*) {
      const T* x = static_cast<const T*>(l.start.operand[1].data) + l.start.offset(1, line);
#pragma unroll
      for (int k = 0; k < kScanEach; ++k) {
        if (at + k < last) sum += static_cast<A>(to<C>(x[(at + k) * l.x_step]));
        value[k] = sum;
      }
    });
    const A up_to = warp_scan(sum);
    const A below = __shfl_up_sync(kAllLanes, up_to, 1u);  // up_to - sum would be NaN for infinities
    __syncthreads();                                       // all threads have finished reading `warps`
    if (lane == kWarp - 1) warps[warp] = up_to;
    __syncthreads();
    A offset = lane == 0 ? before : before + below, total = 0;
    for (int w = 0; w < kWarps; ++w) {
      if (w < warp) offset += warps[w];
      total += warps[w];
    }
    if (write_out) {
      for_sum_stored<C>(l.start.operand[0].dtype, [&]<class Out>(Out*) {
        Out* out = static_cast<Out*>(l.start.operand[0].data) + l.start.offset(0, line);
#pragma unroll
        for (int k = 0; k < kScanEach; ++k) {
          if (at + k < last) out[(at + k) * l.out_step] = to<Out>(offset + value[k]);
        }
      });
    }
    before += total;
  }
  if (!write_out && threadIdx.x == 0) totals[line * chunks + part] = before;
}

// --- launchers ---

// values: null, or the elements at these positions, with the layout of out.
inline void arg_extreme(const View& out, const View& x, int dim, bool largest, void* values) {
  if (out.numel() == 0) return;
  const Lines l = lines_along(out, x, dim, out.rank() == x.rank());
  dispatch_compute(x.dtype, [&]<class C>(C*) {
    // A warp per chunk reads adjacent elements of a line; a thread per chunk, elements of adjacent lines.
    const bool by_warps = l.x_step == 1 || l.start.count < kWarp;
    const int64_t group = by_warps ? kWarp : 1, shortest = by_warps ? 512 : 64;
    const int64_t wanted = (by_warps ? 4096 : 65536) / l.start.count;
    const int64_t most = ceil_div(l.length, shortest);
    const int64_t chunk = ceil_div(l.length, std::clamp<int64_t>(wanted, 1, most));
    const int64_t chunks = ceil_div(l.length, chunk);
    const DeviceScratch<Candidate<C>> partial(chunks > 1 ? l.start.count * chunks : 0);
    launch(by_warps ? arg_extreme_kernel<C, kWarp> : arg_extreme_kernel<C, 1>,
           early(over(l.start.count * chunks * group, kScanThreads)), l, chunk, chunks, partial.data(),
           largest, values);
    if (chunks > 1) {
      launch(best_of_chunks<C>, early(over(l.start.count * kWarp, kScanThreads)), l, chunks,
             static_cast<const Candidate<C>*>(partial.data()), largest, values);
    }
  });
}
void arg_extreme(const View& out, const View& x, int dim, bool largest) {
  arg_extreme(out, x, dim, largest, nullptr);
}

void cumsum(const View& out, const View& x, int dim) {
  if (out.numel() == 0) return;
  const Lines l = lines_along(out, x, dim, true);
  dispatch_compute(x.dtype, [&]<class C>(C*) {
    if (l.length < 64 || (l.x_step != 1 && l.start.count >= 4096)) {
      return launch(cumsum_lines<C>, over(l.start.count, kScanThreads), l);
    }
    constexpr int64_t kRound = kScanThreads * kScanEach;
    const int64_t wanted = std::clamp<int64_t>(2048 / l.start.count, 1, ceil_div(l.length, kRound));
    const int64_t chunk = ceil_div(ceil_div(l.length, wanted), kRound) * kRound;
    const int64_t chunks = ceil_div(l.length, chunk);
    const DeviceScratch<ScanType<C>> totals(l.start.count * chunks);
    const LaunchConfig config{dim3(static_cast<unsigned>(l.start.count * chunks)), dim3(kScanThreads)};
    if (chunks > 1) launch(cumsum_chunks<C>, config, l, chunk, chunks, totals.data(), false);
    launch(cumsum_chunks<C>, config, l, chunk, chunks, totals.data(), true);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
