// The positions at which a mask is true, on the CPU.
#pragma once

#include <cstdint>
#include <tinytorch/backend/view.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// The positions in row-major order at which the mask (bool, contiguous) is true, in increasing order.
TT_API std::vector<int64_t> true_positions(const View& mask);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <algorithm>
#include <tinytorch/core/parallel.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Each chunk is counted first, so that threads know where its positions begin. The second pass has no
// branches: every position is stored, and the place advances if the element is true, because branches of a
// random mask are mispredicted half of the time.
TT_API std::vector<int64_t> true_positions(const View& mask) {
  constexpr int64_t kChunk = int64_t{1} << 15, kBlock = 1024;
  const int64_t n = mask.numel(), chunks = ceil_div(n, kChunk);
  const auto* const set = mask.as<const bool>();
  std::vector<int64_t> begins(static_cast<size_t>(chunks) + 1);
  parallel_for(chunks, 4, [&](int64_t first, int64_t last) {
    for (int64_t c = first; c < last; ++c) {
      const bool* const from = set + c * kChunk;
      const int64_t m = std::min(kChunk, n - c * kChunk);
      int32_t count = 0;
      for (int64_t i = 0; i < m; ++i) count += from[i];
      begins[static_cast<size_t>(c) + 1] = count;
    }
  });
  for (size_t c = 1; c < begins.size(); ++c) begins[c] += begins[c - 1];
  std::vector<int64_t> found(static_cast<size_t>(begins.back()));
  parallel_for(chunks, 4, [&](int64_t first, int64_t last) {
    int64_t block[kBlock];
    for (int64_t c = first; c < last; ++c) {
      int64_t* to = found.data() + begins[static_cast<size_t>(c)];
      const int64_t end = std::min(n, (c + 1) * kChunk);
      for (int64_t i = c * kChunk; i < end; i += kBlock) {
        const int64_t m = std::min(kBlock, end - i);
        int64_t count = 0;
        for (int64_t k = 0; k < m; ++k) {
          block[count] = i + k;
          count += set[i + k];
        }
        to = std::copy(block, block + count, to);
      }
    }
  });
  return found;
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
