// Pipelined barrier with split arrive and wait (mbarrier): a warp may run one iteration ahead of the slowest,
// so warps do not wait for the slowest in each iteration. Before iteration t a warp waits until all warps
// have arrived in iteration t - 1. From iteration t on, other warps may read data that a warp wrote before it
// arrived in t - 1, and may overwrite data that it last read before iteration t - 1.
//
//   __shared__ uint64_t state;
//   const PipelinedBarrier barrier(&state);          by all threads of the block, then __syncthreads()
//   for (unsigned t = 0; ...; ++t) {
//     if (t > 0) barrier.wait(t - 1);
//     barrier.arrive();  ...
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
  void wait(unsigned phase, Loc where = Loc::current()) const { sim::wait_for_phase(barrier_, phase, where); }

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
  // All lanes of a warp call it; a warp counts as one arrival.
  __device__ __forceinline__ void arrive() const {
    __syncwarp();
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if (threadIdx.x % kWarp == 0) {
      asm volatile("{\n .reg .b64 token;\n mbarrier.arrive.shared.b64 token, [%0];\n}" ::"r"(at_) : "memory");
    }
#endif
  }
  // Waits until all warps have arrived phase + 1 times.
  __device__ __forceinline__ void wait([[maybe_unused]] unsigned phase) const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    unsigned done = 0;
    while (!done) {
#if __CUDA_ARCH__ >= 900  // try_wait suspends the warp
      asm volatile(
          "{\n .reg .pred done;\n mbarrier.try_wait.parity.shared.b64 done, [%1], %2;\n"
          " selp.u32 %0, 1, 0, done;\n}"
          : "=r"(done)
          : "r"(at_), "r"(phase % 2)
          : "memory");
#else
      asm volatile(
          "{\n .reg .pred done;\n mbarrier.test_wait.parity.shared.b64 done, [%1], %2;\n"
          " selp.u32 %0, 1, 0, done;\n}"
          : "=r"(done)
          : "r"(at_), "r"(phase % 2)
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
