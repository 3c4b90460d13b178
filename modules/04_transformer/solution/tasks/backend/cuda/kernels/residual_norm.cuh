// Residual sum with dropout and norm, forward and backward (contract: backend/cpu/residual_norm.hpp).
//
//   s = residual + dropout(x)      out = norm(s) w + b      norm: layer_norm; rms_norm without a mean
//
// It stands twice in every block of a transformer. As three ops it moves each element eight times, as one
// kernel four: x and residual are read, s and out are written. (s is read again by the thread that wrote it,
// from the L1 cache.) A warp has a row, as in norm.cuh.
//
// Task 4.18: residual_norm_kernel, residual_norm_grad_kernel, residual_norm, residual_norm_grad. The given
// parts of this header are in modules/04_transformer/frame/tinytorch/backend/cuda/kernels/residual_norm.cuh,
// which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Row number (block) * kResidualWarps + (warp): sum, out, and mean[row] and rstd[row].
//
// Element c of the row is number i = row * columns + c of the tensor, and lies in x at x.place(row * columns)
// + c * x.step, in the others likewise. Three visits by the warp's lanes: s = residual + drop(x, i), stored,
// and added up for the mean; squared distances from it, for the variance; the result. The norm is of s as it
// was stored: sum.rounded(s) is what will be read back, and what the backward pass sees. A lane reads only
// what it wrote itself, which needs no barrier. mean null: rms_norm, whose mean is 0 and which has no bias.
// weight and bias may be absent.
template <class C>
static __global__ void __launch_bounds__(kResidualThreads)
    residual_norm_kernel(const __grid_constant__ Elements<C> out, const __grid_constant__ Elements<C> sum,
                         C* mean, C* rstd, const __grid_constant__ Elements<C> x,
                         const __grid_constant__ Elements<C> residual,
                         const __grid_constant__ Elements<C> weight, const __grid_constant__ Elements<C> bias,
                         const __grid_constant__ ResidualDropout drop, int64_t rows, int64_t columns, C eps) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kResidualWarps + threadIdx.x / kWarp;
  if (row >= rows) return;
  const int64_t first = row * columns;
  const int64_t in_x = x.place(first), in_residual = residual.place(first), in_sum = sum.place(first),
                in_out = out.place(first);
  const C n = static_cast<C>(columns);
  C center = 0, squares = 0;
  for (int64_t c = lane; c < columns; c += kWarp) {
    const C kept = drop(x.read(in_x + c * x.step), first + c);
    const C s = sum.rounded(residual.read(in_residual + c * residual.step) + kept);
    sum.write(in_sum + c * sum.step, s);
    center += s;
  }
  center = mean ? warp_reduce(center, Sum()) / n : C(0);
  for (int64_t c = lane; c < columns; c += kWarp) {
    const C d = sum.read(in_sum + c * sum.step) - center;
    squares += d * d;
  }
  const C scale = C(1) / std::sqrt(warp_reduce(squares, Sum()) / n + eps);
  for (int64_t c = lane; c < columns; c += kWarp) {
    C y = (sum.read(in_sum + c * sum.step) - center) * scale;
    if (weight.exists()) y *= weight.read(c * weight.step);
    if (bias.exists()) y += bias.read(c * bias.step);
    out.write(in_out + c * out.step, y);
  }
  if (lane != 0) return;
  if (mean) mean[row] = center;
  rstd[row] = scale;
}

