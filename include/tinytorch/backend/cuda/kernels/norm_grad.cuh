// Normalization of rows, backward: layer_norm_grad and rms_norm_grad (contracts: backend/cpu/norm.hpp).
//
//   g = dy w, h = (x - mean) rstd, dx = rstd (g - mean(g) - h mean(g h)), dw = sum dy h, db = sum dy
//
// One pass: a block walks many rows and keeps its columns' shares of dweight and dbias in registers; blocks
// leave one partial sum each, which a second kernel adds in order. The next rows arrive in shared memory
// while the present ones are worked on, and the sums of a few rows are reduced together. Of long rows each
// block of a cluster has a strip of columns; rows too long for that, and without clusters, take one kernel
// for dx and one for the sums. Limit: memory.
#pragma once

#include <tinytorch/backend/cuda/async_copy.cuh>
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

// x = the sums over the block's threads, each reduced like the others.
template <int kThreads, class A, int kCount>
__device__ __forceinline__ void reduce_sums(A (&x)[kCount]) {
  constexpr int kWarps = kThreads / kWarp;
  __shared__ A partial[kWarps][kCount];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const auto over_lanes = [&](int width) {
#pragma unroll
    for (int step = width / 2; step > 0; step /= 2) {
#pragma unroll
      for (int k = 0; k < kCount; ++k) x[k] += __shfl_xor_sync(kAllLanes, x[k], step);
    }
  };
  over_lanes(kWarp);
  __syncthreads();  // the previous call's readers are done
  if (lane == 0) {
#pragma unroll
    for (int k = 0; k < kCount; ++k) partial[warp][k] = x[k];
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kCount; ++k) x[k] = partial[lane % kWarps][k];
  over_lanes(kWarps);
}

// Where the rows of a block wait: two batches, of each row its part of dy and of x. A thread moves and reads
// its own columns only.
template <class T, int kThreads, int kVectors, int kBatch>
struct RowRing {
  static constexpr int kWide = kWideOf<T>;
  T* ring;
  int64_t strip, columns, C;  // elements from row to row: in the ring, of those used, in memory
  const T *dy, *x;

  static __device__ __forceinline__ int64_t column(int v) {
    return (static_cast<int64_t>(v) * kThreads + threadIdx.x) * kWide;
  }
  __device__ __forceinline__ T* place(unsigned turn, int r, int which) const {
    return ring + ((turn % 2 * kBatch + static_cast<unsigned>(r)) * 2 + static_cast<unsigned>(which)) * strip;
  }
  // Row r of the turn's batch sets off.
  __device__ __forceinline__ void fetch(unsigned turn, int r, int64_t row) const {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int64_t c = column(v);
      if (c >= columns) continue;
      copy_async(place(turn, r, 0) + c, dy + row * C + c);
      copy_async(place(turn, r, 1) + c, x + row * C + c);
    }
  }
};

