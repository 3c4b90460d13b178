// Rows taken a few at a time: fused operations run their steps on a group of rows that stays in the cache.
#pragma once

#include <algorithm>
#include <cstdint>
#include <tinytorch/backend/cpu/loops/runs.hpp>
#include <tinytorch/core/parallel.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Calls f(first, count) for a few of n rows of `width` elements at a time.
template <class F>
void for_some_rows(int64_t n, int64_t width, F&& f) {
  const int64_t some = grain_of(width);
  parallel_for(n, some, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r += some) f(r, std::min(some, end - r));
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
