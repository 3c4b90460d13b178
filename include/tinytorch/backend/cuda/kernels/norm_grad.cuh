// Normalization of rows, backward: layer_norm_grad and rms_norm_grad (contracts: backend/cpu/norm.hpp).
//
//   g = dy w, h = (x - mean) rstd, dx = rstd (g - mean(g) - h mean(g h)), dw = sum dy h, db = sum dy
//
// One pass: a group of threads walks many rows, reading ahead, and keeps its columns' shares of dweight and
// dbias in registers; blocks leave one partial sum each, which a second kernel adds in order. Of f32 rows
// that one block cannot hold, the two blocks of a cluster have half the columns each; longer rows take one
// kernel for dx and one for the sums. Limit: memory.
#pragma once

#include <tinytorch/backend/cuda/cluster.cuh>
#include <tinytorch/backend/cuda/kernels/norm.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// dy ---

// mean null: rms_norm, whose dx lacks the term mean(g). weight null: all ones. dweight, dbias: partial sums
// [blocks, C] in the compute type, or null; dx may be null.
template <class T>
struct NormGradArrays {
  T* dx;
  Wide<T>*dweight, *dbias;
  const T *dy, *x, *weight;
  const Wide<T>*mean, *rstd;
};

// out = the sum over the block's groups of their columns: in shared memory, one group after the other.
template <class T, int kGroup, int kVectors>
__device__ __forceinline__ void write_columns(Wide<T>* out, const Wide<T> (&mine)[kVectors][kWideOf<T>],
                                              int64_t C) {
  using R = Row<T, kGroup, kVectors>;
  Wide<T>* const shared = dynamic_shared<Wide<T>>();
  const int group = static_cast<int>(threadIdx.x) / kGroup;
  for (int turn = 0; turn < kRowThreads<kGroup> / kGroup; ++turn) {
    __syncthreads();
    if (turn != group) continue;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (R::column(v) >= C) continue;
#pragma unroll
      for (int k = 0; k < R::kWide; ++k) {
        Wide<T>& place = shared[R::column(v) + k];
        place = turn == 0 ? mine[v][k] : place + mine[v][k];
      }
    }
  }
  __syncthreads();
  for (int64_t c = threadIdx.x; c < C; c += kRowThreads<kGroup>) out[c] = shared[c];
}

// What a row needs for its derivative: two sums that are reduced together.
template <class A>
struct NormSums {
  A g, gh;
  __device__ __forceinline__ NormSums operator+(const NormSums& other) const {
    return {g + other.g, gh + other.gh};
  }
};
// Over groups of kLanes neighbouring lanes.
template <int kLanes, class A>
__device__ __forceinline__ NormSums<A> sum_lanes(NormSums<A> x) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) {
    x = x + NormSums<A>{__shfl_xor_sync(kAllLanes, x.g, step), __shfl_xor_sync(kAllLanes, x.gh, step)};
  }
  return x;
}
// Over the threads of a row.
template <int kGroup, class A>
__device__ __forceinline__ NormSums<A> sum_group(NormSums<A> x) {
  x = sum_lanes<kWarp>(x);
  constexpr int kWarps = kGroup / kWarp;
  __shared__ NormSums<A> partial[kWarps];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  __syncthreads();  // the previous row's readers are done
  if (lane == 0) partial[warp] = x;
  __syncthreads();
  return sum_lanes<kWarps>(partial[lane % kWarps]);
}

// Whether a thread has registers for its next row, and for its part of the weight.
template <class R>
inline constexpr bool kReadAhead = R::kCount* R::kWide <= 16;
template <class R>
inline constexpr bool kHoldWeight = kReadAhead<R>&& kIs16Bit<typename R::Element>;

