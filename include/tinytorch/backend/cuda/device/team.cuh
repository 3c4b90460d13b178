// Teams: blocks anywhere on the device that work on one row and add up what they found, where a row is too
// long for a cluster, or rows are too few to keep the device busy with one.
//
// They meet in device memory: each block leaves its sum, every word together with the number of the turn, and
// reads those of the others until the numbers are right. No fence is needed, for 8 bytes are written at once.
// All blocks must run at the same time, which LaunchConfig::cooperative promises. Source: the LL protocol of
// NCCL. In the emulator, where a team is one block, nobody meets.
#pragma once

#include <tinytorch/backend/cuda/device/cluster.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline bool has_teams() { return has_clusters(); }

// What a block leaves for the other blocks of its team, by even and odd turns; zeros before the first.
template <class T>
struct TeamSlot {
  static constexpr int kWords = sizeof(T) / sizeof(unsigned);
  uint2 words[2][kWords];  // a word of the sum and the number of the turn, from 1
};

template <class T>
__device__ __forceinline__ void publish_to_slot(TeamSlot<T>* slot, unsigned turn, const T& x) {
  unsigned words[TeamSlot<T>::kWords];
  memcpy(words, &x, sizeof(T));
#pragma unroll
  for (int k = 0; k < TeamSlot<T>::kWords; ++k) {
#ifdef __CUDA_ARCH__
    asm volatile("st.volatile.global.v2.u32 [%0], {%1, %2};" ::"l"(&slot->words[turn % 2][k]), "r"(words[k]),
                 "r"(turn + 1)
                 : "memory");
#else
    slot->words[turn % 2][k] = {words[k], turn + 1};
#endif
  }
}
template <class T>
__device__ __forceinline__ T wait_for_slot(const TeamSlot<T>* slot, unsigned turn) {
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
                   : "l"(&slot->words[turn % 2][k])
                   : "memory");
#else
      const unsigned number = slot->words[turn % 2][k].y;
      words[k] = slot->words[turn % 2][k].x;
#endif
      there = there && number == turn + 1;
    }
  }
  T x;
  memcpy(&x, words, sizeof(T));
  return x;
}

// As ClusterSum, over a team. T() adds nothing.
template <int kThreads, class T>
class TeamSum {
 public:
  static constexpr int kWarps = kThreads / kWarp;
  struct Space {
    T given[kWarps], taken[kWarps];
  };
  // slots: one for each of the team's `blocks` blocks, kThreads at the most; mine: this block's number.
  __device__ __forceinline__ TeamSum(Space& space, TeamSlot<T>* slots, int blocks, int mine)
      : space_(space), slots_(slots), blocks_(blocks), mine_(mine) {}

  __device__ __forceinline__ void arrive(T x) {
    x = warp_reduce(x, Sum());
    if (lane() == 0) space_.given[warp()] = x;
    __syncthreads();
    if (warp() != 0) return;
    x = warp_reduce<kWarps>(space_.given[lane() % kWarps], Sum());
    if (lane() == 0) publish_to_slot(&slots_[mine_], turn_, x);
  }
  __device__ __forceinline__ T wait() {
    const int thread = static_cast<int>(threadIdx.x);
    T x{};
    if (thread < blocks_) x = wait_for_slot(&slots_[thread], turn_);
    x = warp_reduce(x, Sum());
    if (lane() == 0) space_.taken[warp()] = x;
    ++turn_;
    __syncthreads();
    return warp_reduce<kWarps>(space_.taken[lane() % kWarps], Sum());
  }

 private:
  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % kWarp; }
  static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x) / kWarp; }
  Space& space_;
  TeamSlot<T>* slots_;
  int blocks_, mine_;
  unsigned turn_ = 0;
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
