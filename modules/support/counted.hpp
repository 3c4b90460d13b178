// Counters of the CUDA emulator while kernels run: memory traffic and blocks. On a GPU nothing is counted.
#pragma once

#include <support/check.hpp>
#include <tinytorch/backend/cuda/launch.hpp>
#if TINYTORCH_CUDA_SIM
#include <tinytorch/backend/cuda/sim/emulator.hpp>
#endif

namespace course {

struct Counted {
  double launches = 0, most_blocks = 0, threads = 0, bytes_read = 0, bytes_written = 0;
  double requests = 0;                    // instructions of a warp that access device memory
  double sectors = 0, ideal_sectors = 0;  // units of 32 bytes of device memory
};

// True if kernels run in the emulator. counted(f) then returns the counters of the kernels that f launches.
#if TINYTORCH_CUDA_SIM
inline constexpr bool kCounts = true;
template <class F>
Counted counted(F&& f) {
  namespace sim = tinytorch::backend::cuda::sim;
  sim::clear_counts();
  sim::set_counting(true);
  f();
  sim::set_counting(false);
  Counted sum;
  for (const sim::KernelCounts& k : sim::counts()) {
    sum.launches += static_cast<double>(k.launches);
    sum.most_blocks = std::max(sum.most_blocks, static_cast<double>(k.blocks));
    sum.threads += static_cast<double>(k.threads);
    sum.requests += static_cast<double>(k.requests);
    sum.bytes_read += static_cast<double>(k.bytes_read);
    sum.bytes_written += static_cast<double>(k.bytes_written);
    sum.sectors += static_cast<double>(k.sectors);
    sum.ideal_sectors += static_cast<double>(k.ideal_sectors);
  }
  return sum;
}
// Calls f with the last block of each grid run first. On a GPU the order of the blocks is not defined.
template <class F>
void with_last_block_first(F&& f) {
  namespace sim = tinytorch::backend::cuda::sim;
  sim::set_last_block_first(true);
  f();
  sim::set_last_block_first(false);
}
#else
inline constexpr bool kCounts = false;
template <class F>
Counted counted(F&& f) {
  f();
  return {};
}
template <class F>
void with_last_block_first(F&& f) {
  f();
}
#endif

}  // namespace course
