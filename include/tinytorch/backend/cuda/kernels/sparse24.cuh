// 2:4 sparse weights (contract: backend/cpu/sparse24.hpp): compression, strips, and linear layers, whose
// kernel is chosen by the number of rows of x.
//
// Up to 32 rows are read beside the weights by single warps (sparse/gemv24.cuh); more are multiplied by
// warpgroups (sparse/warpgroups24.cuh), or 32 at a time where the device has none.
#pragma once

#include <tinytorch/backend/cuda/kernels/rows/padded.cuh>
#include <tinytorch/backend/cuda/kernels/sparse/compress24.cuh>
#include <tinytorch/backend/cuda/kernels/sparse/gemv24.cuh>
#include <tinytorch/backend/cuda/kernels/sparse/gemv24_int4.cuh>
#include <tinytorch/backend/cuda/kernels/sparse/warpgroups24.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int64_t kFewRows24 = 32;

template <class T>
void multiply_strips24(const StripsProduct& p, const LinearResult& to) {
  if (p.M > kFewRows24 && p.parts > 0 && has_warpgroups()) return launch_gemm_sparse24<T>(p, to);
  if (p.M <= 8) return launch_gemv_sparse24<T, 1>(p, to);
  if (p.M <= 16) return launch_gemv_sparse24<T, 2>(p, to);
  launch_gemv_sparse24<T, 4>(p, to);
}

void linear_sparse24(const View& out, const View& x, const View& strips, const View& bias) {
  if (out.numel() == 0) return;
  const int64_t M = x.shape[0], K = x.shape[1], N = out.shape[1];
  require_sparse_tensor_cores();
  const auto run = [&]<class T>(T*) {
    const PaddedRows<T> rows(x);
    const StripsProduct p{
        strips.as<const uint8_t>(),          rows.data(), rows.row(), M, N, static_cast<int>(rows.columns()),
        static_cast<int>(Strips24::parts(K))};
    multiply_strips24<T>(p, LinearResult(out, bias));
  };
  if (x.dtype == DType::bf16) return run(static_cast<BFloat16*>(nullptr));
  run(static_cast<Half*>(nullptr));
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
