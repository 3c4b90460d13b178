// Text as units for tokenizers: bytes decoded as UTF-8, and the class of each character.
//
// A byte that is not part of well-formed UTF-8 (RFC 3629) is a unit of its own, of class `other`. Every byte
// belongs to exactly one unit, so any text can be split and joined again. Overlong forms, surrogates and
// codes above 10FFFF are invalid bytes.
//
// The classes are those of the patterns \p{L}, \p{N} and \s in tiktoken, tokenizers and the Python module
// `regex`.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <tinytorch/transformer/unicode_tables.hpp>

namespace tinytorch::inline TT_BUILD {

enum class CharClass : uint8_t { other, letter, number, space };

namespace unicode {

// One unit of text. The code of an invalid byte b is kInvalidByte + b, which is above every code point.
struct Unit {
  uint32_t code;
  uint32_t length;  // in bytes, 1 to 4
};

inline constexpr uint32_t kInvalidByte = 0x110000;

// The unit at `at`, a position inside the text.
inline Unit unit_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) -> uint32_t { return static_cast<unsigned char>(text[at + i]); };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const Unit invalid{kInvalidByte + lead, 1};
  const uint32_t length = lead >= 0xc2 && lead <= 0xdf   ? 2
                          : lead >= 0xe0 && lead <= 0xef ? 3
                          : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                         : 0;
  if (length == 0 || text.size() - at < length) return invalid;
  // The range of the second byte excludes overlong forms, surrogates and codes above 10FFFF.
  const uint32_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const uint32_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < low || byte(1) > high) return invalid;
  uint32_t code = lead & (0xffu >> (length + 1));
  for (uint32_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return invalid;
    code = code << 6 | (byte(i) & 0x3f);
  }
  return {code, length};
}

constexpr CharClass class_by_search(uint32_t code) {
  if (code >= kInvalidByte) return CharClass::other;
  const uint32_t* above = std::upper_bound(std::begin(kClassChanges), std::end(kClassChanges), code << 2 | 3);
  return static_cast<CharClass>(above[-1] & 3);
}

// A table for ASCII, which is most of common text; the binary search takes about ten steps.
inline constexpr std::array<CharClass, 128> kAsciiClasses = [] {
  std::array<CharClass, 128> classes{};
  for (uint32_t code = 0; code < 128; ++code) classes[code] = class_by_search(code);
  return classes;
}();

inline CharClass class_of(uint32_t code) { return code < 128 ? kAsciiClasses[code] : class_by_search(code); }

}  // namespace unicode

}  // namespace tinytorch::inline TT_BUILD
