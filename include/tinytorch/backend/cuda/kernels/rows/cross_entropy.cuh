// Cross-entropy and its gradient with one read of the logits. A row stays in registers or in shared memory,
// or in strips of several blocks (strips.cuh), until its sums are known. So logits are read once and the
// gradient, which may overwrite them, is written once. Limit: memory bandwidth.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/device/tiles.cuh>
#include <tinytorch/backend/cuda/kernels/rows/softmax_strips.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Parameters of the rows: their targets (target_step elements apart), the ignored index and label smoothing.
template <class A>
struct CrossEntropyRow {
  const int64_t* target;
  int64_t target_step, ignored;
  A smoothing;
};

// Result of one read of a row: online softmax state (maximum and sum of exponentials), and sum of the
// logits.
template <class T>
struct LogitRow {
  OnlineSoftmax<Compute<T>> exps;
  Compute<T> sum;
};

// Loss of a row: (1 - s) (lse - x_t) + s (lse - mean(x)). All terms are differences from the largest logit,
// so that a common offset of the row costs no precision.
template <class T>
__device__ __forceinline__ Compute<T> row_loss(const LogitRow<T>& sums, Compute<T> at_target,
                                               Compute<T> smoothing, int64_t V) {
  using A = Compute<T>;
  const A log_sum = std::log(sums.exps.s);
  const A value = log_sum - (at_target - sums.exps.m);
  if (smoothing == A(0)) return value;
  const A mean = sums.sum / static_cast<A>(V);
  return (A(1) - smoothing) * value + smoothing * (log_sum - (mean - sums.exps.m));
}

// dx may be the same memory as logits, or null if only the loss is wanted. count: number of targets that are
// not ignored, or null; grad: gradient of the loss.
template <class T>
struct CrossEntropyArrays {
  T* dx;
  Compute<T>*losses, *lse;
  const T* logits;
  CrossEntropyRow<Compute<T>> p;
  const double* count;
  Compute<T> grad;
};
// Target of a row and the logit there, which must be read before the gradient overwrites the logits.
template <class T>
struct CrossEntropyRowStats {
  int64_t target;
  bool counts;
  Compute<T> at_target;
};
template <class T, class F>
__device__ __forceinline__ CrossEntropyRowStats<T> row_stats_of(const CrossEntropyArrays<T>& a, int64_t n,
                                                                int64_t V, F&& logit_at) {
  const int64_t t = a.p.target[n * a.p.target_step];
  const bool counts = t != a.p.ignored && t >= 0 && t < V;
  return {t, counts, counts ? logit_at(t) : Compute<T>(0)};
}
template <class T>
__device__ __forceinline__ CrossEntropyRowStats<T> row_stats_of(const CrossEntropyArrays<T>& a, int64_t n,
                                                                int64_t V) {
  return row_stats_of(a, n, V, [&](int64_t t) { return to<Compute<T>>(a.logits[n * V + t]); });
}
// Called by one thread per row. If all logits of a row are -inf, its lse and loss are NaN (0/0).
template <class T>
__device__ __forceinline__ void store_loss(const CrossEntropyArrays<T>& a, const CrossEntropyRowStats<T>& row,
                                           const LogitRow<T>& sums, int64_t n, int64_t V) {
  a.lse[n] = sums.exps.m + std::log(finished(sums.exps));
  a.losses[n] = row.counts ? row_loss<T>(sums, row.at_target, a.p.smoothing, V) : Compute<T>(0);
}
// Gradient of a row whose sums are known.
template <class T>
struct LogitGrad {
  using A = Compute<T>;
  CrossEntropyRowStats<T> row;
  A m, scale, uniform, hot;
  __device__ __forceinline__ LogitGrad(const CrossEntropyArrays<T>& a, const CrossEntropyRowStats<T>& stats,
                                       const OnlineSoftmax<A>& exps, int64_t V)
      : row(stats), m(exps.m) {
    const A all = a.count ? a.grad / static_cast<A>(std::max(1.0, *a.count)) : a.grad;
    const A weight = row.counts ? all : A(0);
    scale = weight / finished(exps);
    uniform = weight * a.p.smoothing / static_cast<A>(V);
    hot = weight * (A(1) - a.p.smoothing);
  }
  // Replaces the logits of columns c, c + 1, ... by their gradients.
  template <int kVectorSize>
  __device__ __forceinline__ void apply(int c, A (&v)[kVectorSize]) const {
#pragma unroll
    for (int k = 0; k < kVectorSize; ++k) v[k] = row.counts ? scale * exp_of<T>(v[k] - m) - uniform : A(0);
    if (row.counts && c <= row.target && row.target < c + kVectorSize) {
#pragma unroll
      for (int k = 0; k < kVectorSize; ++k) v[k] -= c + k == row.target ? hot : A(0);
    }
  }
};

