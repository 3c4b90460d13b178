// Normalization of rows that stay in registers or shared memory (row.cuh): mean, then mean squared distance,
// then the result; one read and one write. Each aligned row has a group of threads of its own. A group
// processes many unaligned rows with the same phase (offset in a 16-byte vector), so that it shifts the
// weight only once. The type Source reads the rows: from memory, or as a sum that is computed on the fly
// (residual_norm.cuh). Limit: memory bandwidth.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/device/row.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// mean null: rms_norm. weight and bias may be null.
template <class T>
struct NormArrays {
  T* out;
  Compute<T>*mean, *rstd;
  const T *weight, *bias;
  Compute<T> eps;
};

// Rows in memory. C: number of columns to read, all or none.
template <class T>
struct StoredRows {
  const T* x;
  template <class R>
  __device__ __forceinline__ void read(R& r, int64_t row, int C, int64_t columns) const {
    r.read(x + row * columns, C);
  }
};

// True if registers suffice to prefetch weight and bias with the row; they do not for a row that is a sum of
// two.
template <class R, class Source>
inline constexpr bool kFetchesEarly = false;
template <class T, int kGroup, int kVectors, bool kAligned>
inline constexpr bool kFetchesEarly<Row<T, kGroup, kVectors, kAligned>, StoredRows<T>> = kVectors <= 5;
template <class T, int kVectors>
inline constexpr bool kFetchesEarly<ElementRow<T, kVectors>, StoredRows<T>> = false;

// Least number of blocks per multiprocessor, for kernels to which the compiler would give too many
// registers.
template <class R, class Source>
inline constexpr int kNormBlocks = 1;

template <class A>
struct RowStatistics {
  A mean, rstd;
};
// Called by all threads of a row of n columns. C: columns of this thread's group, all or none.
template <class R, class A>
__device__ __forceinline__ RowStatistics<A> statistics_of(const R& r, int C, A n, bool with_mean, A eps) {
  A mean = 0, squares = 0;
  if (with_mean) {
    r.each(C, [&](int, const A(&v)[R::kVectorSize]) {
#pragma unroll
      for (int k = 0; k < R::kVectorSize; ++k) mean += v[k];
    });
    mean = group_reduce<R::kGroup>(mean, Sum()) / n;
  }
  r.each(C, [&](int c, const A(&v)[R::kVectorSize]) {
#pragma unroll
    for (int k = 0; k < R::kVectorSize; ++k) {
      const A d = R::holds(c + k, C) ? v[k] - mean : A(0);
      squares += d * d;
    }
  });
  return {mean, A(1) / std::sqrt(group_reduce<R::kGroup>(squares, Sum()) / n + eps)};
}

// Brings weight and bias into L2 before the kernel waits for its rows: the time of few rows is that of their
// first loads.
inline constexpr unsigned kFewNormBlocks = 64;
template <class T>
__device__ __forceinline__ void fetch_parameters_of_few_rows(const NormArrays<T>& a, int64_t columns) {
  if (gridDim.x > kFewNormBlocks) return;
  const int64_t at = static_cast<int64_t>(threadIdx.x) * (32 / static_cast<int64_t>(sizeof(T)));
  if (a.weight && at < columns) fetch_to_l2(a.weight + at);
  if (a.bias && at < columns) fetch_to_l2(a.bias + at);
}

template <class R, class Source, class T = typename R::Element>
static __global__ void __launch_bounds__(kRowThreads<R::kGroup>, kNormBlocks<R, Source>)
    norm_rows(NormArrays<T> a, Source source, int64_t rows, int64_t columns) {
  using A = Compute<T>;
  constexpr int kGroup = R::kGroup, kVectorSize = R::kVectorSize;
  constexpr bool kEarly = kFetchesEarly<R, Source>;
  start_next_kernel();
  fetch_parameters_of_few_rows(a, columns);
  wait_for_previous_kernel();
  R r, weight, bias;
  for (int64_t block = blockIdx.x;; block += gridDim.x) {
    const GroupRow mine = row_of_group<kGroup>(rows, columns, block);
    if (mine.exits) return;
    const int64_t row = mine.row;
    const int C = mine.C;
    T* const out = a.out + row * columns;
    const bool begins = block == blockIdx.x;
    if (begins) r.align_with(out), weight.align_with(out), bias.align_with(out);
    source.read(r, row, C, columns);
    if (kEarly && begins) {
      if (a.weight) weight.read(a.weight, static_cast<int>(columns));
      if (a.bias) bias.read(a.bias, static_cast<int>(columns));
    }
    const RowStatistics<A> found = statistics_of(r, C, static_cast<A>(columns), a.mean != nullptr, a.eps);
    const A mean = found.mean, rstd = found.rstd;
    if (R::lane() == 0 && mine.valid) {
      if (a.mean) a.mean[row] = mean;
      a.rstd[row] = rstd;
    }
    const auto finish = [&](int c, A(&y)[kVectorSize], const A(&w)[kVectorSize], const A(&b)[kVectorSize]) {
#pragma unroll
      for (int k = 0; k < kVectorSize; ++k) {
        y[k] = (y[k] - mean) * rstd;
        if (a.weight) y[k] *= w[k];
        if (a.bias) y[k] += b[k];
      }
      R::write(out, c, C, y);
    };
    if constexpr (kEarly) {
#pragma unroll
      for (int v = 0; v < R::kCount; ++v) {
        if (r.column(v) >= C) continue;
        A y[kVectorSize], w[kVectorSize], b[kVectorSize];
        r.get(v, y);
        weight.get(v, w);
        bias.get(v, b);
        finish(r.column(v), y, w, b);
      }
    } else {
      r.each(C, [&](int c, A(&y)[kVectorSize]) {
        A w[kVectorSize], b[kVectorSize];
        if (a.weight) R::read_same_columns(w, a.weight, c, C);
        if (a.bias) R::read_same_columns(b, a.bias, c, C);
        finish(c, y, w, b);
      });
    }
    if constexpr (!R::kPersistent) return;
  }
}

inline constexpr int kNormThreads = 256;

// Returns false if the rows are too long for registers and shared memory.
template <class T, class Source>
bool norm_rows_on_chip(const NormArrays<T>& a, const Source& source, int64_t rows, int64_t C, bool aligned) {
  return dispatch_row<T>(C, 1, aligned, [&]<class R>(size_t shared) {
    LaunchConfig config = rows_grid<R::kGroup>(rows, shared);
    config.early = true;
    if (R::kPersistent) {
      const int64_t most = whole_phases<T>(resident_blocks(norm_rows<R, Source>, config));
      config.grid.x = static_cast<unsigned>(std::min<int64_t>(config.grid.x, most));
    }
    launch(norm_rows<R, Source>, config, a, source, rows, C);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
