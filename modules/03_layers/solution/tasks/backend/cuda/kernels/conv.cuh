// Convolution of images by CUDA, forward and both gradients, with groups and dilation (contract:
// backend/cpu/conv.hpp).
//
//   out[n, m, o] = bias[m] + sum over c, k of weight[m, c, k] x[n, c, o * stride - padding + k * dilation]
//
// A direct convolution: a block computes a tile of tile x tile results of one output channel, a thread each.
// Channel by channel, the part of the image under the tile is brought to shared memory once and read KH KW
// times from there. Production code makes matrix products of it instead (the library's kernels/conv.cuh): a
// value in shared memory then serves many output channels, too.
//
// Task 3.25: conv2d_kernel, conv2d. Task 3.26: conv2d_grad_input_kernel, conv2d_grad_weight_kernel. The given
// parts of this header are in modules/03_layers/frame/tinytorch/backend/cuda/kernels/conv.cuh, which includes
// this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cuda {

// out[n, m, oh, ow] for a tile of a plane (n, m).
//
// The kernel repeats these steps for each input channel of m's group. The block brings the square of reach_h
// x reach_w values that its tile reads to shared memory, and zeros where it hangs over the edge of the image
// (a tile at the lower right may have fewer results than threads). Barrier. Each thread adds up its KH KW
// taps. Barrier, before the next channel overwrites what others still read. Threads whose result does not
// exist load too, and meet at the barriers: they only do not write.
//
// Input channel of the group's number c is group * s.group_c + c, where group = m / s.group_m. The square
// begins at (oh0 * stride - padding, ow0 * stride - padding). bias may be absent.
template <class C>
static __global__ void __launch_bounds__(kConvTileThreads)
    conv2d_kernel(const __grid_constant__ ConvImages<C> out, const __grid_constant__ ConvImages<C> x,
                  const __grid_constant__ ConvImages<C> weight, const __grid_constant__ Elements<C> bias,
                  const __grid_constant__ ConvShape s, int tile, int reach_h, int reach_w) {
  C* const square = dynamic_shared<C>();  // [reach_h, reach_w]
  const Window2d& window = s.window;
  const ConvTilePlace at(s.OH, s.OW, tile);
  const int64_t n = at.plane / s.M, m = at.plane % s.M, group = m / s.group_m;
  const int64_t h0 = at.oh0 * window.stride - window.padding, w0 = at.ow0 * window.stride - window.padding;
  const int64_t my_h = (at.oh - at.oh0) * window.stride, my_w = (at.ow - at.ow0) * window.stride;
  C sum = bias.exists() ? bias.read(m * bias.step) : C(0);
  for (int64_t c = 0; c < s.group_c; ++c) {
    for (int i = static_cast<int>(threadIdx.x); i < reach_h * reach_w; i += tile * tile) {
      const int64_t h = h0 + i / reach_w, w = w0 + i % reach_w;
      const bool inside = h >= 0 && h < s.H && w >= 0 && w < s.W;
      square[i] = inside ? x.read(n, group * s.group_c + c, h, w) : C(0);
    }
    __syncthreads();
    for (int64_t kh = 0; kh < window.kernel_h; ++kh) {
      for (int64_t kw = 0; kw < window.kernel_w; ++kw) {
        sum += weight.read(m, c, kh, kw) *
               square[(my_h + kh * window.dilation) * reach_w + my_w + kw * window.dilation];
      }
    }
    __syncthreads();
  }
  if (at.oh < s.OH && at.ow < s.OW) out.write(n, m, at.oh, at.ow, sum);
}