// Calls f(v, dy, x, g) for each vector v of this thread; the weight is in `held`, or in memory where
// registers are short.
template <class R, class F, class T = typename R::Element>
__device__ __forceinline__ void each_vector(const R& dy, const R& x, const R& held, const T* weight,
                                            int64_t C, F&& f) {
  constexpr int kWide = R::kWide;
#pragma unroll
  for (int v = 0; v < R::kCount; ++v) {
    if (R::column(v) >= C) continue;
    Wide<T> d[kWide], h[kWide], g[kWide];
    dy.get(v, d);
    x.get(v, h);
    if (weight) kHoldWeight<R> ? held.get(v, g) : load(g, weight + R::column(v));
#pragma unroll
    for (int k = 0; k < kWide; ++k) g[k] = weight ? d[k] * g[k] : d[k];
    f(v, d, h, g);
  }
}

// Blocks that a multiprocessor shall hold: what limits the registers of a thread.
template <class T, int kGroup>
inline constexpr int kNormGradBlocks = kGroup == 256                  ? 2
                                       : kGroup == 128 && kIs16Bit<T> ? 7
                                                                      : 1;

// Threads that share a row, or a strip of the rows of a cluster, kVectors vectors each; the next row is on
// its way while one is worked on.
template <class T, int kGroup, int kVectors, int kCluster>
static __global__ void __launch_bounds__(kRowThreads<kGroup>, kNormGradBlocks<T, kGroup>)
    norm_grad_rows(NormGradArrays<T> a, int64_t rows, int64_t C, int64_t strip) {
  using A = Wide<T>;
  using R = Row<T, kGroup, kVectors>;
  constexpr int kWide = R::kWide, kGroups = kRowThreads<kGroup> / kGroup;
  constexpr bool kAhead = kReadAhead<R>;
  const int64_t first = kCluster == 1 ? 0 : blockIdx.x % kCluster * strip;
  const int64_t columns = kCluster == 1 ? C : min(strip, C - first);
  const T *const dy_rows = a.dy + first, *const x_rows = a.x + first;
  const T* const weights = a.weight ? a.weight + first : nullptr;
  A dw[kVectors][kWide] = {}, db[kVectors][kWide] = {};
  const A n = static_cast<A>(C);
  R weight, g, r;
  A next_mean = 0, next_rstd = 0;
  const auto fetch = [&](int64_t of) {
    g.read(dy_rows + of * C, columns);
    r.read(x_rows + of * C, columns);
    if (a.mean) next_mean = a.mean[of];
    next_rstd = a.rstd[of];
  };
  if (kHoldWeight<R> && weights) weight.read(weights, columns);
  int64_t row = kCluster == 1 ? row_of_group<kGroup>() : blockIdx.x / kCluster;
  if (kAhead && row < rows) fetch(row);
  const int64_t stride = static_cast<int64_t>(gridDim.x / kCluster) * kGroups;
  for (unsigned turn = 0; row < rows; row += stride, ++turn) {
    if (!kAhead) fetch(row);
    const R dy = g, x = r;
    const A mean = next_mean, rstd = next_rstd;
    if (kAhead && row + stride < rows) fetch(row + stride);
    NormSums<A> sums{0, 0};
    each_vector(dy, x, weight, weights, columns, [&](int v, A(&d)[kWide], A(&h)[kWide], A(&gw)[kWide]) {
#pragma unroll
      for (int k = 0; k < kWide; ++k) {
        h[k] = (h[k] - mean) * rstd;
        dw[v][k] += d[k] * h[k];
        db[v][k] += d[k];
        sums = sums + NormSums<A>{gw[k], gw[k] * h[k]};
      }
    });
    if (!a.dx) continue;
    sums = cluster_sum<kCluster>(sum_group<kGroup>(sums), turn);
    const NormSums<A> means{a.mean ? sums.g / n : A(0), sums.gh / n};
    T* const dx = a.dx + row * C + first;
    each_vector(dy, x, weight, weights, columns, [&](int v, A(&)[kWide], A(&h)[kWide], A(&gw)[kWide]) {
#pragma unroll
      for (int k = 0; k < kWide; ++k) gw[k] = rstd * (gw[k] - means.g - (h[k] - mean) * rstd * means.gh);
      store(dx + R::column(v), gw);
    });
  }
  const int64_t out = blockIdx.x / kCluster * C + first;
  if (a.dweight) write_columns<T, kGroup, kVectors>(a.dweight + out, dw, columns);
  if (a.dbias) write_columns<T, kGroup, kVectors>(a.dbias + out, db, columns);
  cluster_wait<kCluster>();
}

