// Which results are written past the caches (core/simd_stream.hpp).
#pragma once

#include <algorithm>
#include <tinytorch/backend/view.hpp>
#include <tinytorch/core/simd_stream.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Values computed into the nearest cache before they are streamed. Few, so that the stores are under way
// while the next are computed: with 1024 floats exp took 1.1 times as long as with ordinary stores, with 128
// it takes 0.9 times.
template <class T>
inline constexpr int64_t kStreamPiece = 512 / static_cast<int64_t>(sizeof(T));

// Memory that a view covers: what is repeated counts once.
inline int64_t bytes_of(const View& v) {
  auto bytes = static_cast<int64_t>(size_of(v.dtype));
  for (int d = 0; d < v.rank(); ++d)
    bytes *= v.strides[d] == 0 ? std::min<int64_t>(1, v.shape[d]) : v.shape[d];
  return bytes;
}

// Whether a call's result goes past the caches: contiguous, larger with its inputs than this process's part
// of them, and not in the place of an input, whose lines have just been read.
template <size_t kInputs>
bool streams(const View& out, const View (&in)[kInputs]) {
  int64_t bytes = bytes_of(out);
  for (const View& v : in) bytes += bytes_of(v);
  if (bytes <= streaming_bytes || !out.contiguous()) return false;
  return std::ranges::none_of(in, [&](const View& v) { return v.data == out.data; });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
