// Normalization of rows, backward: layer_norm_grad and rms_norm_grad (contracts: backend/cpu/norm.hpp).
//
//   g = dy w,  h = (x - mean) rstd:   dx = rstd (g - mean(g) - h mean(g h)),   dw = sum dy h,   db = sum dy
//
// dx is a matter of rows, dw and db of columns, so they are two kernels: a warp per row, and 32 columns a
// block. With rms_norm there is no mean, neither in h nor in dx.
//
// Task 3.24: norm_grad_kernel, norm_parameter_grad_kernel, normalize_grad. The given parts of this header are
// in modules/03_layers/frame/tinytorch/backend/cuda/kernels/norm_grad.cuh, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cuda {

// dx of row number (block) * kNormGradWarps + (warp).
//
// Two visits: the sums of g and of g h over the row, by all lanes (warp_reduce), then dx. The derivative has
// two more terms than rstd g, because each x also moves the row's mean and its variance.
template <class C>
static __global__ void __launch_bounds__(kNormGradThreads)
    norm_grad_kernel(const __grid_constant__ Elements<C> dx, const __grid_constant__ NormGradCall<C> call) {
  const Elements<C>&dy = call.dy, &x = call.x, &weight = call.weight;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kNormGradWarps + threadIdx.x / kWarp;
  if (row >= call.rows) return;
  const int64_t columns = call.columns, first = row * columns;
  const int64_t from_dy = dy.place(first), from_x = x.place(first), to_ = dx.place(first);
  const C mean = call.mean ? call.mean[row] : C(0), rstd = call.rstd[row], n = static_cast<C>(columns);
  C mean_g = 0, mean_gh = 0;
  for (int64_t c = lane; c < columns; c += kWarp) {
    const C g = dy.read(from_dy + c * dy.step) * (weight.exists() ? weight.read(c * weight.step) : C(1));
    const C h = (x.read(from_x + c * x.step) - mean) * rstd;
    mean_g += g;
    mean_gh += g * h;
  }
  mean_g = call.mean ? warp_reduce(mean_g, Sum()) / n : C(0);
  mean_gh = warp_reduce(mean_gh, Sum()) / n;
  for (int64_t c = lane; c < columns; c += kWarp) {
    const C g = dy.read(from_dy + c * dy.step) * (weight.exists() ? weight.read(c * weight.step) : C(1));
    const C h = (x.read(from_x + c * x.step) - mean) * rstd;
    dx.write(to_ + c * dx.step, rstd * (g - mean_g - h * mean_gh));
  }
}

// dw[chunk, c] and db[chunk, c]: the sums of dy h and of dy down 32 columns of a chunk of rows. Either may be
// null.
//
// Lane l has column 32 blockIdx.x + l, so that a warp reads side by side; the block's warps take the rows of
// chunk blockIdx.y in turn. Each thread adds up its own; then the warps' sums meet in shared memory, and the
// first warp adds them in order: the result is the same in every run.
template <class C>
static __global__ void __launch_bounds__(kNormGradThreads)
    norm_parameter_grad_kernel(C* dw, C* db, const __grid_constant__ NormGradCall<C> call, int64_t chunk) {
  __shared__ C sums_w[kNormGradWarps][kWarp], sums_b[kNormGradWarps][kWarp];
  const Elements<C>&dy = call.dy, &x = call.x;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kWarp + lane;
  const int64_t first = blockIdx.y * chunk, last = std::min(first + chunk, call.rows);
  C sum_w = 0, sum_b = 0;
  if (c < call.columns) {
    for (int64_t row = first + warp; row < last; row += kNormGradWarps) {
      const int64_t i = row * call.columns + c;
      const C g = dy.read(dy.place(i)), mean = call.mean ? call.mean[row] : C(0);
      sum_w += g * (x.read(x.place(i)) - mean) * call.rstd[row];
      sum_b += g;
    }
  }
  sums_w[warp][lane] = sum_w;
  sums_b[warp][lane] = sum_b;
  __syncthreads();
  if (warp != 0 || c >= call.columns) return;
  for (int k = 1; k < kNormGradWarps; ++k) {
    sum_w += sums_w[k][lane];
    sum_b += sums_b[k][lane];
  }
  if (dw) dw[blockIdx.y * call.columns + c] = sum_w;
  if (db) db[blockIdx.y * call.columns + c] = sum_b;
}

// Any of dx, dweight, dbias may be without data. Chunks of 64 rows at least, and 256 chunks at most; without
// rows there are no chunks, and the parameters' gradients are zero.
inline void normalize_grad(const View& dx, const View& dweight, const View& dbias, const View& dy,
                           const View& x, const View& mean, const View& rstd, const View& weight) {
  const int64_t columns = x.shape.back(), rows = columns == 0 ? 0 : x.numel() / columns;
  dispatch_floating(x.dtype, [&]<class C>(C*) {
    const NormGradCall<C> call{
        Elements<C>(dy), Elements<C>(x), Elements<C>(weight), mean.as<const C>(), rstd.as<const C>(), rows,
        columns};
    if (dx.data) launch(norm_grad_kernel<C>, over(rows * kWarp, kNormGradThreads), Elements<C>(dx), call);
    if (!dweight.data && !dbias.data) return;
    const int64_t chunk = std::max<int64_t>(64, ceil_div(rows, 256)), chunks = ceil_div(rows, chunk);
    const DeviceScratch<C> dw(dweight.data ? chunks * columns : 0), db(dbias.data ? chunks * columns : 0);
    const LaunchConfig grid{
        dim3(static_cast<unsigned>(ceil_div(columns, kWarp)), static_cast<unsigned>(chunks)),
        dim3(kNormGradThreads)};
    launch(norm_parameter_grad_kernel<C>, grid, dw.data(), db.data(), call, chunk);
    const auto finish = [&](const View& out, const C* partial) {
      if (!out.data) return;
      launch(add_norm_chunks_kernel<C>, over(columns, kNormGradThreads), Elements<C>(out), partial, chunks,
             columns);
    };
    finish(dweight, dw.data());
    finish(dbias, db.data());
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
