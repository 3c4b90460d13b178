// Text files: the boundary cases of UTF-8 (RFC 3629), exhaustive for two bytes; lines.
#include <tinytorch/io/text.hpp>

#include <io/files.hpp>
#include <support/data.hpp>

namespace tt = tinytorch;
using files::refusal_of;

TEST_CASE("every code point is well-formed UTF-8 except the surrogates") {
  for (uint32_t code = 0; code <= 0x10ffff; ++code) {
    std::string text;
    tt::append_utf8(text, code);
    const bool surrogate = code >= 0xd800 && code <= 0xdfff;
    const size_t length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    const bool accepted = tt::find_invalid_utf8(text) == text.size();
    if (text.size() != length || accepted == surrogate) FAIL("code point " << code);
    // A truncated encoding is never accepted.
    for (size_t n = 1; n < text.size(); ++n) {
      if (tt::find_invalid_utf8(std::string_view(text).substr(0, n)) != 0) FAIL("cut code point " << code);
    }
  }
}

TEST_CASE("two bytes are accepted exactly when they are two ASCII characters or one encoded letter") {
  for (unsigned a = 0; a < 256; ++a) {
    for (unsigned b = 0; b < 256; ++b) {
      const std::string text = {static_cast<char>(a), static_cast<char>(b)};
      const bool ascii = a < 0x80 && b < 0x80;
      const bool letter = a >= 0xc2 && a <= 0xdf && b >= 0x80 && b <= 0xbf;
      if ((tt::find_invalid_utf8(text) == 2) != (ascii || letter)) FAIL(a << " " << b);
    }
  }
}

TEST_CASE("ill-formed sequences: the position of the first invalid byte is found") {
  CHECK(tt::find_invalid_utf8("ab\xc0\xaf") == 2);         // overlong '/'
  CHECK(tt::find_invalid_utf8("\xe0\x9f\xbf") == 0);       // overlong, three bytes
  CHECK(tt::find_invalid_utf8("\xf0\x8f\xbf\xbf") == 0);   // overlong, four bytes
  CHECK(tt::find_invalid_utf8("\xf4\x90\x80\x80") == 0);   // above 10FFFF
  CHECK(tt::find_invalid_utf8("\xf5\x80\x80\x80") == 0);   // not a valid lead byte
  CHECK(tt::find_invalid_utf8("\xc3\xa4\xe2\x82z") == 2);  // the third byte is missing
  CHECK(tt::find_invalid_utf8("\xf0\x90\x8d\x88x") == 5);  // all bytes are well-formed
}

TEST_CASE("text keeps its bytes, a byte order mark is removed, invalid bytes are located") {
  CHECK(tt::parse_text(tt::as_bytes("a\r\n\xc3\xa4")) == "a\r\n\xc3\xa4");
  CHECK(tt::parse_text(tt::as_bytes("\xef\xbb\xbfx")) == "x");
  CHECK(tt::parse_text(tt::as_bytes("x\xef\xbb\xbf")) == "x\xef\xbb\xbf");
  CHECK(tt::parse_text({}) == "");
  const auto refusal = refusal_of([] { tt::parse_text(tt::as_bytes("one\ntwo\nth\xffree"), "a.txt"); });
  CHECK(refusal.code == "TT-IO-03");
  CHECK(files::contains(refusal.text, "'a.txt'"));
  CHECK(files::contains(refusal.text, "'\\xffree' at byte 10, line 3"));
}

TEST_CASE("split_lines() removes the line ends") {
  using Lines = std::vector<std::string>;
  CHECK(tt::split_lines("") == Lines{});
  CHECK(tt::split_lines("a") == Lines{"a"});
  CHECK(tt::split_lines("a\n") == Lines{"a"});
  CHECK(tt::split_lines("\n\na\r\n\r\nb\rc") == Lines{"", "", "a", "", "b\rc"});
}

TEST_CASE("text files are read as a whole and by lines") {
  const files::TempFolder folder;
  tt::write_file(folder / "f", "first\nsecond \xe2\x82\xac\n");
  CHECK(tt::load_text(folder / "f") == "first\nsecond \xe2\x82\xac\n");
  CHECK(tt::load_lines(folder / "f") == std::vector<std::string>{"first", "second \xe2\x82\xac"});
  CHECK(refusal_of([&] { tt::load_lines(folder / "g"); }).code == "TT-IO-01");
}

TEST_CASE("Tiny Shakespeare, if its file is present" * test::needs_data("tinyshakespeare/input.txt")) {
  const std::string text = tt::load_text(test::data_file("tinyshakespeare/input.txt"));
  CHECK(text.size() == 1'115'394);
  CHECK(tt::split_lines(text).size() == 40'000);
  CHECK(text.starts_with("First Citizen:\n"));
}
