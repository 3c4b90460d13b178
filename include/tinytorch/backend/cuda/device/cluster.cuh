// Clusters: neighbouring blocks that run at the same time and write to each other's shared memory (compute
// capability 9.0), for rows too long for one block.
//
// A launcher asks has_clusters() and keeps another way for devices without. There, and in the emulator, a
// cluster is one block, so that kernels for any number of blocks can be tried everywhere.
#pragma once

#if !TINYTORCH_CUDA_SIM
#include <cooperative_groups.h>
#endif
#include <tinytorch/backend/cuda/device/collective.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kMaxClusterSize = 8;  // blocks, on every device that has clusters

inline bool has_clusters() { return TINYTORCH_CUDA_SIM == 0 && properties(current_device()).major >= 9; }

#if TINYTORCH_CUDA_SIM || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900)
__device__ __forceinline__ int cluster_size() { return 1; }
__device__ __forceinline__ int cluster_rank() { return 0; }
__device__ __forceinline__ void cluster_sync() {}
template <class T>
__device__ __forceinline__ T* map_to_block(T* mine, int) {
  return mine;
}
__device__ __forceinline__ void cluster_arrive() {}
__device__ __forceinline__ void cluster_wait() { __syncthreads(); }
#else
__device__ __forceinline__ int cluster_size() {
  return static_cast<int>(cooperative_groups::this_cluster().num_blocks());
}
__device__ __forceinline__ int cluster_rank() {
  return static_cast<int>(cooperative_groups::this_cluster().block_rank());
}
// Until all blocks of the cluster run: before the first access to another's shared memory.
__device__ __forceinline__ void cluster_sync() { cooperative_groups::this_cluster().sync(); }
// The same place in the shared memory of another block.
template <class T>
__device__ __forceinline__ T* map_to_block(T* mine, int block) {
  return cooperative_groups::this_cluster().map_shared_rank(mine, block);
}
// A barrier in two halves: what a thread wrote before it arrived is seen by those that have waited.
__device__ __forceinline__ void cluster_arrive() { cooperative_groups::this_cluster().barrier_arrive(); }
__device__ __forceinline__ void cluster_wait() { cooperative_groups::this_cluster().barrier_wait(); }
#endif

// Sums over the threads of a cluster, in two steps with other work between them:
//
//   sum.arrive(x);   ...   total = sum.wait();
//
// x + x adds. The order of the additions depends on the numbers of warps and blocks alone. All threads call
// both in turn; there may be one arrive() more between a arrive() and its wait() of other blocks, not two.
template <int kThreads, class T>
class ClusterSum {
 public:
  static constexpr int kWarps = kThreads / kWarp;
  struct Space {
    T partial[2][kWarps * kMaxClusterSize];  // of even and odd turns
  };
  // space: in shared memory
  __device__ __forceinline__ explicit ClusterSum(Space& space) : space_(space) {}

  __device__ __forceinline__ void arrive(T x) {
    x = warp_reduce(x, Sum());
    const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
    T* const mine = &space_.partial[turn_ % 2][cluster_rank() * kWarps + warp];
    if (lane < cluster_size()) *map_to_block(mine, lane) = x;  // one lane for each block
    cluster_arrive();
  }
  __device__ __forceinline__ T wait() {
    cluster_wait();
    const int lane = static_cast<int>(threadIdx.x) % kWarp, count = kWarps * cluster_size();
    const T* const partial = space_.partial[turn_ % 2];
    ++turn_;
    T x = partial[lane % kWarps];
    for (int k = kWarps; k < count; k += kWarps) x = x + partial[k + lane % kWarps];
    return warp_reduce<kWarps>(x, Sum());
  }

 private:
  Space& space_;
  unsigned turn_ = 0;
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
