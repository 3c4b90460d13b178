// A bias and an activation as one kernel, forward and backward (contract: backend/cpu/bias_activation.hpp).
//
//   y = f(x + b)          dx = dy f'(x + b)          db[c] = the sum of dx down column c
//
// Three kernels (add, activate, and for the gradient a sum) would move each element through memory three
// times. Here it is read once and written once: 2 N elements forward, 3 N backward.
//
// Task 3.20: bias_activation_kernel, bias_activation_grad_kernel, add_bias_chunks_kernel, bias_activation,
// bias_activation_grad. The given parts of this header are in
// modules/03_layers/frame/tinytorch/backend/cuda/kernels/bias_activation.cuh, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cuda {

// out[r, c] = f(x[r, c] + bias[c]), a thread per element, neighbours by neighbours. Element number i of x
// lies at x.place(i); bias is one row, whose element c lies at c * bias.step.
template <class C>
static __global__ void __launch_bounds__(kBiasThreads)
    bias_activation_kernel(Activation fn, const __grid_constant__ Elements<C> out,
                           const __grid_constant__ Elements<C> x, const __grid_constant__ Elements<C> bias,
                           int64_t columns) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kBiasThreads + threadIdx.x;
  if (i >= out.count) return;
  const C shifted = x.read(x.place(i)) + bias.read(i % columns * bias.step);
  out.write(out.place(i), activated(fn, shifted));
}

// dx[r, c] = dy[r, c] f'(x[r, c] + bias[c]) for 32 columns and a chunk of rows, and partial[chunk, c] = the
// sum of these down each column.
//
// The 32 lanes of a warp have neighbouring columns; the block's kBiasLines warps take every kBiasLines-th
// row. Each thread adds up its own elements; then the warps' sums meet in shared memory. Added in a fixed
// order, results are the same in every run; atomicAdd would not give that. The block is blockIdx.x-th of the
// columns, blockIdx.y-th of the chunks. dx (which may be the memory of dy), bias and partial may be absent; x
// is, where f is none.
template <class C>
static __global__ void __launch_bounds__(kBiasThreads)
    bias_activation_grad_kernel(Activation fn, const __grid_constant__ Elements<C> dx, C* partial,
                                const __grid_constant__ Elements<C> dy, const __grid_constant__ Elements<C> x,
                                const __grid_constant__ Elements<C> bias, int64_t rows, int64_t columns,
                                int64_t chunk) {
  __shared__ C sums[kBiasLines][kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, line = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kWarp + lane;
  const int64_t first = blockIdx.y * chunk, last = std::min(first + chunk, rows);
  C sum = 0;
  if (c < columns) {
    const C shift = bias.exists() ? bias.read(c * bias.step) : C(0);
    for (int64_t r = first + line; r < last; r += kBiasLines) {
      const int64_t i = r * columns + c;
      const C input = x.exists() ? x.read(x.place(i)) + shift : C(0);
      const C g = activated_grad(fn, dy.read(dy.place(i)), input);
      if (dx.exists()) dx.write(dx.place(i), g);
      sum += g;
    }
  }
  sums[line][lane] = sum;
  __syncthreads();
  if (line != 0 || c >= columns || !partial) return;
  for (int k = 1; k < kBiasLines; ++k) sum += sums[k][lane];
  partial[blockIdx.y * columns + c] = sum;
}

// dbias[c] = the sum over all chunks of partial[chunk, c], in their order.
template <class C>
static __global__ void __launch_bounds__(kBiasThreads)
    add_bias_chunks_kernel(const __grid_constant__ Elements<C> dbias, const C* partial, int64_t chunks,
                           int64_t columns) {
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kBiasThreads + threadIdx.x;
  if (c >= columns) return;
  C sum = 0;
  for (int64_t k = 0; k < chunks; ++k) sum += partial[k * columns + c];
  dbias.write(c * dbias.step, sum);
}

void bias_activation(Activation fn, const View& out, const View& x, const View& bias) {
  dispatch_floating(out.dtype, [&]<class C>(C*) {
    launch(bias_activation_kernel<C>, over(out.numel(), kBiasThreads), fn, Elements<C>(out), Elements<C>(x),
           Elements<C>(bias), static_cast<int64_t>(out.shape.back()));
  });
}

void bias_activation_grad(Activation fn, const View& dx, const View& dbias, const View& dy, const View& x,
                          const View& bias) {
  const int64_t columns = dy.shape.back(), rows = columns == 0 ? 0 : dy.numel() / columns;
  // Enough chunks to keep the device busy, of 64 rows at least, so that few partial sums are left to add.
  // Without rows there is no chunk, and the sums are zero.
  const int64_t chunk = std::max<int64_t>(64, ceil_div(rows, 256)), chunks = ceil_div(rows, chunk);
  dispatch_floating(dy.dtype, [&]<class C>(C*) {
    const DeviceScratch<C> partial(dbias.data ? chunks * columns : 0);
    const LaunchConfig grid{
        dim3(static_cast<unsigned>(ceil_div(columns, kWarp)), static_cast<unsigned>(chunks)),
        dim3(kBiasThreads)};
    launch(bias_activation_grad_kernel<C>, grid, fn, Elements<C>(dx), partial.data(), Elements<C>(dy),
           Elements<C>(x), Elements<C>(bias), rows, columns, chunk);
    if (!dbias.data) return;
    launch(add_bias_chunks_kernel<C>, over(columns, kBiasThreads), Elements<C>(dbias), partial.data(), chunks,
           columns);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