// Work for narrow rows, many per tile (tiles.cuh).
template <class T>
struct CrossEntropyTiles {
  using Element = T;
  using Arrays = CrossEntropyArrays<T>;
  using A = Compute<T>;
  using RowStats = LogitGrad<T>;
  static constexpr int kInputs = 1;
  static constexpr int kBytes = 16384;
  static constexpr bool kByRow = true, kWrites = true;
  Arrays a;
  int own, V;  // column of this thread, number of columns
  __device__ __forceinline__ CrossEntropyTiles(const Arrays& arrays, int column, int C)
      : a(arrays), own(column), V(C) {}
  static __device__ __forceinline__ const T* input(const Arrays& arrays, int) { return arrays.logits; }
  static __device__ __forceinline__ T* output(const Arrays& arrays) { return arrays.dx; }
  __device__ __forceinline__ RowStats measure(const TileRow<T, 1>& row, int64_t n, bool leads) const {
    A m = kMinusInfinity<A>, s = 0, plain = 0;
    row.each([&](int, const A(&x)[1]) { m = Maximum()(m, x[0]); });
    m = row.reduce(m, Maximum());
    row.each([&](int, const A(&x)[1]) {
      s += exp_of<T>(x[0] - m);
      plain += x[0];
    });
    s = row.reduce(s, Sum());
    if (a.p.smoothing != A(0)) plain = row.reduce(plain, Sum());
    const LogitRow<T> sums{{m, s}, plain};
    const CrossEntropyRowStats<T> stats =
        row_stats_of(a, n, V, [&](int64_t t) { return to<A>(row.at[0][t]); });
    if (leads) store_loss(a, stats, sums, n, V);
    return LogitGrad<T>(a, stats, sums.exps, V);
  }
  __device__ __forceinline__ A finish(const A (&x)[1], const RowStats& row, int column) const {
    A v[1] = {x[0]};
    row.apply(column, v);
    return v[0];
  }
  __device__ __forceinline__ A finish(const A (&x)[1], const RowStats& row) const {
    return finish(x, row, own);
  }
  static __device__ __forceinline__ void end(const TileColumns<A>&) {}
};

// Rows in registers.
template <class R, class T = typename R::Element>
static __global__ void __launch_bounds__(kRowThreads<R::kGroup>)
    cross_entropy_rows(CrossEntropyArrays<T> a, int64_t rows, int64_t V) {
  using A = Compute<T>;
  constexpr int kGroup = R::kGroup;
  const GroupRow mine = row_of_group<kGroup>(rows, V, blockIdx.x);
  if (mine.exits) return;
  const int64_t n = mine.row;
  const int C = mine.C;
  T* const out = a.dx + n * V;
  R r;
  r.align_with(a.dx ? out : a.logits + n * V);
  r.read(a.logits + n * V, C, 0, to<T>(kMinusInfinity<A>));
  const CrossEntropyRowStats<T> stats = row_stats_of(a, n, V);
  A m = kMinusInfinity<A>, s = 0, plain = 0;
  r.each(C, [&](int, const A(&v)[R::kVectorSize]) {
#pragma unroll
    for (int k = 0; k < R::kVectorSize; ++k) m = Maximum()(m, v[k]);
  });
  m = group_reduce<kGroup>(m, Maximum());
  r.each(C, [&](int c, const A(&v)[R::kVectorSize]) {
#pragma unroll
    for (int k = 0; k < R::kVectorSize; ++k) {
      s += exp_of<T>(v[k] - m);
      plain += R::holds(c + k, C) ? v[k] : A(0);
    }
  });
  s = group_reduce<kGroup>(s, Sum());
  if (a.p.smoothing != A(0)) plain = group_reduce<kGroup>(plain, Sum());
  const LogitRow<T> sums{{m, s}, plain};
  if (R::lane() == 0 && mine.valid) store_loss(a, stats, sums, n, V);
  if (!a.dx) return;
  if constexpr (kGroup <= kWarp) __syncwarp();  // all lanes have read the logit at the target
  const LogitGrad<T> grad(a, stats, sums.exps, V);
  r.each(C, [&](int c, A(&v)[R::kVectorSize]) {
    grad.apply(c, v);
    R::write(out, c, C, v);
  });
}

