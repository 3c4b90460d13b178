// Gradients of normalized rows, with or without a mean (contracts: backend/cpu/norm.hpp).
//
//   g = dy w, h = (x - mean) rstd, dx = rstd (g - mean(g) - h mean(g h)), dw = sum dy h, db = sum dy
//
// One pass: a block processes many rows with prefetching and keeps the partial sums of dweight and dbias for
// its columns in registers. Each block stores one row of partial sums, which a second kernel adds in order.
// Narrow rows are processed in tiles (tiles.cuh), long rows in strips of several blocks (strips.cuh); for
// longer rows there is one kernel for dx and one for the sums. A further gradient of x, for example that of
// a residual sum (residual_norm.cuh), is added to dx. Limit: memory bandwidth.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/kernels/rows/norm.cuh>
#include <tinytorch/backend/cuda/kernels/rows/norm_grad_strips.cuh>
#include <tinytorch/backend/cuda/kernels/rows/norm_grad_tiles.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// True if a thread has enough registers to prefetch its next row, and to hold its part of the weight.
template <class R>
inline constexpr bool kReadAhead = R::kCount* R::kVectorSize <= 16;
template <class R>
inline constexpr bool kHoldWeight = kReadAhead<R>&& kIs16Bit<typename R::Element>;

// The index of mean and rstd of a prefetched row. It equals `row`, because blockIdx.y is 0, but the compiler
// cannot know that and takes the address for different in each lane. For a uniform address it would wait at
// once for the load, to move the value into a uniform register. This is faster if the row takes few
// registers.
template <class R>
__device__ __forceinline__ int64_t moments_at(int64_t row) {
  return R::kCount * R::kVectorSize <= 8 ? row + threadIdx.x * blockIdx.y : row;
}

// Calls f(v, dy, x, g) for each vector v of this thread. The weight is in `held` or, if registers are short,
// in memory.
template <class R, class F, class T = typename R::Element>
__device__ __forceinline__ void each_vector(const R& dy, const R& x, const R& held, const T* weight, int C,
                                            F&& f) {
  constexpr int kVectorSize = R::kVectorSize;
#pragma unroll
  for (int v = 0; v < R::kCount; ++v) {
    if (x.column(v) >= C) continue;
    Compute<T> d[kVectorSize], h[kVectorSize], g[kVectorSize];
    dy.get(v, d);
    x.get(v, h);
    if (weight) kHoldWeight<R> ? held.get(v, g) : R::read_same_columns(g, weight, x.column(v), C);
#pragma unroll
    for (int k = 0; k < kVectorSize; ++k) g[k] = weight ? d[k] * g[k] : d[k];
    f(v, d, h, g);
  }
}

// Least number of blocks per multiprocessor, which limits the registers per thread.
template <class T, int kGroup, bool kAdds>
inline constexpr int kNormGradBlocks = kGroup == 256                  ? 2
                                       : kGroup == 128 && kIs16Bit<T> ? (kAdds ? 6 : 7)
                                                                      : 1;

// Stores the block's row of partial sums for the columns of this thread.
template <bool kAligned, class R, class T, class A, int kVectors, int kVectorSize>
__device__ __forceinline__ void write_column_sums(const NormGradArrays<T>& a, const R& row, int C,
                                                  const A (&dw)[kVectors][kVectorSize],
                                                  const A (&db)[kVectors][kVectorSize]) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * C;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    if (row.column(v) >= C) continue;
    if (a.dweight) write_sums<kAligned>(a.dweight + first, row.column(v), C, dw[v]);
    if (a.dbias) write_sums<kAligned>(a.dbias + first, row.column(v), C, db[v]);
  }
}

