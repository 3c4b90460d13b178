// Convolution of images by CUDA, forward and both gradients, with groups and dilation (contract:
// backend/cpu/conv.hpp).
//
// The frame of a course header: it has the given parts, and includes the functions of tasks 3.25 and 3.26.
#pragma once

#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/elements.cuh>
#include <tinytorch/backend/cuda/launch.hpp>
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
    const int64_t tiles_w = ceil_div(width, tile), tiles = ceil_div(height, tile) * tiles_w;
    const int64_t number = blockIdx.x % tiles;
    plane = blockIdx.x / tiles;
    oh0 = number / tiles_w * tile;
    ow0 = number % tiles_w * tile;
    oh = oh0 + threadIdx.x / static_cast<unsigned>(tile);
    ow = ow0 + threadIdx.x % static_cast<unsigned>(tile);
  }
};

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

}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#include <tasks/backend/cuda/kernels/conv.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

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