// dx alone, of rows in shared memory.
template <class R, class T = typename R::Element>
static __global__ void __launch_bounds__(R::kGroup) norm_grad_shared_rows(NormGradArrays<T> a, int64_t C) {
  using A = Wide<T>;
  constexpr int kWide = R::kWide;
  const int64_t row = blockIdx.x;
  R g, r;
  g.read(a.dy + row * C, C, 0);
  r.read(a.x + row * C, C, 1);
  const A mean = a.mean ? a.mean[row] : A(0), rstd = a.rstd[row], n = static_cast<A>(C);
  A sum_g = 0, sum_gh = 0;
  g.each_pair(r, C, [&](int64_t c, A(&d)[kWide], A(&x)[kWide]) {
    A w[kWide];
    if (a.weight) load(w, a.weight + c);
#pragma unroll
    for (int k = 0; k < kWide; ++k) {
      const A gw = a.weight ? d[k] * w[k] : d[k];
      sum_g += gw;
      sum_gh += gw * (x[k] - mean) * rstd;
    }
  });
  sum_gh = group_reduce<R::kGroup>(sum_gh, Sum(), A(0)) / n;
  sum_g = a.mean ? group_reduce<R::kGroup>(sum_g, Sum(), A(0)) / n : A(0);
  g.each_pair(r, C, [&](int64_t c, A(&d)[kWide], A(&x)[kWide]) {
    A w[kWide];
    if (a.weight) load(w, a.weight + c);
#pragma unroll
    for (int k = 0; k < kWide; ++k) {
      const A gw = a.weight ? d[k] * w[k] : d[k];
      d[k] = rstd * (gw - sum_g - (x[k] - mean) * rstd * sum_gh);
    }
    store(a.dx + row * C + c, d);
  });
}

// dx alone, a block per row of any length.
template <class T>
static __global__ void __launch_bounds__(kNormThreads) norm_grad_long_rows(NormGradArrays<T> a, int64_t C) {
  using A = Wide<T>;
  const int64_t row = blockIdx.x;
  const T *dy = a.dy + row * C, *x = a.x + row * C;
  const A mean = a.mean ? a.mean[row] : A(0), rstd = a.rstd[row], n = static_cast<A>(C);
  A sum_g = 0, sum_gh = 0;
  for (int64_t c = threadIdx.x; c < C; c += kNormThreads) {
    const A g = to<A>(dy[c]) * (a.weight ? to<A>(a.weight[c]) : A(1));
    sum_g += g;
    sum_gh += g * (to<A>(x[c]) - mean) * rstd;
  }
  sum_gh = block_reduce<kNormThreads>(sum_gh, Sum(), A(0)) / n;
  sum_g = a.mean ? block_reduce<kNormThreads>(sum_g, Sum(), A(0)) / n : A(0);
  for (int64_t c = threadIdx.x; c < C; c += kNormThreads) {
    const A g = to<A>(dy[c]) * (a.weight ? to<A>(a.weight[c]) : A(1));
    a.dx[row * C + c] = to<T>(rstd * (g - sum_g - (to<A>(x[c]) - mean) * rstd * sum_gh));
  }
}

// dweight and dbias of a chunk of rows, a thread per kWide columns.
template <class T, int kWide>
static __global__ void __launch_bounds__(kNormThreads)
    norm_grad_columns(NormGradArrays<T> a, int64_t rows, int64_t C, int64_t chunk) {
  using A = Wide<T>;
  const int64_t c = (static_cast<int64_t>(blockIdx.x) * kNormThreads + threadIdx.x) * kWide;
  if (c >= C) return;
  A dw[kWide] = {}, db[kWide] = {};
  const int64_t last = min((static_cast<int64_t>(blockIdx.y) + 1) * chunk, rows);
#pragma unroll 4
  for (int64_t row = blockIdx.y * chunk; row < last; ++row) {
    A d[kWide], x[kWide];
    load(d, a.dy + row * C + c);
    load(x, a.x + row * C + c);
    const A mean = a.mean ? a.mean[row] : A(0), rstd = a.rstd[row];
#pragma unroll
    for (int k = 0; k < kWide; ++k) {
      dw[k] += d[k] * (x[k] - mean) * rstd;
      db[k] += d[k];
    }
  }
#pragma unroll
  for (int k = 0; k < kWide; ++k) {
    if (a.dweight) a.dweight[blockIdx.y * C + c + k] = dw[k];
    if (a.dbias) a.dbias[blockIdx.y * C + c + k] = db[k];
  }
}

