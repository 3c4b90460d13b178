// Decides which results are written with non-temporal stores, which bypass the caches (core/simd_stream.hpp).
#pragma once

#include <algorithm>
#include <span>
#include <tinytorch/backend/view.hpp>
#include <tinytorch/core/simd_stream.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Values that are computed into a buffer in the L1 cache between non-temporal stores. The piece is small, so
// that stores overlap with the computation of the next piece: with 1024 floats exp took 1.1 times as long as
// with ordinary stores, with 128 it takes 0.9 times.
inline constexpr int64_t kNonTemporalBytes = 512;

// Bytes of memory that a view covers; broadcast dimensions count once.
inline int64_t bytes_of(const View& v) {
  auto bytes = static_cast<int64_t>(size_of(v.dtype));
  for (int d = 0; d < v.rank(); ++d)
    bytes *= v.strides[d] == 0 ? std::min<int64_t>(1, v.shape[d]) : v.shape[d];
  return bytes;
}

// True if a call writes its result with non-temporal stores: the result is contiguous, it does not overwrite
// an input, whose cache lines have just been read, and result and inputs together exceed this process's share
// of the caches.
inline bool uses_non_temporal_stores(const View& out, std::span<const View> in) {
  int64_t bytes = bytes_of(out);
  for (const View& v : in) bytes += bytes_of(v);
  if (bytes <= streaming_bytes || !out.contiguous()) return false;
  return std::ranges::none_of(in, [&](const View& v) { return v.data == out.data; });
}
template <size_t kInputs>
bool uses_non_temporal_stores(const View& out, const View (&in)[kInputs]) {
  return uses_non_temporal_stores(out, std::span<const View>(in));
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
