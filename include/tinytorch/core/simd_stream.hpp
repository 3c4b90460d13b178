// Stores that go to memory past the caches, for results that are larger than those.
//
// An ordinary store reads its line first: a copy then moves three bytes for two, and what it writes pushes
// out of the caches what might be read again. Whoever reads the result while it could have been cached pays
// for it, and so does a store to a line that was read just before. Not x86: ordinary stores.
#pragma once

#include <algorithm>
#include <tinytorch/core/simd.hpp>
#if defined(__AVX__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>  // a tenth of the other's time to compile
#endif
#if __has_include(<unistd.h>)
#include <unistd.h>
#endif

namespace tinytorch::inline TT_BUILD {

// Bytes of operands above which a call streams its result; may be set.
//
// That is the L3 cache, but at most 8 MiB a processor: a virtual machine with a few processors of many is
// told the size of all. Two processors with 2 MiB of L2 each, said to have 260 MiB of L3, gained from 16 MiB
// on, by 1.1 to 1.8, also when the result was read next.
inline int64_t streaming_bytes = [] {
  int64_t cache = 0, processors = 1;
#if defined(_SC_LEVEL3_CACHE_SIZE)
  cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
#if defined(_SC_NPROCESSORS_ONLN)
  processors = sysconf(_SC_NPROCESSORS_ONLN);
#endif
  if (cache <= 0) cache = int64_t{32} << 20;
  return std::min(cache, std::max<int64_t>(1, processors) << 23);
}();

// memcpy by such stores. stream_fence() must follow before another thread may read the result.
inline void stream_copy(void* to, const void* from, int64_t bytes) {
  auto* out = static_cast<char*>(to);
  const auto* in = static_cast<const char*>(from);
#if defined(__SSE2__)
  const auto head = std::min(bytes, static_cast<int64_t>(-reinterpret_cast<uintptr_t>(out) % kSimdBytes));
  std::memcpy(out, in, static_cast<size_t>(head));
  out += head, in += head, bytes -= head;
  for (; bytes >= kSimdBytes; out += kSimdBytes, in += kSimdBytes, bytes -= kSimdBytes) {
#if defined(__AVX512F__)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(out), _mm512_loadu_si512(in));
#elif defined(__AVX__)
    _mm256_stream_si256(reinterpret_cast<__m256i*>(out),
                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in)));
#else
    _mm_stream_si128(reinterpret_cast<__m128i*>(out), _mm_loadu_si128(reinterpret_cast<const __m128i*>(in)));
#endif
  }
#endif
  std::memcpy(out, in, static_cast<size_t>(bytes));
}

inline void stream_fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace tinytorch::inline TT_BUILD
