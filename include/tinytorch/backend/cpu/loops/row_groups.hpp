// Row groups: fused operations execute their steps on a few rows at a time, which stay in the cache.
#pragma once

#include <algorithm>
#include <cstdint>
#include <tinytorch/backend/cpu/loops/runs.hpp>
#include <tinytorch/core/parallel.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Calls f(first, count) for groups that cover n rows of `width` elements; threads share the groups.
template <class F>
void for_each_row_group(int64_t n, int64_t width, F&& f) {
  const int64_t group = grain_of(width);
  parallel_for(n, group, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r += group) f(r, std::min(group, end - r));
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
