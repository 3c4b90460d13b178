// Images of 16-bit elements turned from NCHW to NHWC: a tile of 64 channels x 64 pixels goes through shared
// memory, so that both sides are walked in whole lines of 128 bytes, two elements a thread. Zeros fill the
// channels up to a wanted number. Limit: memory.
#pragma once

#include <tinytorch/backend/cuda/device/kernel.cuh>
#include <tinytorch/backend/cuda/kernels/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kTurnTile = 64, kTurnThreads = 256;

// out [N, pixels, depth] = in [N, channels, pixels] and zeros; depth is even. paired: pixels are even, too.
static __global__ void __launch_bounds__(kTurnThreads)
    channels_last_kernel(uint16_t* out, const uint16_t* in, int64_t channels, int64_t depth, int64_t pixels,
                         bool paired, int64_t pixel_tiles) {
  __shared__ uint16_t tile[kTurnTile][kTurnTile + 2];  // the odd number of words spreads a column over banks
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t p0 = blockIdx.x % pixel_tiles * kTurnTile, c0 = blockIdx.x / pixel_tiles * kTurnTile;
  const int64_t n = static_cast<int64_t>(blockIdx.y);
  for (int c = warp; c < kTurnTile; c += kTurnThreads / kWarp) {
    const int64_t p = p0 + lane * 2;
    if (p >= pixels) continue;
    const uint16_t* from = in + (n * channels + c0 + c) * pixels + p;
    if (c0 + c >= channels) {
      tile[c][lane * 2] = tile[c][lane * 2 + 1] = 0;
    } else if (paired) {
      *reinterpret_cast<uint32_t*>(&tile[c][lane * 2]) = *reinterpret_cast<const uint32_t*>(from);
    } else {
      tile[c][lane * 2] = from[0];
      tile[c][lane * 2 + 1] = p + 1 < pixels ? from[1] : uint16_t{0};
    }
  }
  __syncthreads();
  for (int p = warp; p < kTurnTile; p += kTurnThreads / kWarp) {
    const int64_t c = c0 + lane * 2;
    if (p0 + p >= pixels || c >= depth) continue;
    const uint32_t pair = tile[lane * 2][p] | static_cast<uint32_t>(tile[lane * 2 + 1][p]) << 16;
    *reinterpret_cast<uint32_t*>(out + (n * pixels + p0 + p) * depth + c) = pair;
  }
}

// depth is even and at least the number of channels, images are fewer than 65536.
template <class T>
void turn_channels_last(T* out, const T* in, int64_t images, int64_t channels, int64_t depth,
                        int64_t pixels) {
  static_assert(sizeof(T) == 2);
  if (images * depth * pixels == 0) return;
  const int64_t tiles = (pixels + kTurnTile - 1) / kTurnTile, bands = (depth + kTurnTile - 1) / kTurnTile;
  const bool paired = pixels % 2 == 0 && reinterpret_cast<uintptr_t>(in) % 4 == 0;
  launch(channels_last_kernel,
         {dim3(static_cast<unsigned>(tiles * bands), static_cast<unsigned>(images)), dim3(kTurnThreads)},
         reinterpret_cast<uint16_t*>(out), reinterpret_cast<const uint16_t*>(in), channels, depth, pixels,
         paired, tiles);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
