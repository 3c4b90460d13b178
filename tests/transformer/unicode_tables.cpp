// The generated table is sorted, every entry changes the class, and each class has as many characters as in
// Unicode 16.
#include <doctest/doctest.h>

#include <array>
#include <iterator>
#include <tinytorch/transformer/unicode_tables.hpp>

namespace unicode = tinytorch::unicode;

TEST_CASE("entries are ascending, change the class, and begin at 0") {
  CHECK((unicode::kClassChanges[0] >> 2) == 0u);
  for (size_t i = 1; i < std::size(unicode::kClassChanges); ++i) {
    REQUIRE((unicode::kClassChanges[i] >> 2) > (unicode::kClassChanges[i - 1] >> 2));
    REQUIRE((unicode::kClassChanges[i] & 3) != (unicode::kClassChanges[i - 1] & 3));
  }
  CHECK((*std::rbegin(unicode::kClassChanges) >> 2) < 0x110000u);
}

TEST_CASE("each class has the number of characters of Unicode 16") {
  std::array<uint32_t, 4> sizes{};
  const size_t entries = std::size(unicode::kClassChanges);
  for (size_t i = 0; i < entries; ++i) {
    const uint32_t end = i + 1 < entries ? unicode::kClassChanges[i + 1] >> 2 : 0x110000;
    sizes[unicode::kClassChanges[i] & 3] += end - (unicode::kClassChanges[i] >> 2);
  }
  CHECK(sizes[1] == 141028);  // matched by \p{L}, \p{N} and \s in tiktoken 0.14 and tokenizers 0.23
  CHECK(sizes[2] == 1911);
  CHECK(sizes[3] == 25);
}
