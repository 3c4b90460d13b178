#pragma once
#include <tinytorch/backend/cuda/stream.cuh>
namespace tinytorch::inline TT_BUILD::backend::cuda {
void* allocate(size_t bytes, int device, Loc loc) {
  const DeviceGuard guard(device, loc);
  void* block = nullptr;
  check(cudaMalloc(&block, bytes == 0 ? 1 : bytes), "allocating device memory", loc);
  return block;
}
void deallocate(void* block, size_t, int device) noexcept {
  int before = 0;
  (void)cudaGetDevice(&before);
  (void)cudaSetDevice(device);
  (void)cudaFree(block);
  (void)cudaSetDevice(before);
}
}  // namespace tinytorch::inline TT_BUILD::backend::cuda
