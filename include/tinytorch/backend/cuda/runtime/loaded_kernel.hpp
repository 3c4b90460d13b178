// Kernels that are compiled while the program runs: their code is loaded and launched. This header is plain
// C++; loaded_kernel.cuh defines the functions.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <tinytorch/backend/cuda/runtime/runtime.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

struct LoadedKernel;  // opaque; it stays loaded until the process ends

// The name of the current device's architecture for compilers, such as sm_90; empty without a GPU, and on the
// emulator, which runs no code of GPUs.
std::string architecture();
// Loads the function `name` of a cubin. Null if it cannot be loaded; then `problem` says why.
const LoadedKernel* load_kernel(std::span<const char> cubin, const char* name, std::string& problem);
// Queues the kernel on the current stream. It takes one argument by value, which `argument` points to.
void launch(const LoadedKernel& kernel, int64_t blocks, int threads, const void* argument);

#if !TINYTORCH_WITH_CUDA
inline std::string architecture() { return {}; }
inline const LoadedKernel* load_kernel(std::span<const char>, const char*, std::string& problem) {
  problem = "the program was built without CUDA";
  return nullptr;
}
inline void launch(const LoadedKernel&, int64_t, int, const void*) {}
#endif

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
