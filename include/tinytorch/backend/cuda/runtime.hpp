// PLACE OF runtime.hpp (branch rt)
#pragma once

#include <tinytorch/backend/view.hpp>
#include <tinytorch/core/device.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

constexpr bool is_built() { return TINYTORCH_WITH_CUDA != 0; }
void copy_bytes(void* to, Device to_device, const void* from, Device from_device, size_t bytes);
void* allocate(size_t bytes, int device, Loc loc);
void deallocate(void* block, size_t bytes, int device);

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
