// Clusters: neighbouring blocks that run at the same time and read each other's shared memory (compute
// capability 9.0), for rows too long for the registers of one block.
//
// A launcher asks has_clusters() and keeps another way for devices without, and for the emulator, where a
// block is alone.
#pragma once

#if !TINYTORCH_CUDA_SIM
#include <cooperative_groups.h>
#endif
#include <tinytorch/backend/cuda/kernel.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline bool has_clusters() { return TINYTORCH_CUDA_SIM == 0 && properties(current_device()).major >= 9; }

// Waits for all blocks of the cluster.
template <int kCluster>
__device__ __forceinline__ void cluster_wait() {
#if !TINYTORCH_CUDA_SIM && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900)
  if constexpr (kCluster > 1) cooperative_groups::this_cluster().sync();
#endif
}

// The sum of the blocks' x, which is the same in all threads of a block, in the order of the blocks. `turn`
// counts the calls: a block may be one call ahead of those that still read. All blocks wait before they end.
template <int kCluster, class T>
__device__ __forceinline__ T cluster_sum(T x, [[maybe_unused]] unsigned turn) {
#if !TINYTORCH_CUDA_SIM && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900)
  if constexpr (kCluster > 1) {
    __shared__ T given[2];
    T* const mine = &given[turn % 2];
    if (threadIdx.x == 0) *mine = x;
    const auto cluster = cooperative_groups::this_cluster();
    cluster.sync();
    x = *cluster.map_shared_rank(mine, 0);
#pragma unroll
    for (int block = 1; block < kCluster; ++block) x = x + *cluster.map_shared_rank(mine, block);
  }
#endif
  return x;
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
