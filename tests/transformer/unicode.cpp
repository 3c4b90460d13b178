// UTF-8 in units: a well-formed sequence is one character, every other byte is a unit of its own.
#include <doctest/doctest.h>

#include <tinytorch/io/text.hpp>
#include <tinytorch/transformer/unicode.hpp>

#include <transformer/golden_strings.hpp>

namespace tt = tinytorch;
using tt::CharClass;

namespace {

std::vector<uint32_t> codes_of(std::string_view text) {
  std::vector<uint32_t> codes;
  for (size_t at = 0; at < text.size();) {
    const auto unit = tt::unicode::unit_at(text, at);
    codes.push_back(unit.code);
    at += unit.length;
  }
  return codes;
}
using Codes = std::vector<uint32_t>;

}  // namespace

TEST_CASE("every code point except surrogates is read back as written") {
  bool good = true;
  for (uint32_t code = 0; code < 0x110000; ++code) {
    std::string text;
    tt::append_utf8(text, code);
    const auto unit = tt::unicode::unit_at(text, 0);
    const bool surrogate = code >= 0xd800 && code <= 0xdfff;
    good = good && (surrogate ? unit.length == 1 && unit.code == tt::unicode::kInvalidByte + 0xed
                              : unit.code == code && unit.length == text.size());
  }
  CHECK(good);
}

TEST_CASE("invalid bytes are units of their own") {
  constexpr uint32_t k = tt::unicode::kInvalidByte;
  CHECK(codes_of("\xff") == Codes{k + 0xff});
  CHECK(codes_of("\xc0\x80") == Codes{k + 0xc0, k + 0x80});                              // overlong
  CHECK(codes_of("\xe0\x9f\xbf") == Codes{k + 0xe0, k + 0x9f, k + 0xbf});                // overlong
  CHECK(codes_of("\xed\xa0\x80") == Codes{k + 0xed, k + 0xa0, k + 0x80});                // surrogate
  CHECK(codes_of("\xf4\x90\x80\x80") == Codes{k + 0xf4, k + 0x90, k + 0x80, k + 0x80});  // above 10FFFF
  CHECK(codes_of("\xe2\x82") == Codes{k + 0xe2, k + 0x82});                              // cut
  CHECK(codes_of("\xe2\x82 \xc3\xa4") == Codes{k + 0xe2, k + 0x82, ' ', 0xe4});
  CHECK(codes_of(std::string_view("\0a", 2)) == Codes{0, 'a'});
}

TEST_CASE("unit_at and find_invalid_utf8 agree on which texts are valid") {
  for (const std::string& text : golden::awkward_bytes()) {
    bool valid = true;
    for (const uint32_t code : codes_of(text)) valid = valid && code < tt::unicode::kInvalidByte;
    CAPTURE(tt::io::in_quotes(text));
    CHECK(valid == (tt::find_invalid_utf8(text) == text.size()));
  }
}

TEST_CASE("class_of gives the classes of \\p{L}, \\p{N} and \\s") {
  using tt::unicode::class_of;
  for (const uint32_t c :
       Codes{'a', 'Z', 0xaa, 0xe4, 0x17f, 0x416, 0x4e2d, 0xac00, 0xe01, 0x1d400, 0x20000, 0x2b0})
    CHECK(class_of(c) == CharClass::letter);
  for (const uint32_t c : Codes{'0', '9', 0xb2, 0xbd, 0x661, 0x2167, 0x1d7d8, 0x3007})
    CHECK(class_of(c) == CharClass::number);
  for (const uint32_t c : Codes{' ', '\t', '\n', '\v', '\f', '\r', 0x85, 0xa0, 0x1680, 0x2000, 0x200a, 0x2028,
                                0x2029, 0x202f, 0x205f, 0x3000})
    CHECK(class_of(c) == CharClass::space);
  // Combining marks, joiners, the byte order mark, private use, unassigned, and separators that only Python's
  // `re` counts as space.
  for (const uint32_t c : Codes{0x0, 0x1c, 0x1f, '_', '\'', 0x7f, 0x301, 0x200b, 0x200d, 0x2060, 0xfeff,
                                0x180e, 0x1f600, 0xe000, 0x10ffff, 0x378, 0x110000, 0x1100ff})
    CHECK(class_of(c) == CharClass::other);
}

TEST_CASE("the ASCII table equals the binary search") {
  for (uint32_t code = 0; code < 128; ++code)
    CHECK(tt::unicode::class_of(code) == tt::unicode::class_by_search(code));
}