inline constexpr int kFinishThreads = 1024;

// dweight and dbias from the blocks' partial sums [blocks, C]: a warp per 32 columns and line of blocks, the
// lines added in order.
template <class T>
static __global__ void __launch_bounds__(kFinishThreads)
    finish_parameters_kernel(T* dweight, T* dbias, const Wide<T>* dw, const Wide<T>* db, int64_t blocks,
                             int64_t C) {
  using A = Wide<T>;
  constexpr int kLines = kFinishThreads / kWarp;
  __shared__ A sums[kLines][kWarp];
  const A* partial = blockIdx.y == 0 ? dw : db;
  T* out = blockIdx.y == 0 ? dweight : dbias;
  if (!out) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, line = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kWarp + lane;
  A sum = 0;
  if (c < C) {
#pragma unroll 8
    for (int64_t b = line; b < blocks; b += kLines) sum += partial[b * C + c];
  }
  sums[line][lane] = sum;
  __syncthreads();
  if (line != 0 || c >= C) return;
  for (int k = 1; k < kLines; ++k) sum += sums[k][lane];
  out[c] = to<T>(sum);
}

template <class T>
void finish_parameters(const View& dweight, const View& dbias, const Wide<T>* dw, const Wide<T>* db,
                       int64_t blocks, int64_t C) {
  if (!dweight.data && !dbias.data) return;
  DenseOutput<T> w(dweight), b(dbias);
  launch(finish_parameters_kernel<T>,
         {dim3(static_cast<unsigned>((C + kWarp - 1) / kWarp), 2), dim3(kFinishThreads)}, w.data(), b.data(),
         dw, db, blocks, C);
  w.finish();
  b.finish();
}

template <class T, int kGroup, int kVectors, int kCluster>
void norm_grad_in_registers(NormGradArrays<T> a, const View& dweight, const View& dbias, int64_t rows,
                            int64_t C) {
  using A = Wide<T>;
  const auto kernel = norm_grad_rows<T, kGroup, kVectors, kCluster>;
  const int64_t each = kRowThreads<kGroup> / kGroup;
  const int64_t strip = divided_up(C / kWideOf<T>, kCluster) * kWideOf<T>;
  LaunchConfig config{dim3(1), dim3(kRowThreads<kGroup>), static_cast<size_t>(strip) * sizeof(A), kCluster};
  const int64_t blocks = std::min(divided_up(rows, each), resident_blocks(kernel, config) / kCluster);
  config.grid.x = static_cast<unsigned>(blocks * kCluster);
  const DeviceScratch<A> dw(dweight.data ? blocks * C : 0), db(dbias.data ? blocks * C : 0);
  a.dweight = dw.data();
  a.dbias = db.data();
  launch(kernel, config, a, rows, C, strip);
  finish_parameters<T>(dweight, dbias, dw.data(), db.data(), blocks, C);
}

