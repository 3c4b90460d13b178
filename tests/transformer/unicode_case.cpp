#include <tinytorch/transformer/unicode_case.hpp>

#include <doctest/doctest.h>

#include <array>

namespace tt = tinytorch;
using tt::LetterCase;

TEST_CASE("the table is sorted, neighbours differ, and known characters have their case") {
  for (size_t i = 1; i < std::size(tt::unicode::kCaseChanges); ++i) {
    CHECK_UNARY(tt::unicode::kCaseChanges[i - 1] < tt::unicode::kCaseChanges[i]);
    CHECK_UNARY((tt::unicode::kCaseChanges[i - 1] & 3) != (tt::unicode::kCaseChanges[i] & 3));
  }
  for (uint32_t c = 0; c < 128; ++c) {
    const LetterCase expected = c >= 'a' && c <= 'z'   ? LetterCase::lower
                                : c >= 'A' && c <= 'Z' ? LetterCase::upper
                                                       : LetterCase::neither;
    CHECK(tt::unicode::case_of(c) == expected);
  }
  CHECK(tt::unicode::case_of(0x1c5) == LetterCase::upper);  // a title-case letter
  for (const uint32_t both : {0x301u, 0x2b0u, 0x5d0u, 0x4e00u, 0xac00u})
    CHECK(tt::unicode::case_of(both) == LetterCase::both);
  CHECK(tt::unicode::case_of(0x10ffff) == LetterCase::neither);
  CHECK(tt::unicode::case_of(0x110080) == LetterCase::neither);  // an invalid byte
}
