// Positions grouped by row, for a deterministic scatter.
//
//   index = [2, 0, 2]  ->  starts = [0, 1, 1, 3], positions = [1, 0, 2]     (row r: positions[starts[r] ..])
//
// A stable LSD radix sort of the positions by row, 8 bits and 256 buckets a pass, so the positions of a row
// are in ascending order for any schedule. In each pass a warp takes a section of the positions and counts
// them by bucket; a prefix sum over all counts (by bucket, then by section) gives each section's first output
// place in each bucket; the warp scatters its positions there. Binary search finds the start of each row.
// Source: Satish, Harris, Garland, "Designing efficient sorting algorithms for manycore GPUs", 2009.
#pragma once

#include <algorithm>
#include <bit>
#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kGroupThreads = 128, kGroupWarps = kGroupThreads / kWarp;
inline constexpr int kBucketBits = 8, kBuckets = 1 << kBucketBits;

// The row of a position. Indices outside [0, rows) are sorted behind the last row.
__device__ __forceinline__ int64_t row_of(const int64_t* index, int64_t position, int64_t rows) {
  const int64_t row = index[position];
  return row >= 0 && row < rows ? row : rows;
}

// One pass over n positions in the order of `from`, or in ascending order if `from` is null.
struct RadixPass {
  const int64_t *index, *from;
  int64_t n, rows;
  int64_t section, sections;  // positions per warp, a multiple of 32; number of warps with positions
  int shift;                  // first bit of the bucket number in the row
};

// Calls f(position, bucket, mask of the lanes with this bucket) for the section of this warp, 32 positions at
// a time. The mask is 0 for lanes past the end.
template <class F>
__device__ __forceinline__ void each_position(const RadixPass& p, F&& f) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * kGroupWarps + threadIdx.x / kWarp) * p.section;
  const int64_t last = std::min(first + p.section, p.n);
  for (int64_t i = first; i < last; i += kWarp) {
    const bool inside = i + lane < last;
    int64_t position = i + lane;
    if (inside && p.from) position = p.from[position];
    const int bucket =
        inside ? static_cast<int>(row_of(p.index, position, p.rows) >> p.shift) & (kBuckets - 1) : 0;
    unsigned equal = __ballot_sync(kAllLanes, inside);
#pragma unroll
    for (int bit = 0; bit < kBucketBits; ++bit) {
      const bool set = bucket >> bit & 1;
      const unsigned others = __ballot_sync(kAllLanes, set);
      equal &= set ? others : ~others;
    }
    f(position, bucket, inside ? equal : 0u);
    __syncwarp();
  }
}
// True for the lowest lane of the mask.
__device__ __forceinline__ bool is_leader_of(unsigned lanes) {
  return __ffs(static_cast<int>(lanes)) - 1 == static_cast<int>(threadIdx.x) % kWarp;
}

// Calls f(offset in a table [kBuckets, sections], warp, bucket) for the counts of this block's sections. The
// block's 4 sections are adjacent in the table, so neighbouring threads share memory sectors.
template <class F>
__device__ __forceinline__ void each_count(const RadixPass& p, F&& f) {
  for (int i = static_cast<int>(threadIdx.x); i < kBuckets * kGroupWarps; i += kGroupThreads) {
    const int warp = i % kGroupWarps, bucket = i / kGroupWarps;
    const int64_t section = static_cast<int64_t>(blockIdx.x) * kGroupWarps + warp;
    if (section < p.sections) f(bucket * p.sections + section, warp, bucket);
  }
}

// totals [kBuckets, sections]: number of positions by bucket and section.
static __global__ void __launch_bounds__(kGroupThreads) count_buckets_kernel(RadixPass p, int64_t* totals) {
  __shared__ int counts[kGroupWarps][kBuckets];
  each_count(p, [&](int64_t, int warp, int bucket) { counts[warp][bucket] = 0; });
  __syncthreads();
  int* const mine = counts[threadIdx.x / kWarp];
  each_position(p, [&](int64_t, int bucket, unsigned lanes) {
    if (is_leader_of(lanes)) mine[bucket] += __popc(lanes);
  });
  __syncthreads();
  each_count(p, [&](int64_t at, int warp, int bucket) { totals[at] = counts[warp][bucket]; });
}

// begins [kBuckets, sections]: offset in `out` of each section's first position in each bucket.
static __global__ void __launch_bounds__(kGroupThreads)
    scatter_positions_kernel(RadixPass p, const int64_t* begins, int64_t* out) {
  __shared__ int64_t next[kGroupWarps][kBuckets];
  each_count(p, [&](int64_t at, int warp, int bucket) { next[warp][bucket] = begins[at]; });
  __syncthreads();
  int64_t* const mine = next[threadIdx.x / kWarp];
  const unsigned below = (1u << threadIdx.x % kWarp) - 1;
  each_position(p, [&](int64_t position, int bucket, unsigned lanes) {
    if (lanes) out[mine[bucket] + __popc(lanes & below)] = position;
    __syncwarp();
    if (is_leader_of(lanes)) mine[bucket] += __popc(lanes);
  });
}

// starts[row] = number of the n sorted positions with a smaller row, for row = 0 ... rows.
static __global__ void __launch_bounds__(kGroupThreads)
    group_starts_kernel(int64_t* starts, const int64_t* index, const int64_t* positions, int64_t n,
                        int64_t rows) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kGroupThreads + threadIdx.x;
  if (row > rows) return;
  int64_t low = 0, high = n;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (row_of(index, positions[middle], rows) < row) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  starts[row] = low;
}

// index: n contiguous values. Positions with a value outside [0, rows) belong to no row.
class Groups {
 public:
  Groups(const int64_t* index, int64_t n, int64_t rows)
      : starts_(rows + 1), even_(n), odd_(rows < kBuckets ? 0 : n) {
    constexpr int64_t kLeast = 256, kMost = 4096;  // least positions per section; most sections
    const int64_t section = ceil_div(std::max(kLeast, ceil_div(n, kMost)), kWarp) * kWarp;
    RadixPass p{index, nullptr, n, rows, section, ceil_div(n, section), 0};
    const LaunchConfig config = over(p.sections * kWarp, kGroupThreads);
    const DeviceScratch<int64_t> totals(kBuckets * p.sections);
    const View counts{totals.data(), DType::i64, {kBuckets * p.sections}, {1}};
    const DeviceScratch<int64_t> begins(kBuckets * p.sections + 1);
    const View sums{begins.data() + 1, DType::i64, counts.shape, counts.strides};
    fill({begins.data(), DType::i64, {1}, {1}}, 0.0);
    const auto bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(rows)));
    for (p.shift = 0; p.shift < bits; p.shift += kBucketBits) {
      int64_t* const out = (p.shift / kBucketBits % 2 == 0 ? even_ : odd_).data();
      launch(count_buckets_kernel, config, p, totals.data());
      cumsum(sums, counts, 0);
      launch(scatter_positions_kernel, config, p, begins.data(), out);
      p.from = out;
    }
    positions_ = p.from;
    launch(group_starts_kernel, over(rows + 1, kGroupThreads), starts_.data(), index, positions_, n, rows);
  }
  const int64_t* starts() const { return starts_.data(); }  // [rows + 1]
  const int64_t* positions() const { return positions_; }   // [n]; the first starts[rows] belong to rows

 private:
  DeviceScratch<int64_t> starts_, even_, odd_;  // passes write even_ and odd_ alternately
  const int64_t* positions_ = nullptr;
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
