// Converts images of 16-bit elements from NCHW to NHWC. A tile of 64 channels x 64 pixels is transposed in
// shared memory, so that reads and writes are coalesced lines of 128 bytes, two elements per thread.
// Channels are padded with zeros to a given number. Limit: memory bandwidth.
#pragma once

#include <tinytorch/backend/cuda/device/kernel.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kTransposeTile = 64, kTransposeThreads = 256;

// out [N, pixels, depth] = in [N, channels, pixels], padded with zeros; depth is even. paired: pixels is
// even and `in` is aligned to 4 bytes.
static __global__ void __launch_bounds__(kTransposeThreads)
    channels_last_kernel(uint16_t* out, const uint16_t* in, int64_t channels, int64_t depth, int64_t pixels,
                         bool paired, int64_t pixel_tiles) {
  // An odd number of words per row avoids bank conflicts.
  __shared__ uint16_t tile[kTransposeTile][kTransposeTile + 2];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t p0 = blockIdx.x % pixel_tiles * kTransposeTile,
                c0 = blockIdx.x / pixel_tiles * kTransposeTile;
  const int64_t n = static_cast<int64_t>(blockIdx.y);
  for (int c = warp; c < kTransposeTile; c += kTransposeThreads / kWarp) {
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
  for (int p = warp; p < kTransposeTile; p += kTransposeThreads / kWarp) {
    const int64_t c = c0 + lane * 2;
    if (p0 + p >= pixels || c >= depth) continue;
    const uint32_t pair = tile[lane * 2][p] | static_cast<uint32_t>(tile[lane * 2 + 1][p]) << 16;
    *reinterpret_cast<uint32_t*>(out + (n * pixels + p0 + p) * depth + c) = pair;
  }
}

// depth must be even and at least the number of channels; there must be fewer than 65536 images.
template <class T>
void to_channels_last(T* out, const T* in, int64_t images, int64_t channels, int64_t depth, int64_t pixels) {
  static_assert(sizeof(T) == 2);
  if (images * depth * pixels == 0) return;
  const int64_t tiles = ceil_div(pixels, kTransposeTile), bands = ceil_div(depth, kTransposeTile);
  const bool paired = pixels % 2 == 0 && reinterpret_cast<uintptr_t>(in) % 4 == 0;
  launch(channels_last_kernel,
         {dim3(static_cast<unsigned>(tiles * bands), static_cast<unsigned>(images)), dim3(kTransposeThreads)},
         reinterpret_cast<uint16_t*>(out), reinterpret_cast<const uint16_t*>(in), channels, depth, pixels,
         paired, tiles);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
