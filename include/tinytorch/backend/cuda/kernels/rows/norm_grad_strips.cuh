// Gradient of normalized rows in strips (strips.cuh): NormGradStrips is the Work for long rows of
// rows/norm_grad.cuh.
#pragma once

#include <tinytorch/backend/cuda/device/strips.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// mean null: rms_norm, whose dx has no term mean(g). weight null: all ones. added: a gradient that is added
// to dx, or null. dweight, dbias: partial sums [blocks, C] in the compute type, or null. dx may be null.
template <class T>
struct NormGradArrays {
  T* dx;
  Compute<T>*dweight, *dbias;
  const T *dy, *x, *weight, *added;
  const Compute<T>*mean, *rstd;
};

// Two sums of a row that its derivative needs; they are reduced together.
template <class A>
struct NormSums {
  A g, gh;
  __device__ __forceinline__ NormSums operator+(const NormSums& other) const {
    return {g + other.g, gh + other.gh};
  }
};

// g += vector number v of a row.
template <class R, class A, int kVectorSize>
__device__ __forceinline__ void add(A (&g)[kVectorSize], const R& row, int v) {
  A more[kVectorSize];
  row.get(v, more);
#pragma unroll
  for (int k = 0; k < kVectorSize; ++k) g[k] += more[k];
}

// Stores partial sums of the columns of a vector, which are aligned if the rows are.
template <bool kAligned, class A, int kVectorSize>
__device__ __forceinline__ void write_sums(A* line, int c, int C, const A (&sums)[kVectorSize]) {
  if constexpr (kAligned) {
    store(line + c, sums);
  } else {
#pragma unroll
    for (int k = 0; k < kVectorSize; ++k) {
      if (is_inside(c + k, C)) line[c + k] = sums[k];
    }
  }
}

// A thread keeps the partial sums of dweight and dbias for its columns, and its part of the weight, in
// registers. Each pass of a team stores one row of partial sums.
template <class T, bool kAdds, bool kAligned>
struct NormGradStrips {
  using Element = T;
  using Arrays = NormGradArrays<T>;
  using A = Compute<T>;
  using Sums = NormSums<A>;
  struct RowStats {
    A mean, rstd;
  };
  static constexpr int kInputs = 2, kVectors = 4, kBlocks = 1, kVectorSize = kVectorSizeOf<T>;
  static constexpr bool kKeepsColumns = true;
  using S = Strip<T, kInputs, kVectors, kAligned>;

  Arrays a;
  int64_t C;
  A dw[kVectors][kVectorSize] = {}, db[kVectors][kVectorSize] = {};
  StripLine<S, T> weight;

  __device__ __forceinline__ NormGradStrips(const Arrays& arrays, const S& strip, int64_t columns)
      : a(arrays), C(columns) {
    if (a.weight) weight.read(strip, a.weight);
  }
  static __device__ __forceinline__ T fill() { return T{}; }
  static __host__ __device__ __forceinline__ const T* result(const Arrays& arrays) {
    return arrays.dx ? arrays.dx : arrays.x;
  }
  static __host__ __device__ __forceinline__ const T* input(const Arrays& arrays, int k) {
    return k == 0 ? arrays.dy : arrays.x;
  }
  __device__ __forceinline__ RowStats row_stats(int64_t row) const {
    return {a.mean ? a.mean[row] : A(0), a.rstd[row]};
  }
  __device__ __forceinline__ void weigh(A (&g)[kVectorSize], const A (&dy)[kVectorSize], int v) const {
    if (a.weight) weight.get(v, g);
#pragma unroll
    for (int k = 0; k < kVectorSize; ++k) g[k] = a.weight ? dy[k] * g[k] : dy[k];
  }
  __device__ __forceinline__ Sums visit(const S& strip, const RowStats& row) {
    Sums sums{0, 0};
    strip.each([&](int v, const A(&in)[kInputs][kVectorSize]) {
      A g[kVectorSize];
      weigh(g, in[0], v);
#pragma unroll
      for (int k = 0; k < kVectorSize; ++k) {
        const A h = (in[1][k] - row.mean) * row.rstd;
        dw[v][k] += in[0][k] * h;
        db[v][k] += in[0][k];
        sums = sums + Sums{g[k], g[k] * h};
      }
    });
    return sums;
  }
  __device__ __forceinline__ void finish(const S& strip, const RowStats& row, const Sums& sums,
                                         int64_t r) const {
    if (!a.dx) return;
    const A n = static_cast<A>(C), mean_g = a.mean ? sums.g / n : A(0), mean_gh = sums.gh / n;
    StripLine<S, T> added;
    if constexpr (kAdds) added.read(strip, a.added + r * C);
    strip.each([&](int v, const A(&in)[kInputs][kVectorSize]) {
      A g[kVectorSize];
      weigh(g, in[0], v);
#pragma unroll
      for (int k = 0; k < kVectorSize; ++k) {
        g[k] = row.rstd * (g[k] - mean_g - (in[1][k] - row.mean) * row.rstd * mean_gh);
      }
      if constexpr (kAdds) add(g, added, v);
      strip.write(a.dx + r * C, v, g);
    });
  }
  __device__ __forceinline__ void end(const S& strip, int64_t line) const {
    strip.each_vector([&](int v) {
      const int c = strip.first + S::column(v);
      if (a.dweight) write_sums<kAligned>(a.dweight + line * C, c, strip.C, dw[v]);
      if (a.dbias) write_sums<kAligned>(a.dbias + line * C, c, strip.C, db[v]);
    });
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
