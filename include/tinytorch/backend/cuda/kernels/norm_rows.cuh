// Normalization of rows that stay in registers or shared memory (row.cuh): mean, then the mean of squared
// distances, then the result: one read, one write. Where rows come from is a type of its own: memory as it
// is, or a sum that is made on the way (residual_norm.cuh). Limit: memory.
#pragma once

#include <tinytorch/backend/cuda/row.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// mean null: rms_norm. weight, bias may be null.
template <class T>
struct NormArrays {
  T* out;
  Wide<T>*mean, *rstd;
  const T *weight, *bias;
  Wide<T> eps;
};

// Rows as they lie in memory.
template <class T>
struct StoredRows {
  const T* x;
  template <class R>
  __device__ __forceinline__ void read(R& r, int64_t row, int64_t C) const {
    r.read(x + row * C, C);
  }
};

// Whether a row leaves registers to fetch weight and bias along with it. One that is made of two does not.
template <class R, class Source>
inline constexpr bool kFetchesEarly = false;
template <class T, int kGroup, int kVectors, int kWide>
inline constexpr bool kFetchesEarly<Row<T, kGroup, kVectors, kWide>, StoredRows<T>> = kVectors <= 4;

// Blocks that a multiprocessor shall hold, where the compiler would take more registers than that leaves.
template <class R, class Source>
inline constexpr int kNormBlocks = 1;

template <class R, class Source, class T = typename R::Element>
static __global__ void __launch_bounds__(kRowThreads<R::kGroup>, kNormBlocks<R, Source>)
    norm_rows(NormArrays<T> a, Source source, int64_t rows, int64_t C) {
  using A = Wide<T>;
  constexpr int kGroup = R::kGroup, kWide = R::kWide;
  constexpr bool kEarly = kFetchesEarly<R, Source>;
  const int64_t row = row_of_group<kGroup>();
  if (row >= rows) return;
  R r, weight, bias;
  source.read(r, row, C);
  if constexpr (kEarly) {
    if (a.weight) weight.read(a.weight, C);
    if (a.bias) bias.read(a.bias, C);
  }
  const A n = static_cast<A>(C);
  A mean = 0, squares = 0;
  if (a.mean) {
    r.each(C, [&](int64_t, const A(&v)[kWide]) {
#pragma unroll
      for (int k = 0; k < kWide; ++k) mean += v[k];
    });
    mean = group_reduce<kGroup>(mean, Sum()) / n;
  }
  r.each(C, [&](int64_t, const A(&v)[kWide]) {
#pragma unroll
    for (int k = 0; k < kWide; ++k) squares += (v[k] - mean) * (v[k] - mean);
  });
  const A rstd = A(1) / std::sqrt(group_reduce<kGroup>(squares, Sum()) / n + a.eps);
  if (R::lane() == 0) {
    if (a.mean) a.mean[row] = mean;
    a.rstd[row] = rstd;
  }
  const auto finish = [&](int64_t c, A(&y)[kWide], const A(&w)[kWide], const A(&b)[kWide]) {
#pragma unroll
    for (int k = 0; k < kWide; ++k) {
      y[k] = (y[k] - mean) * rstd;
      if (a.weight) y[k] *= w[k];
      if (a.bias) y[k] += b[k];
    }
    store(a.out + row * C + c, y);
  };
  if constexpr (kEarly) {
#pragma unroll
    for (int v = 0; v < R::kCount; ++v) {
      if (R::column(v) >= C) continue;
      A y[kWide], w[kWide], b[kWide];
      r.get(v, y);
      weight.get(v, w);
      bias.get(v, b);
      finish(R::column(v), y, w, b);
    }
  } else {
    r.each(C, [&](int64_t c, A(&y)[kWide]) {
      A w[kWide], b[kWide];
      if (a.weight) load(w, a.weight + c);
      if (a.bias) load(b, a.bias + c);
      finish(c, y, w, b);
    });
  }
}

inline constexpr int kNormThreads = 256;

// False where rows are too long to be held.
template <class T, class Source>
bool norm_held_rows(const NormArrays<T>& a, const Source& source, int64_t rows, int64_t C, bool aligned) {
  return dispatch_row<T>(C, 1, aligned, [&]<class R>(size_t shared) {
    launch(norm_rows<R, Source>, rows_grid<R::kGroup>(rows, shared), a, source, rows, C);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
