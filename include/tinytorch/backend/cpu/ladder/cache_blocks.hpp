// The second step of a fast matrix product: blocks of a, b and c that fit the cache together.
//
//   blocked_product(c, a, b, block_sizes(l2_bytes, sizeof(float)));
//
// Without blocks all of b goes through the cache once for each row of c. A block of s rows and columns that
// stays in the cache is used s times: about 2 M N K / s numbers are read, and s is about sqrt(S / 3) for a
// cache of S numbers. No order of the loops reads fewer than a constant times M N K / sqrt(S).
// Source: Hong and Kung, "I/O complexity: the red-blue pebble game", 1981.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cpu/ladder/loops.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu::ladder {

inline constexpr int64_t kLineBytes = 64;

// A block of c has m x n elements, and its sums take k terms at a time.
struct BlockSizes {
  int64_t m, n, k;
};

// The largest square blocks of which three fit cache_bytes: m = n = k = s, the largest multiple of the
// elements of a cache line with 3 s s element_bytes <= cache_bytes, and one line at least. element_bytes is 1
// to kLineBytes.
inline BlockSizes block_sizes(int64_t cache_bytes, int64_t element_bytes) {
  const int64_t line = kLineBytes / element_bytes;
  int64_t s = line;
  while (3 * (s + line) * (s + line) * element_bytes <= cache_bytes) s += line;
  return {s, s, s};
}

// c [M, N] = a [M, K] b [K, N] in blocks of any sizes of at least 1, which may be larger than the matrices.
// For each block of c: it becomes 0; then, for each k0 that is a multiple of size.k, the product of a block
// of a and a block of b is added, in the order i, k, j of product_ikj. The last block of a row, of a column
// and of the depth may be smaller. Each sum runs over k in order, so the result has the bits of
// product_ikj's.
template <class C, class A, class B>
void blocked_product(const C& c, const A& a, const B& b, const BlockSizes& size) {
  const int64_t M = c.rows, N = c.cols, K = a.cols;
  for (int64_t i0 = 0; i0 < M; i0 += size.m) {
    const int64_t i1 = std::min(M, i0 + size.m);
    for (int64_t j0 = 0; j0 < N; j0 += size.n) {
      const int64_t j1 = std::min(N, j0 + size.n);
      for (int64_t i = i0; i < i1; ++i)
        for (int64_t j = j0; j < j1; ++j) c(i, j) = 0;
      for (int64_t k0 = 0; k0 < K; k0 += size.k) {
        const int64_t k1 = std::min(K, k0 + size.k);
        for (int64_t i = i0; i < i1; ++i) {
          for (int64_t k = k0; k < k1; ++k) {
            const auto x = a(i, k);
            for (int64_t j = j0; j < j1; ++j) c(i, j) += x * b(k, j);
          }
        }
      }
    }
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu::ladder