// A block of kGroup threads per row, with kVectors vectors per thread; the next row is prefetched. All rows
// of a block must have the same phase (offset in a 16-byte vector), so that threads keep their columns; the
// launcher ensures that.
template <class T, int kGroup, int kVectors, bool kAdds, bool kAligned>
static __global__ void __launch_bounds__(kGroup, kNormGradBlocks<T, kGroup, kAdds>)
    norm_grad_rows(NormGradArrays<T> a, int64_t rows, int64_t columns) {
  using A = Compute<T>;
  const int C = static_cast<int>(columns);
  using R = Row<T, kGroup, kVectors, kAligned>;
  constexpr int kVectorSize = R::kVectorSize;
  constexpr bool kAhead = kReadAhead<R>;  // if false, the rows of `added` are read just before their use
  A dw[kVectors][kVectorSize] = {}, db[kVectors][kVectorSize] = {};
  const A n = static_cast<A>(C);
  R weight, g, r, more;
  A next_mean = 0, next_rstd = 0;
  const auto fetch = [&](int64_t of) {
    g.read(a.dy + of * columns, C);
    r.read(a.x + of * columns, C);
    if constexpr (kAdds && kAhead) more.read(a.added + of * columns, C);
    const int64_t at = moments_at<R>(of);
    if (a.mean) next_mean = a.mean[at];
    next_rstd = a.rstd[at];
  };
  int64_t row = blockIdx.x;
  const T* const result = (a.dx ? a.dx : a.x) + row * columns;
  weight.align_with(result), g.align_with(result), r.align_with(result), more.align_with(result);
  if (kHoldWeight<R> && a.weight) weight.read(a.weight, C);
  if (kAhead && row < rows) fetch(row);
  for (; row < rows; row += gridDim.x) {
    if (!kAhead) fetch(row);
    const R dy = g, x = r;
    R added = more;
    const A mean = next_mean, rstd = next_rstd;
    if (kAhead && row + gridDim.x < rows) fetch(row + gridDim.x);
    NormSums<A> sums{0, 0};
    each_vector(dy, x, weight, a.weight, C,
                [&](int v, A(&d)[kVectorSize], A(&h)[kVectorSize], A(&gw)[kVectorSize]) {
#pragma unroll
                  for (int k = 0; k < kVectorSize; ++k) {
                    h[k] = (h[k] - mean) * rstd;
                    dw[v][k] += d[k] * h[k];
                    db[v][k] += d[k];
                    sums = sums + NormSums<A>{gw[k], gw[k] * h[k]};
                  }
                });
    if (!a.dx) continue;
    if constexpr (kAdds && !kAhead) added.read(a.added + row * columns, C);
    sums = block_reduce<kGroup>(sums, Sum());
    const NormSums<A> means{a.mean ? sums.g / n : A(0), sums.gh / n};
    T* const dx = a.dx + row * columns;
    each_vector(dy, x, weight, a.weight, C,
                [&](int v, A(&)[kVectorSize], A(&h)[kVectorSize], A(&gw)[kVectorSize]) {
#pragma unroll
                  for (int k = 0; k < kVectorSize; ++k)
                    gw[k] = rstd * (gw[k] - means.g - (h[k] - mean) * rstd * means.gh);
                  if constexpr (kAdds) add(gw, added, v);
                  R::write(dx, x.column(v), C, gw);
                });
  }
  write_column_sums<kAligned>(a, r, C, dw, db);
}

