// Residual sum with dropout and norm, forward and backward (contract: backend/cpu/residual_norm.hpp).
//
// The frame of a course header: it has the given parts, and includes the functions of task 4.18.
#pragma once

#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/dropout_mask.cuh>
#include <tinytorch/backend/cuda/device/elements.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kResidualThreads = 256, kResidualWarps = kResidualThreads / kWarp;

// Decides which elements dropout keeps: word i % 4 of block i / 4 of the random numbers decides for element
// i. No mask is stored, because the backward pass asks again. A dropped element is 0 even if it was NaN.
struct ResidualDropout {
  DropoutMask mask;
  bool drops;
  explicit ResidualDropout(const ResidualNorm& p) : mask(p.p, p.seed, p.first_block), drops(p.p > 0) {}
  template <class C>
  __device__ C operator()(C x, int64_t i) const {
    return drops ? mask.apply(mask.block(i).v[i % 4], x) : x;
  }
};

// The arguments of the gradients' kernels. dsum is the gradient that flows into the sum from elsewhere; dsum
// and weight may be absent.
template <class C>
struct ResidualGradCall {
  Elements<C> dout, dsum, sum, weight;
  const C *mean, *rstd;  // mean null: rms_norm
  int64_t rows, columns;
};

// dweight = sum dout h and dbias = sum dout down 32 columns: lanes have columns, the block's warps take rows
// in turn.
template <class C>
static __global__ void __launch_bounds__(kResidualThreads)
    residual_parameters_kernel(const __grid_constant__ Elements<C> dweight,
                               const __grid_constant__ Elements<C> dbias,
                               const __grid_constant__ ResidualGradCall<C> a) {
  __shared__ C sums[2][kResidualWarps][kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kWarp + lane;
  C dw = 0, db = 0;
  for (int64_t row = warp; row < a.rows && c < a.columns; row += kResidualWarps) {
    const int64_t i = row * a.columns + c;
    const C g = a.dout.read(a.dout.place(i)), mean = a.mean ? a.mean[row] : C(0);
    dw += g * (a.sum.read(a.sum.place(i)) - mean) * a.rstd[row];
    db += g;
  }
  sums[0][warp][lane] = dw;
  sums[1][warp][lane] = db;
  __syncthreads();
  if (warp != 0 || c >= a.columns) return;
  for (int k = 1; k < kResidualWarps; ++k) {
    dw += sums[0][k][lane];
    db += sums[1][k][lane];
  }
  if (dweight.exists()) dweight.write(c * dweight.step, dw);
  if (dbias.exists()) dbias.write(c * dbias.step, db);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#include <tasks/backend/cuda/kernels/residual_norm.cuh>
