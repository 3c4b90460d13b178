// Teams: blocks anywhere on the device that work on one row and add up what they found, where a row is too
// long for a cluster, or rows are too few to keep the device busy with one.
//
// They meet in device memory: each block leaves its sum, every word together with the number of the turn, and
// reads those of the others until the numbers are right. No fence is needed, for 8 bytes are written at once.
// All blocks must run at the same time, which LaunchConfig::together promises. Source: the LL protocol of
// NCCL. In the emulator, where a team is one block, nobody meets.
#pragma once

#include <tinytorch/backend/cuda/device/cluster.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline bool has_teams() { return has_clusters(); }

// What a block leaves for the other blocks of its team, by even and odd turns; zeros before the first.
template <class T>
struct TeamNote {
  static constexpr int kWords = sizeof(T) / sizeof(unsigned);
  uint2 words[2][kWords];  // a word of the sum and the number of the turn, from 1
};

template <class T>
__device__ __forceinline__ void leave_note(TeamNote<T>* note, unsigned turn, const T& x) {
  unsigned words[TeamNote<T>::kWords];
  memcpy(words, &x, sizeof(T));
#pragma unroll
  for (int k = 0; k < TeamNote<T>::kWords; ++k) {
#ifdef __CUDA_ARCH__
    asm volatile("st.volatile.global.v2.u32 [%0], {%1, %2};" ::"l"(&note->words[turn % 2][k]), "r"(words[k]),
                 "r"(turn + 1)
                 : "memory");
#else
    note->words[turn % 2][k] = {words[k], turn + 1};
#endif
  }
}
template <class T>
__device__ __forceinline__ T await_note(const TeamNote<T>* note, unsigned turn) {
  unsigned words[TeamNote<T>::kWords];
  bool there = false;
  while (!there) {
    there = true;
#pragma unroll
    for (int k = 0; k < TeamNote<T>::kWords; ++k) {
#ifdef __CUDA_ARCH__
      unsigned number;
      asm volatile("ld.volatile.global.v2.u32 {%0, %1}, [%2];"
                   : "=r"(words[k]), "=r"(number)
                   : "l"(&note->words[turn % 2][k])
                   : "memory");
#else
      const unsigned number = note->words[turn % 2][k].y;
      words[k] = note->words[turn % 2][k].x;
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
  // notes: one for each of the team's `blocks` blocks, kThreads at the most; mine: this block's number.
  __device__ __forceinline__ TeamSum(Space& space, TeamNote<T>* notes, int blocks, int mine)
      : space_(space), notes_(notes), blocks_(blocks), mine_(mine) {}

  __device__ __forceinline__ void give(T x) {
    x = warp_reduce(x, Sum());
    if (lane() == 0) space_.given[warp()] = x;
    __syncthreads();
    if (warp() != 0) return;
    x = warp_reduce<kWarps>(space_.given[lane() % kWarps], Sum());
    if (lane() == 0) leave_note(&notes_[mine_], turn_, x);
  }
  __device__ __forceinline__ T take() {
    const int thread = static_cast<int>(threadIdx.x);
    T x{};
    if (thread < blocks_) x = await_note(&notes_[thread], turn_);
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
  TeamNote<T>* notes_;
  int blocks_, mine_;
  unsigned turn_ = 0;
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
