// Normalization of rows, forward: layer_norm and rms_norm (contracts: backend/cpu/norm.hpp).
//
// Rows that can be held are read once (norm_rows.cuh); longer ones are walked by a block, from memory each
// time. Limit: memory.
#pragma once

#include <tinytorch/backend/cuda/dense.cuh>
#include <tinytorch/backend/cuda/kernels/norm_rows.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// A block per row of any length.
template <class T>
static __global__ void __launch_bounds__(kNormThreads)
    norm_long_rows(NormArrays<T> a, const T* rows, int64_t C) {
  using A = Wide<T>;
  const int64_t row = blockIdx.x;
  const T* x = rows + row * C;
  const A n = static_cast<A>(C);
  A mean = 0, squares = 0;
  if (a.mean) {
    for (int64_t c = threadIdx.x; c < C; c += kNormThreads) mean += to<A>(x[c]);
    mean = block_reduce<kNormThreads>(mean, Sum()) / n;
  }
  for (int64_t c = threadIdx.x; c < C; c += kNormThreads) {
    const A d = to<A>(x[c]) - mean;
    squares += d * d;
  }
  const A rstd = A(1) / std::sqrt(block_reduce<kNormThreads>(squares, Sum()) / n + a.eps);
  if (threadIdx.x == 0) {
    if (a.mean) a.mean[row] = mean;
    a.rstd[row] = rstd;
  }
  for (int64_t c = threadIdx.x; c < C; c += kNormThreads) {
    A y = (to<A>(x[c]) - mean) * rstd;
    if (a.weight) y *= to<A>(a.weight[c]);
    if (a.bias) y += to<A>(a.bias[c]);
    a.out[row * C + c] = to<T>(y);
  }
}

// --- launchers ---

inline void run_norm(const View& out, const View& mean, const View& rstd, const View& x, const View& weight,
                     const View& bias, double eps) {
  const int64_t C = x.shape.back(), rows = x.numel() / C;
  if (rows == 0) return;
  dispatch_stored(x.dtype, [&]<class T>(T*) {
    using A = Wide<T>;
    const DenseInput<T> in(x), w(weight), b(bias);
    DenseOutput<T> y(out);
    const NormArrays<T> a{y.data(), mean.as<A>(), rstd.as<A>(), w.data(), b.data(), static_cast<A>(eps)};
    const bool aligned = rows_are_aligned<T>(C, {in.data(), y.data(), w.data(), b.data()});
    if (!norm_held_rows(a, StoredRows<T>{in.data()}, rows, C, aligned)) {
      launch(norm_long_rows<T>, {dim3(static_cast<unsigned>(rows)), dim3(kNormThreads)}, a, in.data(), C);
    }
    y.finish();
  });
}

void layer_norm(const View& out, const View& mean, const View& rstd, const View& x, const View& weight,
                const View& bias, double eps) {
  run_norm(out, mean, rstd, x, weight, bias, eps);
}
void rms_norm(const View& out, const View& rstd, const View& x, const View& weight, double eps) {
  run_norm(out, {}, rstd, x, weight, {}, eps);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