// kThreads threads share a row, or a strip of the rows of a cluster, kVectors vectors each.
template <class T, int kThreads, int kVectors, int kCluster, int kBatch>
static __global__ void __launch_bounds__(kThreads)
    norm_grad_rows(NormGradArrays<T> a, int64_t rows, int64_t C, int64_t strip) {
  using A = Wide<T>;
  using Ring = RowRing<T, kThreads, kVectors, kBatch>;
  constexpr int kWide = Ring::kWide;
  const int64_t start = blockIdx.x % kCluster * strip, columns = min(strip, C - start);
  const Ring ring{dynamic_shared<T>(), strip, columns, C, a.dy + start, a.x + start};
  const T* const weight = a.weight ? a.weight + start : nullptr;
  const int64_t first = blockIdx.x / kCluster, stride = gridDim.x / kCluster;
  const auto row_of = [&](unsigned turn, int r) {
    return first + (static_cast<int64_t>(turn) * kBatch + r) * stride;
  };
  const auto fetch = [&](unsigned turn) {
#pragma unroll
    for (int r = 0; r < kBatch; ++r) {
      if (row_of(turn, r) < rows) ring.fetch(turn, r, row_of(turn, r));
    }
    commit_copies();
  };
  A dw[kVectors][kWide] = {}, db[kVectors][kWide] = {};
  A mean[kBatch], rstd[kBatch], next_mean[kBatch], next_rstd[kBatch];
  const auto read_statistics = [&](unsigned turn) {
#pragma unroll
    for (int r = 0; r < kBatch; ++r) {
      const bool there = row_of(turn, r) < rows;
      next_mean[r] = there && a.mean ? a.mean[row_of(turn, r)] : A(0);
      next_rstd[r] = there ? a.rstd[row_of(turn, r)] : A(0);
    }
  };
  fetch(0);
  fetch(1);
  read_statistics(0);
  for (unsigned turn = 0; row_of(turn, 0) < rows; ++turn) {
#pragma unroll
    for (int r = 0; r < kBatch; ++r) mean[r] = next_mean[r], rstd[r] = next_rstd[r];
    read_statistics(turn + 1);
    wait_for_copies<1>();
    A sums[2 * kBatch] = {};                   // of g and g h, for each row
    const auto visit = [&](int r, auto&& f) {  // f(v, column, dy, h, g)
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        const int64_t c = Ring::column(v);
        if (c >= columns) continue;
        A d[kWide], h[kWide], g[kWide];
        load(d, ring.place(turn, r, 0) + c);
        load(h, ring.place(turn, r, 1) + c);
        if (weight) load(g, weight + c);
#pragma unroll
        for (int k = 0; k < kWide; ++k) {
          h[k] = (h[k] - mean[r]) * rstd[r];
          g[k] = weight ? d[k] * g[k] : d[k];
        }
        f(v, c, d, h, g);
      }
    };
    using Values = const A(&)[kWide];
#pragma unroll
    for (int r = 0; r < kBatch; ++r) {
      if (row_of(turn, r) >= rows) continue;
      visit(r, [&](int v, int64_t, Values d, Values h, Values g) {
#pragma unroll
        for (int k = 0; k < kWide; ++k) {
          dw[v][k] += d[k] * h[k];
          db[v][k] += d[k];
          sums[2 * r] += g[k];
          sums[2 * r + 1] += g[k] * h[k];
        }
      });
    }
    if (a.dx) {
      reduce_sums<kThreads>(sums);
      cluster_sum<kCluster>(sums, turn);
#pragma unroll
      for (int r = 0; r < kBatch; ++r) {
        const int64_t row = row_of(turn, r);
        if (row >= rows) continue;
        const A mean_g = a.mean ? sums[2 * r] / static_cast<A>(C) : A(0),
                mean_gh = sums[2 * r + 1] / static_cast<A>(C);
        visit(r, [&](int, int64_t c, Values, Values h, Values g) {
          A d[kWide];
#pragma unroll
          for (int k = 0; k < kWide; ++k) d[k] = rstd[r] * (g[k] - mean_g - h[k] * mean_gh);
          store(a.dx + row * C + start + c, d);
        });
      }
    }
    fetch(turn + 2);
  }
  const int64_t out = blockIdx.x / kCluster * C + start;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int64_t c = Ring::column(v);
    if (c >= columns) continue;
    if (a.dweight) store(a.dweight + out + c, dw[v]);
    if (a.dbias) store(a.dbias + out + c, db[v]);
  }
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

template <class T, int kThreads, int kVectors, int kCluster, int kBatch>
void norm_grad_by_rows(NormGradArrays<T> a, const View& dweight, const View& dbias, int64_t rows, int64_t C,
                       int64_t strip, size_t ring_bytes) {
  using A = Wide<T>;
  const auto kernel = norm_grad_rows<T, kThreads, kVectors, kCluster, kBatch>;
  LaunchConfig config{dim3(1), dim3(kThreads), ring_bytes, kCluster};
  const int64_t blocks = std::min(rows, resident_blocks(kernel, config) / kCluster);
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
    bool done = false;
    // Takes the rows if they are no longer than the threads' registers and the block's shared memory hold.
    const auto by_rows = [&]<int kThreads, int kColumns, int kCluster, int kBatch>() {
      if (done || !aligned || (kCluster > 1 && !has_clusters())) return;
      const int64_t strip = divided_up(C / kWideOf<T>, kCluster) * kWideOf<T>;
      const auto ring = static_cast<size_t>(strip) * sizeof(T) * 4 * kBatch;
      if (strip > kThreads * kColumns || ring + 2048 > properties(current_device()).shared_per_block_optin)
        return;
      constexpr int kVectors = std::max(kColumns / kWideOf<T>, 1);
      norm_grad_by_rows<T, kThreads, kVectors, kCluster, kBatch>(a, dweight, dbias, rows, C, strip, ring);
      done = true;
    };
    by_rows.template operator()<128, 8, 1, 2>();
    by_rows.template operator()<256, 8, 1, 2>();
    by_rows.template operator()<256, 16, 1, 2>();
    if constexpr (!std::is_same_v<T, double>) {
      by_rows.template operator()<512, 16, 4, kIs16Bit<T> ? 4 : 2>();
      by_rows.template operator()<512, 16, 8, kIs16Bit<T> ? 4 : 2>();
    }
    by_rows.template operator()<512, 16, 1, 2>();
    if (!done) norm_grad_in_two<T>(a, dweight, dbias, rows, C, aligned);
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
