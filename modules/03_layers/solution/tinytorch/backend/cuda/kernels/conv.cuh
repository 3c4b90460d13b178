// Convolution of images by CUDA, forward and both gradients, with groups and dilation (contract:
// backend/cpu/conv.hpp).
//
//   out[n, m, o] = bias[m] + sum over c, k of weight[m, c, k] x[n, c, o * stride - padding + k * dilation]
//
// A direct convolution: a block computes a tile of tile x tile results of one output channel, a thread each.
// Channel by channel, the part of the image under the tile is brought to shared memory once and read KH KW
// times from there. Production code makes matrix products of it instead (the library's kernels/conv.cuh): a
// value in shared memory then serves many output channels, too.
#pragma once

#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/elements.cuh>
#include <tinytorch/backend/cuda/kernels/launch.hpp>
#include <tinytorch/backend/window.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kConvTile = 16, kConvTileThreads = kConvTile * kConvTile;  // the largest

// An operand [A, B, C, D] of any strides.
template <class C>
struct ConvImages {
  Elements<C> values;
  int64_t stride[4] = {};
  explicit ConvImages(const View& v) : values(v) {
    for (int d = 0; d < 4; ++d) stride[d] = v.strides[d];
  }
  __device__ int64_t place(int64_t a, int64_t b, int64_t c, int64_t d) const {
    return a * stride[0] + b * stride[1] + c * stride[2] + d * stride[3];
  }
  __device__ C read(int64_t a, int64_t b, int64_t c, int64_t d) const {
    return values.read(place(a, b, c, d));
  }
  __device__ void write(int64_t a, int64_t b, int64_t c, int64_t d, C x) const {
    values.write(place(a, b, c, d), x);
  }
};

// The tile of a block: results oh0 ... oh0 + tile - 1 by ow0 ... of plane number `plane`, and this thread's
// of them.
struct ConvTilePlace {
  int64_t plane, oh0, ow0, oh, ow;
  __device__ ConvTilePlace(int64_t height, int64_t width, int tile) {
    const int64_t tiles_w = (width + tile - 1) / tile, tiles = (height + tile - 1) / tile * tiles_w;
    const int64_t number = blockIdx.x % tiles;
    plane = blockIdx.x / tiles;
    oh0 = number / tiles_w * tile;
    ow0 = number % tiles_w * tile;
    oh = oh0 + threadIdx.x / static_cast<unsigned>(tile);
    ow = ow0 + threadIdx.x % static_cast<unsigned>(tile);
  }
};

// out[n, m, oh, ow] for a tile of a plane (n, m).
//
// For each input channel of m's group: the block brings the square of reach_h x reach_w values that its tile
// reads to shared memory, and zeros where it hangs over the edge of the image (a tile at the lower right may
// have fewer results than threads). Barrier. Each thread adds up its KH KW taps. Barrier, before the next
// channel overwrites what others still read. Threads whose result does not exist load too, and meet at the
// barriers: they only do not write.
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

// --- launchers ---

// A block per tile of each of `planes` planes.
inline LaunchConfig tiles_over(int64_t planes, int64_t height, int64_t width, int tile) {
  const int64_t tiles = ceil_div(height, tile) * ceil_div(width, tile);
  return {dim3(static_cast<unsigned>(planes * tiles)), dim3(static_cast<unsigned>(tile * tile))};
}

// Side of the part of the image that `tile` outputs in a row read by `kernel` taps.
inline int64_t reach(int tile, int64_t kernel, const Window2d& w) {
  return (tile - 1) * w.stride + (kernel - 1) * w.dilation + 1;
}

// The largest tile whose square of image fits the shared memory that a block gets without asking, and that
// small outputs fill.
inline int tile_for(const ConvShape& s, size_t element) {
  int tile = kConvTile;
  const auto too_large = [&] {
    const int64_t values =
        reach(tile, s.window.kernel_h, s.window) * reach(tile, s.window.kernel_w, s.window);
    return static_cast<size_t>(values) * element > kSharedByDefault || tile / 2 >= std::max(s.OH, s.OW);
  };
  while (tile > 1 && too_large()) tile /= 2;
  return tile;
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

void conv2d_grad_input(const View& dx, const View& dy, const View& weight, const Window2d& window,
                       int64_t groups) {
  const ConvShape s(dx, dy, window, groups);
  dispatch_floating(dx.dtype, [&]<class C>(C*) {
    launch(conv2d_grad_input_kernel<C>, tiles_over(s.N * s.C, s.H, s.W, kConvTile), ConvImages<C>(dx),
           ConvImages<C>(dy), ConvImages<C>(weight), s);
  });
}

void conv2d_grad_weight(const View& dw, const View& dy, const View& x, const Window2d& window,
                        int64_t groups) {
  const ConvShape s(x, dy, window, groups);
  dispatch_floating(dw.dtype, [&]<class C>(C*) {
    launch(conv2d_grad_weight_kernel<C>, {dim3(static_cast<unsigned>(dw.numel())), dim3(kConvTileThreads)},
           ConvImages<C>(dw), ConvImages<C>(dy), ConvImages<C>(x), s);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
