// The second step of a fast matrix product: blocks of a, b and c that fit the cache together.
//
// The frame of a course header: it has the given parts, and includes the functions of task 6.2. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cpu/ladder/loops.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu::ladder {

inline constexpr int64_t kLineBytes = 64;

// A block of c has m x n elements, and its sums take k terms at a time.
struct BlockSizes {
  int64_t m, n, k;
};

inline BlockSizes block_sizes(int64_t cache_bytes, int64_t element_bytes);  // task 6.2
template <class C, class A, class B>
void blocked_product(const C& c, const A& a, const B& b, const BlockSizes& size);  // task 6.2

}  // namespace tinytorch::inline TT_BUILD::backend::cpu::ladder

#include <tasks/backend/cpu/ladder/cache_blocks.hpp>
