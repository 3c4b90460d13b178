// Normalization of rows, backward: layer_norm_grad and rms_norm_grad (contracts: backend/cpu/norm.hpp).
//
// The frame of a course header: it has the given parts, and includes the functions of task 3.24.
#pragma once

#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/elements.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kNormGradThreads = 256, kNormGradWarps = kNormGradThreads / kWarp;

// The arguments of both kernels. For rms_norm, mean is null; weight may be absent.
template <class C>
struct NormGradCall {
  Elements<C> dy, x, weight;
  const C *mean, *rstd;
  int64_t rows, columns;
};

// out[c] = the sum of partial[chunk, c] over the chunks, in their order.
template <class C>
static __global__ void __launch_bounds__(kNormGradThreads)
    add_norm_chunks_kernel(const __grid_constant__ Elements<C> out, const C* partial, int64_t chunks,
                           int64_t columns) {
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kNormGradThreads + threadIdx.x;
  if (c >= columns) return;
  C sum = 0;
  for (int64_t k = 0; k < chunks; ++k) sum += partial[k * columns + c];
  out.write(c * out.step, sum);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#include <tasks/backend/cuda/kernels/norm_grad.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

void layer_norm_grad(const View& dx, const View& dweight, const View& dbias, const View& dy, const View& x,
                     const View& mean, const View& rstd, const View& weight) {
  normalize_grad(dx, dweight, dbias, dy, x, mean, rstd, weight);
}
void rms_norm_grad(const View& dx, const View& dweight, const View& dy, const View& x, const View& rstd,
                   const View& weight) {
  normalize_grad(dx, dweight, {}, dy, x, {}, rstd, weight);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
