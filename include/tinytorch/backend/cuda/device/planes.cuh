// Planes: maps threads to the elements of contiguous images [N, C, H, W], one element per thread, in
// row-major order.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/vector.cuh>
#include <tinytorch/backend/window.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kPlaneBlock = 256;

// Division of an index below `count`, by FastDivide if the index fits 31 bits.
struct Divider {
  FastDivide quick;
  int64_t divisor = 1;
  bool index_fits_31_bits = true;
  Divider() = default;
  Divider(int64_t d, int64_t count)
      : divisor(std::max<int64_t>(d, 1)), index_fits_31_bits(count < (int64_t{1} << 31)) {
    if (index_fits_31_bits) quick = FastDivide(static_cast<uint32_t>(divisor));
  }
  __device__ __forceinline__ int64_t quotient(int64_t n) const {
    return index_fits_31_bits ? static_cast<int64_t>(quick.quotient(static_cast<uint32_t>(n))) : n / divisor;
  }
};

// A sequence of planes of h x w elements.
struct Planes {
  int64_t count = 0, h = 1, w = 1;
  Divider by_width, by_height;
  Planes(int64_t planes, int64_t height, int64_t width)
      : count(planes * height * width), h(height), w(width), by_width(w, count), by_height(h, count) {}

  struct Place {
    int64_t plane, h, w;
  };
  __device__ __forceinline__ Place place(int64_t i) const {
    const int64_t row = by_width.quotient(i), plane = by_height.quotient(row);
    return {plane, row - plane * h, i - row * w};
  }
};

__device__ __forceinline__ int64_t global_thread_index() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

// Outputs [first, last) along one side whose windows cover input position i. The dilation is 1.
__device__ __forceinline__ TapRange windows_over(int64_t i, int64_t kernel, int64_t outputs,
                                                 const Window2d& w) {
  const int64_t reach = i + w.padding, before = reach - kernel + 1;
  const int64_t first = before <= 0 ? 0 : ceil_div(before, w.stride), last = reach / w.stride + 1;
  return {first, last < outputs ? last : outputs};
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
