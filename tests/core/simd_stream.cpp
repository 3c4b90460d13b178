// Non-temporal copies: every byte is copied at every alignment, and no other byte is written.
#include <doctest/doctest.h>

#include <cstdint>
#include <tinytorch/core/simd_stream.hpp>
#include <vector>

namespace tt = tinytorch;

TEST_CASE("stream_copy at every alignment, for lengths around the vector length") {
  constexpr size_t kRoom = 512;
  std::vector<uint8_t> from(kRoom), to(kRoom);
  for (size_t i = 0; i < kRoom; ++i) from[i] = static_cast<uint8_t>(i * 7 + 1);
  int wrong = 0;
  for (size_t at = 0; at < 65; ++at) {
    for (const size_t shift : {size_t{0}, size_t{1}, at}) {
      for (size_t bytes = 0; bytes <= 260; ++bytes) {
        std::fill(to.begin(), to.end(), uint8_t{0xee});
        tt::stream_copy(to.data() + at, from.data() + shift, static_cast<int64_t>(bytes));
        tt::stream_fence();
        for (size_t i = 0; i < kRoom; ++i) {
          const bool inside = i >= at && i < at + bytes;
          wrong += to[i] != (inside ? from[i - at + shift] : uint8_t{0xee});
        }
      }
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("the threshold for non-temporal stores is some megabytes, and can be set") {
  const int64_t before = tt::streaming_bytes;
  CHECK(before >= int64_t{1} << 20);
  tt::streaming_bytes = 5;
  CHECK(tt::streaming_bytes == 5);
  tt::streaming_bytes = before;
}
