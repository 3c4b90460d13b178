#include <tinytorch/transformer/nfc_tables.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>

namespace tt = tinytorch;

TEST_CASE("decompositions are sorted, and known ones are there") {
  constexpr uint64_t kMask = (uint64_t{1} << 21) - 1;
  const auto code = [](uint64_t entry) { return entry >> 42 & kMask; };
  const auto& pairs = tt::unicode::kDecompositions;
  for (size_t i = 1; i < std::size(pairs); ++i) CHECK_UNARY(code(pairs[i - 1]) < code(pairs[i]));
  for (const uint64_t entry : pairs) CHECK_UNARY(((entry >> 21 & kMask) != 0 && (entry & kMask) != 0));
  CHECK(std::is_sorted(std::begin(tt::unicode::kSingletons), std::end(tt::unicode::kSingletons)));
  const auto has = [](const auto& table, uint64_t entry) {
    return std::find(std::begin(table), std::end(table), entry) != std::end(table);
  };
  CHECK(has(pairs, uint64_t{0xe9} << 42 | uint64_t{0x65} << 21 | 0x301));                        // e, acute
  CHECK(has(pairs, uint64_t{1} << 63 | uint64_t{0x958} << 42 | uint64_t{0x915} << 21 | 0x93c));  // excluded
  CHECK(has(tt::unicode::kSingletons, uint64_t{0x212b} << 21 | 0xc5));                           // Angstrom
}
