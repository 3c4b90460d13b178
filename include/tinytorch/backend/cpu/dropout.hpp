// Dropout on the CPU: out = x / (1 - p) for elements that are kept, else 0.
//
// Word i % 4 of Philox block first_block + i / 4 decides element i, in row-major order: it is kept if the
// word is at least p 2^32. So the mask is never stored; the derivative calls the same function on dy.
// Source: Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting", 2014.
#pragma once

#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out and x have one shape and one floating dtype; 0 <= p <= 1.
TT_API void dropout(const View& out, const View& x, double p, uint64_t seed, uint64_t first_block);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/random.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr int64_t kDropoutBlocks = 128;  // Philox blocks computed together, in a loop that vectorizes

template <class T>
void dropout_as(T* out, const T* x, int64_t n, double p, uint64_t seed, uint64_t first_block) {
  constexpr int64_t kElements = 4 * kDropoutBlocks;
  const auto threshold = static_cast<uint64_t>(p * 0x1p32);  // 2^32 for p = 1, where scale is 0
  const T scale = p < 1 ? static_cast<T>(1 / (1 - p)) : T(0);
  const uint32_t limit = threshold > 0xffffffffu ? 0xffffffffu : static_cast<uint32_t>(threshold);
  parallel_for(ceil_div(n, kElements), 8, [&](int64_t begin, int64_t end) {
    uint32_t words[kElements];
    T factor[kElements];
    for (int64_t b = begin; b < end; ++b) {
      const uint64_t first = first_block + static_cast<uint64_t>(b * kDropoutBlocks);
      TT_SIMD
      for (int64_t k = 0; k < kDropoutBlocks; ++k) {
        const PhiloxBlock block = philox(seed, first + static_cast<uint64_t>(k));
        words[4 * k] = block.v[0];
        words[4 * k + 1] = block.v[1];
        words[4 * k + 2] = block.v[2];
        words[4 * k + 3] = block.v[3];
      }
      TT_SIMD
      for (int64_t k = 0; k < kElements; ++k) factor[k] = words[k] >= limit ? scale : T(0);
      const int64_t i = b * kElements, count = std::min(kElements, n - i);
      const T* in = x + i;
      T* to = out + i;
      TT_SIMD
      for (int64_t k = 0; k < count; ++k) to[k] = factor[k] != T(0) ? in[k] * factor[k] : T(0);
    }
  });
}

TT_API void dropout(const View& out, const View& x, double p, uint64_t seed, uint64_t first_block) {
  if (out.numel() == 0) return;
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> in(x);
    ContiguousOutput<T> to(out);
    dropout_as<T>(to.data(), in.data(), x.numel(), p, seed, first_block);
    to.write_back();
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
