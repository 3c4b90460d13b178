// Teams: thread blocks of a cooperative launch that process one row and add up their sums through device
// memory, if a row is too long for a cluster, or if one cluster per row would not keep the device busy.
//
// Each block writes its sum to its slot, every 4-byte word together with the number of the iteration, and
// polls the slots of the other blocks until the numbers match. No fence is needed, because 8 bytes are
// written atomically. All blocks must run at the same time (LaunchConfig::cooperative). In the emulator a
// team is one block.
//
// Source: NCCL, the LL (low latency) protocol.
#pragma once

#include <tinytorch/backend/cuda/device/cluster.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline bool has_teams() { return has_clusters(); }

// The published sum of a block, double buffered for even and odd iterations. All bytes are 0 before the
// first.
template <class T>
struct TeamSlot {
  static constexpr int kWords = sizeof(T) / sizeof(unsigned);
  uint2 words[2][kWords];  // x: a word of the sum; y: the number of the iteration, from 1
};

template <class T>
__device__ __forceinline__ void publish_to_slot(TeamSlot<T>* slot, unsigned iteration, const T& x) {
  unsigned words[TeamSlot<T>::kWords];
  memcpy(words, &x, sizeof(T));
#pragma unroll
  for (int k = 0; k < TeamSlot<T>::kWords; ++k) {
#ifdef __CUDA_ARCH__
    asm volatile("st.volatile.global.v2.u32 [%0], {%1, %2};" ::"l"(&slot->words[iteration % 2][k]),
                 "r"(words[k]), "r"(iteration + 1)
                 : "memory");
#else
    slot->words[iteration % 2][k] = {words[k], iteration + 1};
#endif
  }
}
template <class T>
__device__ __forceinline__ T wait_for_slot(const TeamSlot<T>* slot, unsigned iteration) {
  unsigned words[TeamSlot<T>::kWords];
  bool there = false;
  while (!there) {
    there = true;
#pragma unroll
    for (int k = 0; k < TeamSlot<T>::kWords; ++k) {
#ifdef __CUDA_ARCH__
      unsigned number;
      asm volatile("ld.volatile.global.v2.u32 {%0, %1}, [%2];"
                   : "=r"(words[k]), "=r"(number)
                   : "l"(&slot->words[iteration % 2][k])
                   : "memory");
#else
      const unsigned number = slot->words[iteration % 2][k].y;
      words[k] = slot->words[iteration % 2][k].x;
#endif
      there = there && number == iteration + 1;
    }
  }
  T x;
  memcpy(&x, words, sizeof(T));
  return x;
}

// Sums values over a team as ClusterSum does over a cluster. T() is zero.
template <int kThreads, class T>
class TeamSum {
 public:
  static constexpr int kWarps = kThreads / kWarp;
  struct Space {
    T given[kWarps], taken[kWarps];
  };
  // slots: one per block of the team; blocks: at most kThreads; mine: the index of this block in the team.
  __device__ __forceinline__ TeamSum(Space& space, TeamSlot<T>* slots, int blocks, int mine)
      : space_(space), slots_(slots), blocks_(blocks), mine_(mine) {}

  __device__ __forceinline__ void arrive(T x) {
    x = warp_reduce(x, Sum());
    if (lane() == 0) space_.given[warp()] = x;
    __syncthreads();
    if (warp() != 0) return;
    x = warp_reduce<kWarps>(space_.given[lane() % kWarps], Sum());
    if (lane() == 0) publish_to_slot(&slots_[mine_], iteration_, x);
  }
  __device__ __forceinline__ T wait() {
    const int thread = static_cast<int>(threadIdx.x);
    T x{};
    if (thread < blocks_) x = wait_for_slot(&slots_[thread], iteration_);
    x = warp_reduce(x, Sum());
    if (lane() == 0) space_.taken[warp()] = x;
    ++iteration_;
    __syncthreads();
    return warp_reduce<kWarps>(space_.taken[lane() % kWarps], Sum());
  }

 private:
  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % kWarp; }
  static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x) / kWarp; }
  Space& space_;
  TeamSlot<T>* slots_;
  int blocks_, mine_;
  unsigned iteration_ = 0;
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
