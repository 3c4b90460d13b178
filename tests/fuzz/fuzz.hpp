// Helpers of the fuzz targets. run() calls a reader with one input, which must give a result or an Error with
// a TT-IO code.
//
// Any other exception, a crash, a sanitizer report, or memory beyond libFuzzer's limits stops the run.
// tests/fuzz/run.py runs all targets on their corpora.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <tinytorch/io/bytes.hpp>

namespace tt = tinytorch;

namespace fuzz {

// Reads every value, so that AddressSanitizer sees the whole tensor.
inline void touch(const tt::Tensor& t) {
  const std::vector<std::byte> bytes = tt::io::bytes_of_tensor(t, tt::Loc::current());
  volatile unsigned sum = 0;
  for (const std::byte b : bytes) sum = sum + std::to_integer<unsigned>(b);
}

inline bool same(const tt::Tensor& a, const tt::Tensor& b) {
  const tt::Loc here = tt::Loc::current();
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         tt::io::bytes_of_tensor(a, here) == tt::io::bytes_of_tensor(b, here);
}

inline void require(bool holds) {
  if (!holds) std::abort();
}

template <class F>
int run(const uint8_t* data, size_t size, F&& reader) {
  try {
    reader(tt::Bytes(reinterpret_cast<const std::byte*>(data), size));
  } catch (const tt::Error& error) {
    require(error.code().starts_with("TT-IO-"));
  }
  return 0;
}

}  // namespace fuzz