// Rows in shared memory. Each thread keeps online softmax state while its elements arrive. Two blocks share
// a multiprocessor (512 threads leave 64 registers per thread), so that one computes while the other waits
// for memory.
inline constexpr int kLossGradThreads = 512;
template <class T, bool kAligned>
static __global__ void __launch_bounds__(kLossGradThreads, 2)
    cross_entropy_with_grad_kernel(CrossEntropyArrays<T> a, int64_t columns) {
  using A = Compute<T>;
  using R = SharedRow<T, kLossGradThreads, kAligned>;
  const int V = static_cast<int>(columns);
  const int64_t n = blockIdx.x;
  const bool smooth = a.p.smoothing != A(0);
  const CrossEntropyRowStats<T> stats = row_stats_of(a, n, V);
  R r;
  A m = kMinusInfinity<A>, s = 0, plain = 0;
  r.align_with(a.dx + n * columns);
  r.read_each(a.logits + n * columns, V, to<T>(kMinusInfinity<A>), [&](int c, const A(&v)[R::kVectorSize]) {
    A largest = m;
#pragma unroll
    for (int k = 0; k < R::kVectorSize; ++k) largest = Maximum()(largest, v[k]);
    if (largest != m) s = m == kMinusInfinity<A> ? A(0) : s * exp_of<T>(m - largest);
    m = largest;
    if (m == kMinusInfinity<A>) return;
#pragma unroll
    for (int k = 0; k < R::kVectorSize; ++k) s += exp_of<T>(v[k] - m);
    if (smooth) {
#pragma unroll
      for (int k = 0; k < R::kVectorSize; ++k) plain += R::holds(c + k, V) ? v[k] : A(0);
    }
  });
  const A own = m;
  m = block_reduce<kLossGradThreads>(own, Maximum());
  s = own == kMinusInfinity<A> ? A(0) : s * exp_of<T>(own - m);
  s = block_reduce<kLossGradThreads>(s, Sum());
  if (smooth) plain = block_reduce<kLossGradThreads>(plain, Sum());
  const LogitRow<T> sums{{m, s}, plain};
  if (threadIdx.x == 0) store_loss(a, stats, sums, n, V);
  const LogitGrad<T> grad(a, stats, sums.exps, V);
  r.each(V, [&](int c, A(&v)[R::kVectorSize]) {
    grad.apply(c, v);
    R::write(a.dx + n * columns, c, V, v);
  });
}

// Work for rows in strips. Aligned rows use the code of unaligned rows, too, because it was faster: the
// compiler does not move its loads, and no registers are spilled.
template <class T>
struct CrossEntropyStrips : PlainStripWork {
  using Element = T;
  using Arrays = CrossEntropyArrays<T>;
  using A = Compute<T>;
  using RowStats = CrossEntropyRowStats<T>;
  struct Sums {
    LogitRow<T> logits;
    __device__ __forceinline__ Sums operator+(const Sums& other) const {
      return {{merge<T>(logits.exps, other.logits.exps), logits.sum + other.logits.sum}};
    }
  };
  static constexpr int kInputs = 1, kBlocks = 2, kVectorSize = kVectorSizeOf<T>;
  using S = Strip<T, kInputs, 4, false>;

  Arrays a;
  int64_t V;

  __device__ __forceinline__ CrossEntropyStrips(const Arrays& arrays, const S&, int64_t columns)
      : a(arrays), V(columns) {}
  static __host__ __device__ __forceinline__ const T* input(const Arrays& arrays, int) {
    return arrays.logits;
  }
  static __host__ __device__ __forceinline__ const T* result(const Arrays& arrays) { return arrays.dx; }
  static __device__ __forceinline__ T fill() { return to<T>(kMinusInfinity<A>); }
  __device__ __forceinline__ RowStats row_stats(int64_t n) const { return row_stats_of(a, n, V); }
  __device__ __forceinline__ Sums visit(const S& strip, const RowStats&) const {
    Sums sums{{sum_of_strip(strip), A(0)}};
    if (a.p.smoothing != A(0)) {
      strip.each([&](int v, const A(&in)[kInputs][kVectorSize]) {
#pragma unroll
        for (int k = 0; k < kVectorSize; ++k) sums.logits.sum += strip.holds(v, k) ? in[0][k] : A(0);
      });
    }
    return sums;
  }
  __device__ __forceinline__ void finish(const S& strip, const RowStats& row, const Sums& sums,
                                         int64_t n) const {
    if (strip.first <= 0 && threadIdx.x == 0) store_loss(a, row, sums.logits, n, V);
    const LogitGrad<T> grad(a, row, sums.logits.exps, V);
    strip.each([&](int v, A(&in)[kInputs][kVectorSize]) {
      grad.apply(strip.first + S::column(v), in[0]);
      strip.write(a.dx + n * V, v, in[0]);
    });
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
