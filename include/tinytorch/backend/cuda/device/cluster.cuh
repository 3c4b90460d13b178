// Thread block clusters: neighbouring thread blocks that run at the same time and access each other's shared
// memory (distributed shared memory, compute capability 9.0). They process rows that are too long for one
// block.
//
// A launcher calls has_clusters() and has another implementation for devices without clusters. On those
// devices and in the emulator a cluster is one block, so kernels for any cluster size compile and run
// everywhere.
#pragma once

#if !TINYTORCH_CUDA_SIM
#include <cooperative_groups.h>
#endif
#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/compiled_code.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kMaxClusterSize = 8;  // thread blocks; every device with clusters supports this size

inline bool has_clusters() {
  return TINYTORCH_CUDA_SIM == 0 && properties(current_device()).major >= 9 &&
         compiled_for(DeviceCode::sm_90);
}

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
// Waits for all threads of the cluster. Required before the first access to the shared memory of another
// block, which must have started.
__device__ __forceinline__ void cluster_sync() { cooperative_groups::this_cluster().sync(); }
// The address in distributed shared memory that corresponds to `mine` in the given block of the cluster.
template <class T>
__device__ __forceinline__ T* map_to_block(T* mine, int block) {
  return cooperative_groups::this_cluster().map_shared_rank(mine, block);
}
// Split cluster barrier: threads that have waited see all writes that other threads made before they arrived.
__device__ __forceinline__ void cluster_arrive() { cooperative_groups::this_cluster().barrier_arrive(); }
__device__ __forceinline__ void cluster_wait() { cooperative_groups::this_cluster().barrier_wait(); }
#endif

// Sum over the threads of a cluster, split into two steps with other work between them:
//
//   sum.arrive(x);   ...   total = sum.wait();
//
// T has operator+. The order of the additions depends only on the numbers of warps and blocks, so the result
// is deterministic. All threads of the cluster call arrive() and wait() alternately. The partial sums are
// double buffered: between arrive() and wait() of one block, another block may call arrive() once more, not
// twice.
template <int kThreads, class T>
class ClusterSum {
 public:
  static constexpr int kWarps = kThreads / kWarp;
  struct Space {
    T partial[2][kWarps * kMaxClusterSize];  // double buffer: even and odd iterations
  };
  // space is in shared memory.
  __device__ __forceinline__ explicit ClusterSum(Space& space) : space_(space) {}

  __device__ __forceinline__ void arrive(T x) {
    x = warp_reduce(x, Sum());
    const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
    T* const mine = &space_.partial[iteration_ % 2][cluster_rank() * kWarps + warp];
    if (lane < cluster_size()) *map_to_block(mine, lane) = x;  // one lane per block of the cluster
    cluster_arrive();
  }
  __device__ __forceinline__ T wait() {
    cluster_wait();
    const int lane = static_cast<int>(threadIdx.x) % kWarp, count = kWarps * cluster_size();
    const T* const partial = space_.partial[iteration_ % 2];
    ++iteration_;
    T x = partial[lane % kWarps];
    for (int k = kWarps; k < count; k += kWarps) x = x + partial[k + lane % kWarps];
    return warp_reduce<kWarps>(x, Sum());
  }

 private:
  Space& space_;
  unsigned iteration_ = 0;
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
