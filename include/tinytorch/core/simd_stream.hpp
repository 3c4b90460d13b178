// Non-temporal stores, which bypass the caches, for results that are larger than the caches.
//
// An ordinary store first reads its cache line, so a copy moves three bytes per two, and it evicts data that
// may be read again. A non-temporal store is slower if the result would have stayed in the cache for its next
// reader, or if its line was read just before. On processors other than x86 the stores are ordinary.
#pragma once

#include <algorithm>
#include <tinytorch/core/simd.hpp>
#include <tinytorch/core/simd_intrinsics.hpp>
#if __has_include(<unistd.h>)
#include <unistd.h>
#endif

namespace tinytorch::inline TT_BUILD {

// Number of operand bytes above which an operation uses non-temporal stores; it may be set.
//
// The default is the size of the L3 cache, but at most 8 MiB per processor, because a virtual machine with a
// few processors of a large chip reports the whole chip's cache size. On two processors with 2 MiB of L2 each
// that reported 260 MiB of L3, streaming was 1.1 to 1.8 times as fast from 16 MiB on, also when the result
// was read next.
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

// memcpy by non-temporal stores. stream_fence() must follow before another thread may read the result.
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
