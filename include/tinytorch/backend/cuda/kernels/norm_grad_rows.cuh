// Gradients of normalized rows, with or without a mean (contracts: backend/cpu/norm.hpp).
//
//   g = dy w, h = (x - mean) rstd, dx = rstd (g - mean(g) - h mean(g h)), dw = sum dy h, db = sum dy
//
// One pass: a block walks many rows, reading ahead, and keeps its columns' shares of dweight and dbias in
// registers; blocks leave one partial sum each, which a second kernel adds in order. Long rows are
// walked in strips (strips.cuh) by a block or a cluster; longer ones, and those not aligned to 16 bytes, take
// one kernel for dx and one for the sums. What else flows back into x, as it does where a residual sum was
// normalized (residual_norm.cuh), is added to dx on the way. Limit: memory.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/dense.cuh>
#include <tinytorch/backend/cuda/kernels/norm_grad_strips.cuh>
#include <tinytorch/backend/cuda/kernels/norm_rows.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

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
template <class T, int kGroup, bool kAdds>
inline constexpr int kNormGradBlocks = kGroup == 256                  ? 2
                                       : kGroup == 128 && kIs16Bit<T> ? (kAdds ? 6 : 7)
                                                                      : 1;

// A block of kGroup threads per row, kVectors vectors each; the next row is on its way while one is worked
// on.
template <class T, int kGroup, int kVectors, bool kAdds>
static __global__ void __launch_bounds__(kGroup, kNormGradBlocks<T, kGroup, kAdds>)
    norm_grad_rows(NormGradArrays<T> a, int64_t rows, int64_t C) {
  using A = Wide<T>;
  using R = Row<T, kGroup, kVectors>;
  constexpr int kWide = R::kWide;
  constexpr bool kAhead = kReadAhead<R>;  // else what is added is read just before it is wanted
  A dw[kVectors][kWide] = {}, db[kVectors][kWide] = {};
  const A n = static_cast<A>(C);
  R weight, g, r, more;
  A next_mean = 0, next_rstd = 0;
  const auto fetch = [&](int64_t of) {
    g.read(a.dy + of * C, C);
    r.read(a.x + of * C, C);
    if constexpr (kAdds && kAhead) more.read(a.added + of * C, C);
    if (a.mean) next_mean = a.mean[of];
    next_rstd = a.rstd[of];
  };
  if (kHoldWeight<R> && a.weight) weight.read(a.weight, C);
  int64_t row = blockIdx.x;
  if (kAhead && row < rows) fetch(row);
  for (; row < rows; row += gridDim.x) {
    if (!kAhead) fetch(row);
    const R dy = g, x = r;
    R added = more;
    const A mean = next_mean, rstd = next_rstd;
    if (kAhead && row + gridDim.x < rows) fetch(row + gridDim.x);
    NormSums<A> sums{0, 0};
    each_vector(dy, x, weight, a.weight, C, [&](int v, A(&d)[kWide], A(&h)[kWide], A(&gw)[kWide]) {
#pragma unroll
      for (int k = 0; k < kWide; ++k) {
        h[k] = (h[k] - mean) * rstd;
        dw[v][k] += d[k] * h[k];
        db[v][k] += d[k];
        sums = sums + NormSums<A>{gw[k], gw[k] * h[k]};
      }
    });
    if (!a.dx) continue;
    if constexpr (kAdds && !kAhead) added.read(a.added + row * C, C);
    sums = block_reduce<kGroup>(sums, Sum());
    const NormSums<A> means{a.mean ? sums.g / n : A(0), sums.gh / n};
    T* const dx = a.dx + row * C;
    each_vector(dy, x, weight, a.weight, C, [&](int v, A(&)[kWide], A(&h)[kWide], A(&gw)[kWide]) {
#pragma unroll
      for (int k = 0; k < kWide; ++k) gw[k] = rstd * (gw[k] - means.g - (h[k] - mean) * rstd * means.gh);
      if constexpr (kAdds) add(gw, added, v);
      store(dx + R::column(v), gw);
    });
  }
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int64_t out = blockIdx.x * C + R::column(v);
    if (R::column(v) >= C) continue;
    if (a.dweight) store(a.dweight + out, dw[v]);
    if (a.dbias) store(a.dbias + out, db[v]);
  }
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
  sum_gh = block_reduce<kNormThreads>(sum_gh, Sum()) / n;
  sum_g = a.mean ? block_reduce<kNormThreads>(sum_g, Sum()) / n : A(0);
  for (int64_t c = threadIdx.x; c < C; c += kNormThreads) {
    const A g = to<A>(dy[c]) * (a.weight ? to<A>(a.weight[c]) : A(1));
    const A dx = rstd * (g - sum_g - (to<A>(x[c]) - mean) * rstd * sum_gh);
    a.dx[row * C + c] = to<T>(a.added ? dx + to<A>(a.added[row * C + c]) : dx);
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
  const int64_t last = std::min((static_cast<int64_t>(blockIdx.y) + 1) * chunk, rows);
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

// Launches run(arrays with partial sums), which leaves one line of dweight and dbias per walker, and adds
// them.
template <class T, class F>
void with_partial_sums(NormGradArrays<T> a, const View& dweight, const View& dbias, int64_t walkers,
                       int64_t C, F&& run) {
  const DeviceScratch<Wide<T>> dw(dweight.data ? walkers * C : 0), db(dbias.data ? walkers * C : 0);
  a.dweight = dw.data();
  a.dbias = db.data();
  run(a);
  finish_parameters<T>(dweight, dbias, dw.data(), db.data(), walkers, C);
}

template <class T, int kGroup, int kVectors>
void norm_grad_in_registers(const NormGradArrays<T>& arrays, const View& dweight, const View& dbias,
                            int64_t rows, int64_t C) {
  const auto kernel =
      arrays.added ? norm_grad_rows<T, kGroup, kVectors, true> : norm_grad_rows<T, kGroup, kVectors, false>;
  LaunchConfig config{dim3(1), dim3(kGroup)};
  const int64_t blocks = std::min(rows, resident_blocks(kernel, config));
  config.grid.x = static_cast<unsigned>(blocks);
  with_partial_sums(arrays, dweight, dbias, blocks, C,
                    [&](const NormGradArrays<T>& a) { launch(kernel, config, a, rows, C); });
}

// False where rows are too long for strips.
template <class T, bool kAdds>
bool norm_grad_in_strips(const NormGradArrays<T>& arrays, const View& dweight, const View& dbias,
                         int64_t rows, int64_t C) {
  using Work = NormGradStrips<T, kAdds>;
  const StripsPlan plan = plan_strips<Work>(rows, C);
  if (plan.clusters == 0) return false;
  with_partial_sums(arrays, dweight, dbias, plan.clusters, C,
                    [&](const NormGradArrays<T>& a) { launch_strips<Work>(plan, a, rows, C); });
  return true;
}

// Two kernels, for rows of any length: dx, and the sums down the columns.
template <class T>
void norm_grad_in_two(const NormGradArrays<T>& arrays, const View& dweight, const View& dbias, int64_t rows,
                      int64_t C, bool aligned) {
  if (arrays.dx) {
    launch(norm_grad_long_rows<T>, {dim3(static_cast<unsigned>(rows)), dim3(kNormThreads)}, arrays, C);
  }
  if (!dweight.data && !dbias.data) return;
  const int64_t strips = divided_up(C, kNormThreads * (aligned ? kWideOf<T> : 1));
  const int64_t wanted =
      std::clamp<int64_t>(properties(current_device()).multiprocessors * 8 / strips, 1, divided_up(rows, 32));
  const int64_t chunk = divided_up(rows, wanted), chunks = divided_up(rows, chunk);
  with_partial_sums(arrays, dweight, dbias, chunks, C, [&](const NormGradArrays<T>& a) {
    launch(aligned ? norm_grad_columns<T, kWideOf<T>> : norm_grad_columns<T, 1>,
           {dim3(static_cast<unsigned>(strips), static_cast<unsigned>(chunks)), dim3(kNormThreads)}, a, rows,
           C, chunk);
  });
}

inline void run_norm_grad(const View& dx, const View& dweight, const View& dbias, const View& dy,
                          const View& x, const View& mean, const View& rstd, const View& weight,
                          const View& added = {}) {
  const int64_t C = x.shape.back(), rows = x.numel() / C;
  if (rows == 0) {
    for (const View* v : {&dweight, &dbias}) {
      if (v->data) fill(*v, 0.0);
    }
    return;
  }
  dispatch_stored(x.dtype, [&]<class T>(T*) {
    using A = Wide<T>;
    const DenseInput<T> g(dy), in(x), w(weight), more(added);
    DenseOutput<T> to_(dx);
    const NormGradArrays<T> a{to_.data(),        nullptr,  nullptr,     g.data(),
                              in.data(),         w.data(), more.data(), mean.as<const A>(),
                              rstd.as<const A>()};
    const bool aligned = rows_are_aligned<T>(C, {in.data(), g.data(), to_.data(), w.data(), more.data()});
    const auto in_registers = [&]<int kGroup, int kVectors>() {
      norm_grad_in_registers<T, kGroup, kVectors>(a, dweight, dbias, rows, C);
      return true;
    };
    constexpr int kEight = std::max(8 / kWideOf<T>, 1);  // vectors of 8 columns a thread
    const auto held = [&] {
      if (!aligned) return false;
      if (C <= 128 * 8) return in_registers.template operator()<128, kEight>();
      if (C <= 256 * 8) return in_registers.template operator()<256, kEight>();
      if constexpr (kIs16Bit<T>) {  // of which registers hold more
        if (C <= 256 * 16) return in_registers.template operator()<256, 2 * kEight>();
        if (C <= 512 * 16) return in_registers.template operator()<512, 2 * kEight>();
        if (C <= 512 * 32) return in_registers.template operator()<512, 4 * kEight>();
      }
      return a.added ? norm_grad_in_strips<T, true>(a, dweight, dbias, rows, C)
                     : norm_grad_in_strips<T, false>(a, dweight, dbias, rows, C);
    };
    if (!held()) norm_grad_in_two<T>(a, dweight, dbias, rows, C, aligned);
    to_.finish();
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
