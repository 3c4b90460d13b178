// Normalization of rows, forward: layer_norm and rms_norm (contracts: backend/cpu/norm.hpp).
//
// The frame of a course header: it has the given parts, and includes the functions of task 3.23.
#pragma once

#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/elements.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kNormWarps = 8;  // a warp each
inline LaunchConfig warp_per_row(int64_t rows) { return over(rows * kWarp, kNormWarps * kWarp); }

}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#include <tasks/backend/cuda/kernels/norm.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

void layer_norm(const View& out, const View& mean, const View& rstd, const View& x, const View& weight,
                const View& bias, double eps) {
  normalize(out, mean, rstd, x, weight, bias, eps);
}
void rms_norm(const View& out, const View& rstd, const View& x, const View& weight, double eps) {
  normalize(out, {}, rstd, x, weight, {}, eps);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
