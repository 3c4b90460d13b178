// Normalization of rows, forward: layer_norm and rms_norm (contracts: backend/cpu/norm.hpp).
//
//   y = (x - mean) rstd w + b,     rstd = 1 / sqrt(var + eps),     var = mean((x - mean)^2)
//
// A warp has a row: its lanes visit the row together, so that they read side by side, and combine what they
// found by shuffles, without shared memory or barriers. The row is read three times; after the first it is in
// the L1 cache. rms_norm is the same with mean 0.
//
// Task 3.23: norm_kernel, normalize. The given parts of this header are in
// modules/03_layers/frame/tinytorch/backend/cuda/kernels/norm.cuh, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Row number (block) * kNormWarps + (warp) of x [rows, columns]: out, and mean[row] and rstd[row].
//
// Element c of the row lies at x.place(row * columns) + c * x.step. Lane l visits columns l, l + 32, ...;
// warp_reduce(v, Sum()) adds the lanes' values and gives all of them the sum, so all 32 must call it.
//
// The variance is the mean of squared distances from the mean, in a pass of its own: mean(x^2) - mean^2 is
// the small difference of two large numbers where the mean is large. mean null: rms_norm. weight and bias
// [columns] may be absent.
template <class C>
static __global__ void __launch_bounds__(kNormWarps* kWarp)
    norm_kernel(const __grid_constant__ Elements<C> out, C* mean, C* rstd,
                const __grid_constant__ Elements<C> x, const __grid_constant__ Elements<C> weight,
                const __grid_constant__ Elements<C> bias, int64_t rows, int64_t columns, C eps) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kNormWarps + threadIdx.x / kWarp;
  if (row >= rows) return;
  const int64_t from = x.place(row * columns), to_ = out.place(row * columns);
  const C n = static_cast<C>(columns);
  C center = 0, squares = 0;
  if (mean) {
    for (int64_t c = lane; c < columns; c += kWarp) center += x.read(from + c * x.step);
    center = warp_reduce(center, Sum()) / n;
  }
  for (int64_t c = lane; c < columns; c += kWarp) {
    const C d = x.read(from + c * x.step) - center;
    squares += d * d;
  }
  const C scale = C(1) / std::sqrt(warp_reduce(squares, Sum()) / n + eps);
  for (int64_t c = lane; c < columns; c += kWarp) {
    C y = (x.read(from + c * x.step) - center) * scale;
    if (weight.exists()) y *= weight.read(c * weight.step);
    if (bias.exists()) y += bias.read(c * bias.step);
    out.write(to_ + c * out.step, y);
  }
  if (lane != 0) return;
  if (mean) mean[row] = center;
  rstd[row] = scale;
}

// mean without data: rms_norm. The statistics are in the compute type, one after the other: mean.as<C>().
inline void normalize(const View& out, const View& mean, const View& rstd, const View& x, const View& weight,
                      const View& bias, double eps) {
  if (x.numel() == 0) return;
  const int64_t columns = x.shape.back(), rows = x.numel() / columns;
  dispatch_floating(x.dtype, [&]<class C>(C*) {
    launch(norm_kernel<C>, warp_per_row(rows), Elements<C>(out), mean.as<C>(), rstd.as<C>(), Elements<C>(x),
           Elements<C>(weight), Elements<C>(bias), rows, columns, static_cast<C>(eps));
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
