// Partition of a tensor's lines along one dimension, for softmax and its gradient: whole rows, segments of
// rows that are too long to be held, or one line per thread if the elements of neighbouring lines are
// contiguous.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/device/kernel.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kSegmentThreads = 512;
inline constexpr int64_t kSegment = 8192;

// Block b has segment b % segments of row b / segments. first and last are offsets from the tensor's begin.
struct Segment {
  int64_t row, first, last;
  __device__ __forceinline__ Segment(int64_t C, int64_t segments) : row(blockIdx.x / segments) {
    const int64_t column = blockIdx.x % segments * kSegment;
    first = row * C + column;
    last = row * C + std::min(column + kSegment, C);
  }
  // Calls f(offset of the first element) for each vector of this thread.
  template <int kVectorSize, class F>
  __device__ __forceinline__ void each(F&& f) const {
    for (int64_t i = first + threadIdx.x * kVectorSize; i < last; i += kSegmentThreads * kVectorSize) f(i);
  }
};

inline constexpr int kLineThreads = 128;

struct SoftmaxShape {
  int64_t C, inner, lines;
  SoftmaxShape(const View& x, int dim) : C(x.shape[dim]), inner(1) {
    for (int d = dim + 1; d < x.rank(); ++d) inner *= x.shape[d];
    lines = C == 0 ? 0 : x.numel() / C;
  }
  bool by_lines() const { return inner > 1; }
  int64_t segments() const { return ceil_div(C, kSegment); }
  LaunchConfig segments_grid() const {
    return {dim3(static_cast<unsigned>(lines * segments())), dim3(kSegmentThreads)};
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