// dx[n, c, h, w], a thread each: the sum over the outputs that read this pixel. Tap (kh, kw) of output (oh,
// ow) reads h = oh * stride - padding + kh * dilation, so oh = (h + padding - kh * dilation) / stride, if
// that leaves no remainder and lies in [0, OH): and so for w. A pixel collects: were the outputs to give
// instead, two of them would add to one pixel at once.
template <class C>
static __global__ void __launch_bounds__(kConvTileThreads)
    conv2d_grad_input_kernel(const __grid_constant__ ConvImages<C> dx,
                             const __grid_constant__ ConvImages<C> dy,
                             const __grid_constant__ ConvImages<C> weight,
                             const __grid_constant__ ConvShape s) {
  const Window2d& window = s.window;
  const ConvTilePlace at(s.H, s.W, kConvTile);
  const int64_t n = at.plane / s.C, c = at.plane % s.C, group = c / s.group_c;
  if (at.oh >= s.H || at.ow >= s.W) return;
  C sum = 0;
  for (int64_t kh = 0; kh < window.kernel_h; ++kh) {
    const int64_t from_h = at.oh + window.padding - kh * window.dilation;
    if (from_h < 0 || from_h % window.stride != 0 || from_h / window.stride >= s.OH) continue;
    for (int64_t kw = 0; kw < window.kernel_w; ++kw) {
      const int64_t from_w = at.ow + window.padding - kw * window.dilation;
      if (from_w < 0 || from_w % window.stride != 0 || from_w / window.stride >= s.OW) continue;
      for (int64_t m = group * s.group_m; m < (group + 1) * s.group_m; ++m) {
        sum += weight.read(m, c % s.group_c, kh, kw) *
               dy.read(n, m, from_h / window.stride, from_w / window.stride);
      }
    }
  }
  dx.write(n, c, at.oh, at.ow, sum);
}

// dw[m, c, kh, kw], a block each (element number blockIdx.x): the sum over samples and outputs of dy[n, m,
// oh, ow] times the pixel that the tap read for it, if it lies in the image. Threads take outputs in turn,
// and block_reduce adds their sums, in an order of its own that never changes.
template <class C>
static __global__ void __launch_bounds__(kConvTileThreads)
    conv2d_grad_weight_kernel(const __grid_constant__ ConvImages<C> dw,
                              const __grid_constant__ ConvImages<C> dy,
                              const __grid_constant__ ConvImages<C> x, const __grid_constant__ ConvShape s) {
  const Window2d& window = s.window;
  int64_t rest = blockIdx.x;
  const int64_t kw = rest % window.kernel_w;
  rest /= window.kernel_w;
  const int64_t kh = rest % window.kernel_h;
  rest /= window.kernel_h;
  const int64_t c = rest % s.group_c, m = rest / s.group_c, channel = m / s.group_m * s.group_c + c;
  C sum = 0;
  for (int64_t i = threadIdx.x; i < s.N * s.outputs; i += kConvTileThreads) {
    const int64_t n = i / s.outputs, oh = i % s.outputs / s.OW, ow = i % s.OW;
    const int64_t h = oh * window.stride - window.padding + kh * window.dilation;
    const int64_t w = ow * window.stride - window.padding + kw * window.dilation;
    if (h >= 0 && h < s.H && w >= 0 && w < s.W) sum += dy.read(n, m, oh, ow) * x.read(n, channel, h, w);
  }
  sum = block_reduce<kConvTileThreads>(sum, Sum());
  if (threadIdx.x == 0) dw.write(m, c, kh, kw, sum);
}

// The square of image is config.shared_bytes of dynamic shared memory.
void conv2d(const View& out, const View& x, const View& weight, const View& bias, const Window2d& window,
            int64_t groups) {
  const ConvShape s(x, out, window, groups);
  dispatch_floating(x.dtype, [&]<class C>(C*) {
    const int tile = tile_for(s, sizeof(C));
    const int64_t reach_h = reach(tile, window.kernel_h, window),
                  reach_w = reach(tile, window.kernel_w, window);
    LaunchConfig config = tiles_over(s.N * s.M, s.OH, s.OW, tile);
    config.shared_bytes = static_cast<size_t>(reach_h * reach_w) * sizeof(C);
    launch(conv2d_kernel<C>, config, ConvImages<C>(out), ConvImages<C>(x), ConvImages<C>(weight),
           Elements<C>(bias), s, tile, reach_h, reach_w);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
