// Normalization of rows, backward: layer_norm_grad and rms_norm_grad (contracts: backend/cpu/norm.hpp), by
// the kernels of rows/norm_grad.cuh, which residual_norm.cuh uses, too.
#pragma once

#include <tinytorch/backend/cuda/kernels/rows/norm_grad.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

void layer_norm_grad(const View& dx, const View& dweight, const View& dbias, const View& dy, const View& x,
                     const View& mean, const View& rstd, const View& weight) {
  run_norm_grad(dx, dweight, dbias, dy, x, mean, rstd, weight);
}
void rms_norm_grad(const View& dx, const View& dweight, const View& dy, const View& x, const View& rstd,
                   const View& weight) {
  run_norm_grad(dx, dweight, {}, dy, x, {}, rstd, weight);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
