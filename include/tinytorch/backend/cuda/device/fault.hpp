// Faults that only the device can see: an index outside its range. fault.cuh says how.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <tinytorch/backend/cuda/runtime/runtime.hpp>
#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Says by an error at the next synchronization that a value of index (i64) is neither in [0, size) nor
// `except`, where there is such a value: TT-RANGE-05 with message(value, row-major position), blaming loc.
using RangeMessage = std::function<std::string(int64_t value, int64_t position)>;
void check_range(const View& index, int64_t size, std::optional<int64_t> except, RangeMessage message,
                 Loc loc);

#if !TINYTORCH_WITH_CUDA
inline void check_range(const View&, int64_t, std::optional<int64_t>, RangeMessage, Loc loc) {
  fail_without_cuda("cuda check_range", loc);
}
#endif

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
