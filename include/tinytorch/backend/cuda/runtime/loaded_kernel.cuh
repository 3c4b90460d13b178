// Kernels that are compiled while the program runs, over the library management of the CUDA runtime.
#pragma once

#include <string>
#include <string_view>
#include <tinytorch/backend/cuda/runtime/device.cuh>
#include <tinytorch/backend/cuda/runtime/errors.cuh>
#include <tinytorch/backend/cuda/runtime/loaded_kernel.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

#if TINYTORCH_CUDA_SIM || CUDART_VERSION < 12080

std::string architecture() { return {}; }
const LoadedKernel* load_kernel(std::span<const char>, const char*, std::string& problem) {
  problem = TINYTORCH_CUDA_SIM ? "the emulator runs no code of GPUs" : "code is loaded by CUDA 12.8 or newer";
  return nullptr;
}
void launch(const LoadedKernel&, int64_t, int, const void*) {}

#else

struct LoadedKernel {
  cudaKernel_t kernel = nullptr;
};

std::string architecture() {
  if (!is_available()) return {};
  const DeviceProperties& device = properties(current_device());
  return "sm_" + std::to_string(device.major * 10 + device.minor);
}

const LoadedKernel* load_kernel(std::span<const char> cubin, const char* name, std::string& problem) {
  if (cubin.size() < 64 || std::string_view(cubin.data(), 4) !=
                               "\x7f"
                               "ELF") {  // CUDA would read beyond its end
    problem = "this is not the code of a kernel";
    return nullptr;
  }
  cudaLibrary_t library = nullptr;
  LoadedKernel loaded;
  cudaError_t error = cudaLibraryLoadData(&library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (error == cudaSuccess) error = cudaLibraryGetKernel(&loaded.kernel, library, name);
  if (error == cudaSuccess) return new LoadedKernel(loaded);  // as long as the process, like the code
  problem = std::string("the code cannot be loaded: ") + cudaGetErrorString(error);
  (void)cudaGetLastError();
  if (library) (void)cudaLibraryUnload(library);
  return nullptr;
}

void launch(const LoadedKernel& kernel, int64_t blocks, int threads, const void* argument) {
  void* arguments[] = {const_cast<void*>(argument)};
  check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel.kernel), dim3(static_cast<unsigned>(blocks)),
                         dim3(static_cast<unsigned>(threads)), arguments, 0, native_stream()),
        "launching a fused kernel");
  check_after_launch("a fused kernel");
}

#endif

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
