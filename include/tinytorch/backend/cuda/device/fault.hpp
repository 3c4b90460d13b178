// Range checks of indices in device memory. fault.cuh has the implementation.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <tinytorch/backend/cuda/runtime/runtime.hpp>
#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Queues a check that each value of index (i64) is in [0, size) or equal to `except`, if `except` is given.
// If the check fails, the next synchronization throws TT-RANGE-05 with message(value, row-major position) and
// loc.
using RangeMessage = std::function<std::string(int64_t value, int64_t position)>;
void check_range(const View& index, int64_t size, std::optional<int64_t> except, RangeMessage message,
                 Loc loc);

#if !TINYTORCH_WITH_CUDA
inline void check_range(const View&, int64_t, std::optional<int64_t>, RangeMessage, Loc loc) {
  fail_without_cuda("cuda check_range", loc);
}
#endif

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
