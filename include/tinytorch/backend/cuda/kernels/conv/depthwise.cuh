// Depthwise convolution on CUDA: one input channel per group, forward and both gradients.
//
// An output plane reads one input plane, so a matrix product would not help. One thread per result gathers
// its taps in order; a block sums the gradient of a weight. Overlapping windows are read from the caches.
// Limit: memory bandwidth. conv.cuh documents the operands and launches these kernels.
#pragma once

#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/planes.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Along one dimension, the output that reads input i by tap k, or -1.
__device__ __forceinline__ int64_t output_of_tap(int64_t i, int64_t k, int64_t outputs, const Window2d& w) {
  const auto from = static_cast<int>(i + w.padding - k * w.dilation), stride = static_cast<int>(w.stride);
  if (from < 0) return -1;
  const int o = stride == 1 ? from : from / stride;
  return o * stride == from && o < outputs ? o : -1;
}

template <class T>
static __global__ void __launch_bounds__(kPlaneBlock)
    depthwise_kernel(T* out, const T* x, const T* weight, const T* bias, const __grid_constant__ ConvShape s,
                     const __grid_constant__ Planes outputs) {
  using A = Compute<T>;
  const int64_t i = global_thread_index();
  if (i >= outputs.count) return;
  const Planes::Place at = outputs.place(i);
  const int64_t n = at.plane / s.M, m = at.plane - n * s.M;
  const T* const in = x + (n * s.C + m / s.group_m) * s.H * s.W;
  const T* const taps = weight + m * s.K;
  const int64_t h0 = at.h * s.window.stride - s.window.padding,
                w0 = at.w * s.window.stride - s.window.padding;
  A sum = bias ? to<A>(bias[m]) : A(0);
  for (int64_t kh = 0; kh < s.window.kernel_h; ++kh) {
    const int64_t h = h0 + kh * s.window.dilation;
    if (h < 0 || h >= s.H) continue;
    for (int64_t kw = 0; kw < s.window.kernel_w; ++kw) {
      const int64_t w = w0 + kw * s.window.dilation;
      if (w >= 0 && w < s.W) sum += to<A>(taps[kh * s.window.kernel_w + kw]) * to<A>(in[h * s.W + w]);
    }
  }
  out[i] = to<T>(sum);
}

template <class T>
static __global__ void __launch_bounds__(kPlaneBlock)
    depthwise_grad_input_kernel(T* dx, const T* dy, const T* weight, const __grid_constant__ ConvShape s,
                                const __grid_constant__ Planes inputs) {
  using A = Compute<T>;
  const int64_t i = global_thread_index();
  if (i >= inputs.count) return;
  const Planes::Place at = inputs.place(i);
  const int64_t n = at.plane / s.C, c = at.plane - n * s.C;
  A sum = 0;
  for (int64_t m = c * s.group_m; m < (c + 1) * s.group_m; ++m) {
    const T* const grad = dy + (n * s.M + m) * s.outputs;
    const T* const taps = weight + m * s.K;
    for (int64_t kh = 0; kh < s.window.kernel_h; ++kh) {
      const int64_t oh = output_of_tap(at.h, kh, s.OH, s.window);
      if (oh < 0) continue;
      for (int64_t kw = 0; kw < s.window.kernel_w; ++kw) {
        const int64_t ow = output_of_tap(at.w, kw, s.OW, s.window);
        if (ow >= 0) sum += to<A>(taps[kh * s.window.kernel_w + kw]) * to<A>(grad[oh * s.OW + ow]);
      }
    }
  }
  dx[i] = to<T>(sum);
}

// Block (m, tap) sums over all samples and output positions. `outputs` describes one channel: its planes are
// the samples.
template <class T>
static __global__ void __launch_bounds__(kPlaneBlock)
    depthwise_grad_weight_kernel(T* dw, const T* dy, const T* x, const __grid_constant__ ConvShape s,
                                 const __grid_constant__ Planes outputs) {
  using A = Compute<T>;
  const int64_t m = blockIdx.x, tap = blockIdx.y;
  const int64_t kh = tap / s.window.kernel_w, kw = tap - kh * s.window.kernel_w;
  A sum = 0;
  for (int64_t i = threadIdx.x; i < outputs.count; i += kPlaneBlock) {
    const Planes::Place at = outputs.place(i);
    const int64_t h = at.h * s.window.stride - s.window.padding + kh * s.window.dilation;
    const int64_t w = at.w * s.window.stride - s.window.padding + kw * s.window.dilation;
    if (h < 0 || h >= s.H || w < 0 || w >= s.W) continue;
    const A grad = to<A>(dy[(at.plane * s.M + m) * s.outputs + at.h * s.OW + at.w]);
    sum += grad * to<A>(x[((at.plane * s.C + m / s.group_m) * s.H + h) * s.W + w]);
  }
  sum = block_reduce<kPlaneBlock>(sum, Sum());
  if (threadIdx.x == 0) dw[m * s.K + tap] = to<T>(sum);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
