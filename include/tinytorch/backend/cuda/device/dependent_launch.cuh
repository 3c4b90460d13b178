// Programmatic dependent launch (compute capability 9.0): the blocks of a kernel are placed while the kernel
// before it in the stream still runs, and wait for its end there. This hides most of the 1 to 2 us between
// two kernels, which is half of the time of a small one.
//
//   launch(kernel, {.grid = ..., .block = ..., .early = true}, ...)
//
//   static __global__ void kernel(...) {
//     start_next_kernel();         // blocks of the next kernel may be placed from now on
//     fetch_to_l2(address);        // optional: registers hold nothing yet, so a later write is not missed
//     wait_for_previous_kernel();  // now the kernels before this one are done, and their writes visible
//
// Rule: each block of a kernel that is launched early calls wait_for_previous_kernel() before its first
// access to global memory and before it ends. The kernel after it waits for the end of this one alone. On
// other devices and in the emulator, kernels run one after the other and these functions do nothing.
// Source: NVIDIA, "CUDA C++ Programming Guide", programmatic dependent launch and synchronization.
#pragma once

#include <cstdlib>
#include <cstring>
#include <tinytorch/backend/cuda/device/compiled_code.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

__device__ __forceinline__ void start_next_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ __forceinline__ void wait_for_previous_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// Asks for the 32 bytes around the address in L2.
__device__ __forceinline__ void fetch_to_l2([[maybe_unused]] const void* address) {
#ifdef __CUDA_ARCH__
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
#endif
}

#if !TINYTORCH_CUDA_SIM
// True if a kernel with this grid is launched early: its blocks fit beside those of the kernel before. Blocks
// of a larger grid would take the places of the next blocks of that kernel. TINYTORCH_CUDA_EARLY=0 disables
// early launches, to test or to compare.
inline bool pays_to_start_early(const dim3& grid) {
  static const bool wanted = [] {
    const char* const asked = std::getenv("TINYTORCH_CUDA_EARLY");
    return !(asked && std::strcmp(asked, "0") == 0);
  }();
  const DeviceProperties& device = properties(current_device());
  const int64_t blocks = int64_t{grid.x} * grid.y * grid.z;
  return wanted && device.major >= 9 && blocks <= int64_t{2} * device.multiprocessors &&
         compiled_for(DeviceCode::sm_90);
}
#endif

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