// dresidual and, where it exists, dx of a row; a warp each.
//
//   g = dout w,  h = (sum - mean) rstd:   ds = rstd (g - mean(g) - h mean(g h)) + dsum
//   dresidual = ds,   dx = drop(ds)
//
// Two visits: the sums of g and g h, then the results. Of rms_norm mean(g) is 0. dresidual may be the memory
// of dsum.
template <class C>
static __global__ void __launch_bounds__(kResidualThreads)
    residual_norm_grad_kernel(const __grid_constant__ Elements<C> dx,
                              const __grid_constant__ Elements<C> dresidual,
                              const __grid_constant__ ResidualGradCall<C> a,
                              const __grid_constant__ ResidualDropout drop) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kResidualWarps + threadIdx.x / kWarp;
  if (row >= a.rows) return;
  const int64_t columns = a.columns, first = row * columns;
  const int64_t in_dout = a.dout.place(first), in_sum = a.sum.place(first);
  const int64_t in_dsum = a.dsum.exists() ? a.dsum.place(first) : 0, in_dresidual = dresidual.place(first);
  const int64_t in_dx = dx.exists() ? dx.place(first) : 0;
  const C mean = a.mean ? a.mean[row] : C(0), rstd = a.rstd[row], n = static_cast<C>(columns);
  C mean_g = 0, mean_gh = 0;
  for (int64_t c = lane; c < columns; c += kWarp) {
    const C g = a.dout.read(in_dout + c * a.dout.step) *
                (a.weight.exists() ? a.weight.read(c * a.weight.step) : C(1));
    mean_g += g;
    mean_gh += g * (a.sum.read(in_sum + c * a.sum.step) - mean) * rstd;
  }
  mean_g = a.mean ? warp_reduce(mean_g, Sum()) / n : C(0);
  mean_gh = warp_reduce(mean_gh, Sum()) / n;
  for (int64_t c = lane; c < columns; c += kWarp) {
    const C g = a.dout.read(in_dout + c * a.dout.step) *
                (a.weight.exists() ? a.weight.read(c * a.weight.step) : C(1));
    const C h = (a.sum.read(in_sum + c * a.sum.step) - mean) * rstd;
    C ds = rstd * (g - mean_g - h * mean_gh);
    if (a.dsum.exists()) ds += a.dsum.read(in_dsum + c * a.dsum.step);
    dresidual.write(in_dresidual + c * dresidual.step, ds);
    if (dx.exists()) dx.write(in_dx + c * dx.step, drop(ds, first + c));
  }
}

// A warp per row. mean and rstd are in the compute type, one after the other: mean.as<C>().
void residual_norm(const View& out, const View& sum, const View& mean, const View& rstd, const View& x,
                   const View& residual, const View& weight, const View& bias, const ResidualNorm& p) {
  if (out.numel() == 0) return;
  const int64_t columns = out.shape.back(), rows = out.numel() / columns;
  dispatch_floating(out.dtype, [&]<class C>(C*) {
    launch(residual_norm_kernel<C>, over(rows * kWarp, kResidualThreads), Elements<C>(out), Elements<C>(sum),
           mean.as<C>(), rstd.as<C>(), Elements<C>(x), Elements<C>(residual), Elements<C>(weight),
           Elements<C>(bias), ResidualDropout(p), rows, columns, static_cast<C>(p.eps));
  });
}

// residual_norm_grad_kernel, a warp per row (dx only where it is not the memory of dresidual), and for the
// parameters residual_parameters_kernel, a block per 32 columns.
void residual_norm_grad(const View& dx, const View& dresidual, const View& dweight, const View& dbias,
                        const View& dout, const View& dsum, const View& sum, const View& mean,
                        const View& rstd, const View& weight, const ResidualNorm& p) {
  const int64_t columns = dout.shape.back(), rows = columns == 0 ? 0 : dout.numel() / columns;
  dispatch_floating(dout.dtype, [&]<class C>(C*) {
    const ResidualGradCall<C> a{Elements<C>(dout),
                                Elements<C>(dsum),
                                Elements<C>(sum),
                                Elements<C>(weight),
                                mean.as<const C>(),
                                rstd.as<const C>(),
                                rows,
                                columns};
    launch(residual_norm_grad_kernel<C>, over(rows * kWarp, kResidualThreads),
           Elements<C>(dx.data == dresidual.data ? View{} : dx), Elements<C>(dresidual), a,
           ResidualDropout(p));
    if (!dweight.data && !dbias.data) return;
    launch(residual_parameters_kernel<C>, over(ceil_div(columns, kWarp) * kResidualThreads, kResidualThreads),
           Elements<C>(dweight), Elements<C>(dbias), a);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