// dx alone, by a block per row of any length.
template <class T>
static __global__ void __launch_bounds__(kNormThreads) norm_grad_long_rows(NormGradArrays<T> a, int64_t C) {
  using A = Compute<T>;
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

// dweight and dbias of a chunk of rows, a thread per kVectorSize columns: one row of partial sums per chunk
// or, if there is only one chunk, the result.
template <class T, int kVectorSize, class Out>
static __global__ void __launch_bounds__(kNormThreads)
    norm_grad_columns(Out* dweight, Out* dbias, NormGradArrays<T> a, int64_t rows, int64_t C, int64_t chunk) {
  using A = Compute<T>;
  const int64_t c = (static_cast<int64_t>(blockIdx.x) * kNormThreads + threadIdx.x) * kVectorSize;
  if (c >= C) return;
  A dw[kVectorSize] = {}, db[kVectorSize] = {};
  const int64_t last = std::min((static_cast<int64_t>(blockIdx.y) + 1) * chunk, rows);
#pragma unroll 4
  for (int64_t row = blockIdx.y * chunk; row < last; ++row) {
    A d[kVectorSize], x[kVectorSize];
    load(d, a.dy + row * C + c);
    load(x, a.x + row * C + c);
    const A mean = a.mean ? a.mean[row] : A(0), rstd = a.rstd[row];
#pragma unroll
    for (int k = 0; k < kVectorSize; ++k) {
      dw[k] += d[k] * (x[k] - mean) * rstd;
      db[k] += d[k];
    }
  }
#pragma unroll
  for (int k = 0; k < kVectorSize; ++k) {
    if (dweight) dweight[blockIdx.y * C + c + k] = to<Out>(dw[k]);
    if (dbias) dbias[blockIdx.y * C + c + k] = to<Out>(db[k]);
  }
}

// Adds few rows of partial sums, by a thread per column.
template <class T>
static __global__ void __launch_bounds__(kNormThreads)
    finish_few_lines(T* dweight, T* dbias, const Compute<T>* dw, const Compute<T>* db, int64_t lines,
                     int64_t C) {
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kNormThreads + threadIdx.x;
  const Compute<T>* const partial = blockIdx.y == 0 ? dw : db;
  T* const out = blockIdx.y == 0 ? dweight : dbias;
  if (!out || c >= C) return;
  Compute<T> sum = 0;
#pragma unroll 4
  for (int64_t k = 0; k < lines; ++k) sum += partial[k * C + c];
  out[c] = to<T>(sum);
}

inline constexpr int kFinishThreads = 1024;

// dweight and dbias from the blocks' partial sums [blocks, C]. Each warp adds some of the rows for 32
// columns; then the warps' sums are added in order.
template <class T>
static __global__ void __launch_bounds__(kFinishThreads)
    finish_parameters_kernel(T* dweight, T* dbias, const Compute<T>* dw, const Compute<T>* db, int64_t blocks,
                             int64_t C) {
  using A = Compute<T>;
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
void finish_parameters(const View& dweight, const View& dbias, const Compute<T>* dw, const Compute<T>* db,
                       int64_t blocks, int64_t C) {
  if (!dweight.data && !dbias.data) return;
  ContiguousOutput<T> w(dweight), b(dbias);
  if (blocks <= kWarp) {
    const auto across = static_cast<unsigned>(ceil_div(C, kNormThreads));
    launch(finish_few_lines<T>, {dim3(across, 2), dim3(kNormThreads)}, w.data(), b.data(), dw, db, blocks, C);
    w.write_back();
    return b.write_back();
  }
  launch(finish_parameters_kernel<T>,
         {dim3(static_cast<unsigned>(ceil_div(C, kWarp)), 2), dim3(kFinishThreads)}, w.data(), b.data(), dw,
         db, blocks, C);
  w.write_back();
  b.write_back();
}

// Calls run(arrays) with scratch memory for `lines` rows of partial sums of dweight and dbias, and adds
// these rows.
template <class T, class F>
void with_partial_sums(NormGradArrays<T> a, const View& dweight, const View& dbias, int64_t lines, int64_t C,
                       F&& run) {
  const DeviceScratch<Compute<T>> dw(dweight.data ? lines * C : 0), db(dbias.data ? lines * C : 0);
  a.dweight = dw.data();
  a.dbias = db.data();
  run(a);
  finish_parameters<T>(dweight, dbias, dw.data(), db.data(), lines, C);
}

template <class T, int kGroup, int kVectors, bool kAligned>
void norm_grad_in_registers(const NormGradArrays<T>& arrays, const View& dweight, const View& dbias,
                            int64_t rows, int64_t C) {
  const auto kernel = arrays.added ? norm_grad_rows<T, kGroup, kVectors, true, kAligned>
                                   : norm_grad_rows<T, kGroup, kVectors, false, kAligned>;
  LaunchConfig config{dim3(1), dim3(kGroup)};
  int64_t blocks = resident_blocks(kernel, config);
  if (!kAligned) blocks = whole_phases<T>(blocks);
  blocks = std::min(rows, blocks);
  config.grid.x = static_cast<unsigned>(blocks);
  with_partial_sums(arrays, dweight, dbias, blocks, C,
                    [&](const NormGradArrays<T>& a) { launch(kernel, config, a, rows, C); });
}

// dweight and dbias alone, by columns.
template <class T>
void norm_grad_of_columns(const NormGradArrays<T>& arrays, const View& dweight, const View& dbias,
                          int64_t rows, int64_t C, bool aligned) {
  if (!dweight.data && !dbias.data) return;
  const int64_t processors = properties(current_device()).multiprocessors;
  const bool vectorized = aligned && ceil_div(C, kNormThreads * kVectorSizeOf<T>) >= processors;
  const int64_t strips = ceil_div(C, kNormThreads * (vectorized ? kVectorSizeOf<T> : 1));
  const int64_t wanted = std::clamp<int64_t>(processors * 8 / strips, 1, ceil_div(rows, 32));
  const int64_t chunk = ceil_div(rows, wanted), chunks = ceil_div(rows, chunk);
  const LaunchConfig config{dim3(static_cast<unsigned>(strips), static_cast<unsigned>(chunks)),
                            dim3(kNormThreads)};
  const auto run = [&]<class Out>(Out* to_weight, Out* to_bias) {
    launch(vectorized ? norm_grad_columns<T, kVectorSizeOf<T>, Out> : norm_grad_columns<T, 1, Out>, config,
           to_weight, to_bias, arrays, rows, C, chunk);
  };
  if (chunks > 1) {
    return with_partial_sums(arrays, dweight, dbias, chunks, C,
                             [&](const NormGradArrays<T>& a) { run(a.dweight, a.dbias); });
  }
  ContiguousOutput<T> w(dweight), b(dbias);
  run(w.data(), b.data());
  w.write_back();
  b.write_back();
}

template <class T, bool kAdds>
void norm_grad_in_tiles(const NormGradArrays<T>& arrays, const View& dweight, const View& dbias, int64_t rows,
                        int64_t C) {
  using Work = NormGradTiles<T, kAdds>;
  const TilesPlan plan = plan_tiles<Work>(rows, C);
  with_partial_sums(arrays, dweight, dbias, plan.config.grid.x, C,
                    [&](const NormGradArrays<T>& a) { launch_tiles<Work>(plan, a, rows, C); });
}

// Returns false if the rows are too long for strips.
template <class T, bool kAdds, bool kAligned>
bool norm_grad_in_strips(const NormGradArrays<T>& arrays, const View& dweight, const View& dbias,
                         int64_t rows, int64_t C) {
  using Work = NormGradStrips<T, kAdds, kAligned>;
  const StripsPlan plan = plan_strips<Work>(arrays, rows, C);
  if (plan.teams == 0) return false;
  if (plan.teams == rows) {  // a team per row: the partial sums would be as large as x
    if (arrays.dx) launch_strips<Work>(plan, arrays, rows, C);
    norm_grad_of_columns<T>(arrays, dweight, dbias, rows, C, kAligned);
    return true;
  }
  with_partial_sums(arrays, dweight, dbias, plan.teams * plan.passes, C,
                    [&](const NormGradArrays<T>& a) { launch_strips<Work>(plan, a, rows, C); });
  return true;
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
    using A = Compute<T>;
    const ContiguousInput<T> g(dy), in(x), w(weight), more(added);
    ContiguousOutput<T> to_(dx);
    const NormGradArrays<T> a{to_.data(),        nullptr,  nullptr,     g.data(),
                              in.data(),         w.data(), more.data(), mean.as<const A>(),
                              rstd.as<const A>()};
    const bool aligned = rows_are_aligned<T>(C, {in.data(), g.data(), to_.data(), w.data(), more.data()});
    const auto in_registers = [&]<int kGroup, int kVectors>() {
      aligned ? norm_grad_in_registers<T, kGroup, kVectors, true>(a, dweight, dbias, rows, C)
              : norm_grad_in_registers<T, kGroup, kVectors, false>(a, dweight, dbias, rows, C);
      return true;
    };
    constexpr int kEight = std::max(8 / kVectorSizeOf<T>, 1);  // vectors per thread for 8 columns
    const auto held = [&] {
      if (C <= kTileColumns) {
        a.added ? norm_grad_in_tiles<T, true>(a, dweight, dbias, rows, C)
                : norm_grad_in_tiles<T, false>(a, dweight, dbias, rows, C);
        return true;
      }
      const int64_t columns = vectors_of_row<T>(C, aligned) * kVectorSizeOf<T>;
      const auto strips = [&] {
        const auto by = [&]<bool kAligned>() {
          return a.added ? norm_grad_in_strips<T, true, kAligned>(a, dweight, dbias, rows, C)
                         : norm_grad_in_strips<T, false, kAligned>(a, dweight, dbias, rows, C);
        };
        return aligned ? by.template operator()<true>() : by.template operator()<false>();
      };
      if (rows_are_few<T>(rows, C) && strips()) return true;
      if (columns <= 128 * 8) return in_registers.template operator()<128, kEight>();
      if (columns <= 256 * 8) return in_registers.template operator()<256, kEight>();
      if constexpr (kIs16Bit<T>) {  // registers hold more 16-bit elements
        if (columns <= 256 * 16) return in_registers.template operator()<256, 2 * kEight>();
        if (columns <= 512 * 16) return in_registers.template operator()<512, 2 * kEight>();
        if (aligned && columns <= 512 * 32) {  // unaligned rows are faster in strips
          norm_grad_in_registers<T, 512, 4 * kEight, true>(a, dweight, dbias, rows, C);
          return true;
        }
      }
      return strips();
    };
    if (!held()) {
      if (a.dx) {
        launch(norm_grad_long_rows<T>, {dim3(static_cast<unsigned>(rows)), dim3(kNormThreads)}, a, C);
      }
      norm_grad_of_columns<T>(a, dweight, dbias, rows, C, aligned);
    }
    to_.write_back();
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
