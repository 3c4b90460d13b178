// Gradient of narrow normalized rows in tiles (tiles.cuh): NormGradTiles is a Work of rows/norm_grad.cuh.
// Threads keep the partial sums of dweight and dbias for their column; each block stores one row of partial
// sums.
#pragma once

#include <tinytorch/backend/cuda/device/tiles.cuh>
#include <tinytorch/backend/cuda/kernels/rows/norm_grad_strips.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

template <class T, bool kAdds>
struct NormGradTiles {
  using Element = T;
  using Arrays = NormGradArrays<T>;
  using A = Compute<T>;
  struct RowStats {
    A mean, rstd, mean_g, mean_gh;
  };
  static constexpr int kInputs = kAdds ? 3 : 2;
  static constexpr int kBytes = 8192;
  static constexpr bool kByRow = false;  // threads sum their own column
  static constexpr bool kWrites = true;

  Arrays a;
  A n, weight = 1, dw = 0, db = 0;

  __device__ __forceinline__ NormGradTiles(const Arrays& arrays, int column, int C)
      : a(arrays), n(static_cast<A>(C)) {
    if (a.weight) weight = to<A>(a.weight[column]);
  }
  static __device__ __forceinline__ const T* input(const Arrays& arrays, int k) {
    return k == 0 ? arrays.dy : (k == 1 ? arrays.x : arrays.added);
  }
  static __device__ __forceinline__ T* output(const Arrays& arrays) { return arrays.dx; }
  __device__ __forceinline__ RowStats measure(const TileRow<T, kInputs>& row, int64_t r, bool) const {
    const A mean = a.mean ? a.mean[r] : A(0), rstd = a.rstd[r];
    NormSums<A> sums{0, 0};
    if (a.dx) {
      row.each([&](int c, const A(&x)[kInputs]) {
        const A g = a.weight ? x[0] * to<A>(a.weight[c]) : x[0];
        sums = sums + NormSums<A>{g, g * ((x[1] - mean) * rstd)};
      });
      sums = row.reduce(sums, Sum());
    }
    return {mean, rstd, a.mean ? sums.g / n : A(0), sums.gh / n};
  }
  __device__ __forceinline__ A finish(const A (&x)[kInputs], const RowStats& row) {
    const A h = (x[1] - row.mean) * row.rstd;
    dw += x[0] * h;
    db += x[0];
    A dx = row.rstd * (x[0] * weight - row.mean_g - h * row.mean_gh);
    if constexpr (kAdds) dx += x[2];
    return dx;
  }
  __device__ __forceinline__ void end(const TileColumns<A>& columns) const {
    const int64_t line = static_cast<int64_t>(blockIdx.x) * columns.C;
    if (a.dweight) columns.sum(dw, [&](int c, A sum) { a.dweight[line + c] = sum; });
    if (a.dbias) columns.sum(db, [&](int c, A sum) { a.dbias[line + c] = sum; });
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
