#pragma once
#include <tinytorch/backend/cuda/stream.cuh>
namespace tinytorch::inline TT_BUILD::backend::cuda {
bool is_capturing() { return false; }
void refuse_in_capture(const char*, Loc) {}
}  // namespace tinytorch::inline TT_BUILD::backend::cuda