// Two kernels, for rows of any length: dx, and the sums down the columns.
template <class T>
void norm_grad_in_two(NormGradArrays<T> a, const View& dweight, const View& dbias, int64_t rows, int64_t C,
                      bool aligned) {
  using A = Wide<T>;
  const DeviceProperties& device = properties(current_device());
  const size_t held = static_cast<size_t>(2 * C) * sizeof(T);
  if (a.dx && aligned && held + 2048 <= device.shared_per_block_optin) {
    launch(norm_grad_shared_rows<SharedRow<T, 1024>>, {dim3(static_cast<unsigned>(rows)), dim3(1024), held},
           a, C);
  } else if (a.dx) {
    launch(norm_grad_long_rows<T>, {dim3(static_cast<unsigned>(rows)), dim3(kNormThreads)}, a, C);
  }
  const int64_t strips = divided_up(C, kNormThreads * (aligned ? kWideOf<T> : 1));
  const int64_t wanted = std::clamp<int64_t>(device.multiprocessors * 8 / strips, 1, divided_up(rows, 32));
  const int64_t chunk = divided_up(rows, wanted), chunks = divided_up(rows, chunk);
  const DeviceScratch<A> dw(dweight.data ? chunks * C : 0), db(dbias.data ? chunks * C : 0);
  a.dweight = dw.data();
  a.dbias = db.data();
  if (a.dweight || a.dbias) {
    launch(aligned ? norm_grad_columns<T, kWideOf<T>> : norm_grad_columns<T, 1>,
           {dim3(static_cast<unsigned>(strips), static_cast<unsigned>(chunks)), dim3(kNormThreads)}, a, rows,
           C, chunk);
  }
  finish_parameters<T>(dweight, dbias, dw.data(), db.data(), chunks, C);
}

inline void run_norm_grad(const View& dx, const View& dweight, const View& dbias, const View& dy,
                          const View& x, const View& mean, const View& rstd, const View& weight) {
  const int64_t C = x.shape.back(), rows = x.numel() / C;
  if (rows == 0) {
    for (const View* v : {&dweight, &dbias}) {
      if (v->data) fill(*v, 0.0);
    }
    return;
  }
  dispatch_stored(x.dtype, [&]<class T>(T*) {
    using A = Wide<T>;
    const DenseInput<T> g(dy), in(x), w(weight);
    DenseOutput<T> to_(dx);
    const NormGradArrays<T> a{to_.data(),         nullptr,           nullptr, g.data(), in.data(), w.data(),
                              mean.as<const A>(), rstd.as<const A>()};
    const bool aligned = rows_are_aligned<T>(C, {in.data(), g.data(), to_.data(), w.data()});
    const auto in_registers = [&]<int kGroup, int kVectors, int kCluster = 1>() {
      norm_grad_in_registers<T, kGroup, kVectors, kCluster>(a, dweight, dbias, rows, C);
    };
    constexpr int kEight = std::max(8 / kWideOf<T>, 1);  // vectors of 8 columns a thread
    // Half a row of f32 a block, where the whole one would spill; a row of 16 bits is quicker alone.
    constexpr bool kHalves = std::is_same_v<T, float>;
    if (aligned && C <= 128 * 8) {
      in_registers.template operator()<128, kEight>();
    } else if (aligned && C <= 256 * 8) {
      in_registers.template operator()<256, kEight>();
    } else if (aligned && C <= 256 * 16) {
      in_registers.template operator()<256, 2 * kEight>();
    } else if (aligned && C <= 512 * 16) {
      in_registers.template operator()<512, 2 * kEight>();
    } else if (kHalves && aligned && C <= 2 * 512 * 16 && has_clusters()) {
      in_registers.template operator()<512, 2 * kEight, kHalves ? 2 : 1>();
    } else if (aligned && C <= 512 * 32 && C * static_cast<int64_t>(sizeof(A)) <= int64_t{64} * 1024) {
      in_registers.template operator()<512, 4 * kEight>();
    } else {
      norm_grad_in_two<T>(a, dweight, dbias, rows, C, aligned);
    }
    to_.finish();
  });
}

void layer_norm_grad(const View& dx, const View& dweight, const View& dbias, const View& dy, const View& x,
                     const View& mean, const View& rstd, const View& weight) {
  run_norm_grad(dx, dweight, dbias, dy, x, mean, rstd, weight);
}
void rms_norm_grad(const View& dx, const View& dweight, const View& dy, const View& x, const View& rstd,
                   const View& weight) {
  run_norm_grad(dx, dweight, {}, dy, x, {}, rstd, weight);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
