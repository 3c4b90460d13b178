// Positions grouped by the row they name: what scattering needs to be deterministic without sorting.
//
//   index = [2, 0, 2]  ->  starts = [0, 1, 1, 3], positions = [1, 0, 2]     (row r: positions[starts[r] ..])
//
// Each thread owns a row and reads all indices in order, a block's 256 owners from one tile in shared memory;
// so positions of a row are ascending whatever the schedule. n rows comparisons in all.
#pragma once

#include <tinytorch/backend/cuda/dense.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kGroupThreads = 256, kGroupTile = 2048;

// starts[r + 1] = indices that name row r; or, with `positions`, their positions from starts[r] on.
static __global__ void __launch_bounds__(kGroupThreads)
    group_kernel(const int64_t* index, int64_t n, int64_t rows, int64_t* starts, int64_t* positions) {
  __shared__ int64_t tile[kGroupTile];
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kGroupThreads + threadIdx.x;
  int64_t found = 0;
  const int64_t write = positions && row < rows ? starts[row] : 0;
  for (int64_t first = 0; first < n; first += kGroupTile) {
    const int count = static_cast<int>(std::min(static_cast<int64_t>(kGroupTile), n - first));
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kGroupThreads) tile[i] = index[first + i];
    __syncthreads();
    for (int i = 0; i < count; ++i) {
      if (tile[i] != row) continue;
      if (positions) positions[write + found] = first + i;
      ++found;
    }
  }
  if (!positions && row < rows) starts[row + 1] = found;
  if (!positions && row == 0) starts[0] = 0;
}

struct Groups {
  DeviceScratch<int64_t> starts, positions;

  // index: n contiguous values; those outside [0, rows) are in no group.
  Groups(const int64_t* index, int64_t n, int64_t rows) : starts(rows + 1), positions(n) {
    const LaunchConfig config = over(rows, kGroupThreads);
    launch(group_kernel, config, index, n, rows, starts.data(), static_cast<int64_t*>(nullptr));
    const View counts{starts.data(), DType::i64, {rows + 1}, {1}};
    cumsum(counts, counts, 0);
    launch(group_kernel, config, index, n, rows, starts.data(), positions.data());
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
