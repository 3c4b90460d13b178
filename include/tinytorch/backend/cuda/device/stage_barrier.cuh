// Barriers of a ring of stages in shared memory, between the thread that fills stages and the warps that read
// them (mbarrier with transactions, compute capability 9.0).
//
// A kernel with warp roles has one producer thread, which starts copies (tensor_map.cuh), and warps that
// consume. Each stage has two barriers: `full` is complete when its bytes have come, `empty` when all warps
// have read them. A RingPlace counts how often the ring went round, which is the number of the phase:
//
//   producer                                     consumer
//   empty.wait_for_place(at);                    full.wait(at);
//   full.expect(at, bytes);                      ... reads stage at.place ...
//   copy_box(stage, map, k, m, full, at);        empty.arrive(at);      // one lane of each warp
//   at.next(kStages);                            at.next(kStages);
//
// Source: NVIDIA, "PTX ISA", mbarrier, expect-tx and complete-tx.
#pragma once

#include <tinytorch/backend/cuda/device/async_copy.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// The memory of a barrier, in shared memory.
#if TINYTORCH_CUDA_SIM
using StageState = sim::StageState;
#else
using StageState = uint64_t;
#endif

struct RingPlace {
  int place = 0;
  unsigned turn = 0;  // how often the ring went round
  __device__ __forceinline__ void next(int stages) {
    if (++place == stages) place = 0, ++turn;
  }
};

class StageBarriers {
 public:
  // `states`: as many as there are stages.
  explicit __device__ __forceinline__ StageBarriers(StageState* states) : states_(states) {}

  // Initializes the barriers. One thread calls it; then come publish_barriers() and a barrier of all threads
  // of the block (or cluster). A phase is complete after `arrivals` arrivals, when all bytes that were
  // announced have come.
  __device__ __forceinline__ void init(int stages, unsigned arrivals) const {
    for (int i = 0; i < stages; ++i) {
#if TINYTORCH_CUDA_SIM
      sim::init_stage(states_ + i, arrivals);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
      asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(address(i)), "r"(arrivals) : "memory");
#else
      (void)arrivals;
#endif
    }
  }
  // One arrival, by one thread.
  __device__ __forceinline__ void arrive(RingPlace at) const { expect(at, 0); }
  // One arrival, which announces bytes.
  __device__ __forceinline__ void expect([[maybe_unused]] RingPlace at,
                                         [[maybe_unused]] unsigned bytes) const {
#if TINYTORCH_CUDA_SIM
    sim::arrive(states_ + at.place, bytes);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(address(at.place)), "r"(bytes)
                 : "memory");
#endif
  }
  // One arrival at the same barrier of another block of the cluster, which says that this thread has read the
  // stage. What it wrote is not published.
  __device__ __forceinline__ void arrive_at([[maybe_unused]] unsigned block, RingPlace at) const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile(
        "{\n .reg .b32 there;\n mapa.shared::cluster.u32 there, %0, %1;\n"
        " mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(address(at.place)),
        "r"(block)
        : "memory");
#else
    arrive(at);  // a cluster is one block
#endif
  }
#if TINYTORCH_CUDA_SIM
  void wait(RingPlace at, Loc where = Loc::current()) const {
    sim::wait_for_phase(&states_[at.place].phase, at.turn, where);
  }
  void wait_for_place(RingPlace at, Loc where = Loc::current()) const {
    if (at.turn > 0) sim::wait_for_phase(&states_[at.place].phase, at.turn - 1, where);
  }
  StageState* state(int i) const { return states_ + i; }
#else
  // Waits until the phase of this turn is complete.
  __device__ __forceinline__ void wait(RingPlace at) const { wait_for_phase(at.place, at.turn); }
  // Waits until the stage may be filled: at once in the first turn, then until it was read.
  __device__ __forceinline__ void wait_for_place(RingPlace at) const {
    if (at.turn > 0) wait_for_phase(at.place, at.turn - 1);
  }
  __device__ __forceinline__ unsigned address(int i) const {
    return shared_address(states_) + static_cast<unsigned>(i) * 8;
  }
#endif

 private:
#if !TINYTORCH_CUDA_SIM
  __device__ __forceinline__ void wait_for_phase([[maybe_unused]] int i,
                                                 [[maybe_unused]] unsigned phase) const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    unsigned done = 0;
    while (!done) {
      asm volatile(
          "{\n .reg .pred done;\n mbarrier.try_wait.parity.shared.b64 done, [%1], %2;\n"
          " selp.u32 %0, 1, 0, done;\n}"
          : "=r"(done)
          : "r"(address(i)), "r"(phase % 2)
          : "memory");
    }
#endif
  }
#endif
  StageState* states_;
};

// Makes new barriers visible to the copies and to the other blocks of the cluster.
__device__ __forceinline__ void publish_barriers() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

// Barrier of kThreads threads, whole warps, of a block; `number`, 1 to 15, is theirs alone.
#if TINYTORCH_CUDA_SIM
template <int kThreads>
void sync_threads_of(int number, Loc where = Loc::current()) {
  sim::wait_at_named_barrier(static_cast<unsigned>(number), kThreads, where);
}
#else
template <int kThreads>
__device__ __forceinline__ void sync_threads_of([[maybe_unused]] int number) {
#ifdef __CUDA_ARCH__
  asm volatile("bar.sync %0, %1;" ::"r"(number), "n"(kThreads) : "memory");
#endif
}
#endif

// Registers of a thread from here on, for the whole warpgroup: the producer gives back what it does not need,
// and the consumers take it (setmaxnreg). Multiples of 8.
template <int kRegisters>
__device__ __forceinline__ void give_registers() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
