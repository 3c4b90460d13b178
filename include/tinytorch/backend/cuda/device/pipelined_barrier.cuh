// A barrier whose warps may be a turn apart: before turn t a warp waits for all to have begun turn t - 1, not
// t. What it wrote before it arrived at t - 1 the others may read from turn t on; what it was done with
// before turn t - 1 they may overwrite. So nobody waits for the slowest where a barrier would stop all of
// them each turn.
//
//   __shared__ uint64_t state;
//   const PipelinedBarrier barrier(&state);          by the whole block, followed by __syncthreads()
//   for (unsigned turn = 0; ...; ++turn) {
//     if (turn > 0) barrier.wait(turn - 1);
//     barrier.arrive();  ...
//
// Source: NVIDIA, "PTX ISA", mbarrier. Compute capability 8.0.
#pragma once

#include <tinytorch/backend/cuda/device/async_copy.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

class PipelinedBarrier {
 public:
#if TINYTORCH_CUDA_SIM
  explicit PipelinedBarrier(uint64_t* state) : barrier_(reinterpret_cast<sim::MBarrier*>(state)) {
    if (threadIdx.x == 0) sim::init_mbarrier(barrier_);
  }
  void arrive() const {
    __syncwarp();
    if (threadIdx.x % kWarp == 0) sim::arrive(barrier_);
  }
  void wait(unsigned turn, Loc where = Loc::current()) const { sim::wait_for_phase(barrier_, turn, where); }

 private:
  sim::MBarrier* barrier_;
#else
  explicit __device__ __forceinline__ PipelinedBarrier(uint64_t* state) : at_(shared_address(state)) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if (threadIdx.x == 0) {
      asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at_), "r"(blockDim.x / kWarp) : "memory");
    }
#endif
  }
  // By whole warps.
  __device__ __forceinline__ void arrive() const {
    __syncwarp();
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if (threadIdx.x % kWarp == 0) {
      asm volatile("{\n .reg .b64 turn;\n mbarrier.arrive.shared.b64 turn, [%0];\n}" ::"r"(at_) : "memory");
    }
#endif
  }
  // Until all warps have arrived turn + 1 times.
  __device__ __forceinline__ void wait([[maybe_unused]] unsigned turn) const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    unsigned done = 0;
    while (!done) {
#if __CUDA_ARCH__ >= 900  // where a warp sleeps meanwhile
      asm volatile(
          "{\n .reg .pred done;\n mbarrier.try_wait.parity.shared.b64 done, [%1], %2;\n"
          " selp.u32 %0, 1, 0, done;\n}"
          : "=r"(done)
          : "r"(at_), "r"(turn % 2)
          : "memory");
#else
      asm volatile(
          "{\n .reg .pred done;\n mbarrier.test_wait.parity.shared.b64 done, [%1], %2;\n"
          " selp.u32 %0, 1, 0, done;\n}"
          : "=r"(done)
          : "r"(at_), "r"(turn % 2)
          : "memory");
#endif
    }
#endif
  }

 private:
  unsigned at_;
#endif
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
