// One token per character: tokens are ordered by code, and round trips of any bytes are exact.
#include <tinytorch/transformer/char_tokenizer.hpp>

#include <tinytorch/io/text.hpp>

#include <support/data.hpp>
#include <support/errors.hpp>
#include <transformer/golden_strings.hpp>

namespace tt = tinytorch;
using tt::CharTokenizer;
using tt::CharUnit;

TEST_CASE("tokens are numbered by ascending code") {
  const CharTokenizer t = CharTokenizer::from_text(
      "b\xc3\xa4"
      "a\na");
  CHECK(t.codes() == std::vector<uint32_t>{'\n', 'a', 'b', 0xe4});
  CHECK(t.encode("ab\xc3\xa4\n") == tt::Tokens{1, 2, 3, 0});
  CHECK(t.decode(tt::Tokens{1, 2, 3, 0}) == "ab\xc3\xa4\n");
  CHECK(t.vocabulary() == 4);
  CHECK(t == CharTokenizer({0xe4, 'b', 'a', 'a', '\n'}, CharUnit::code_point));
  const CharTokenizer bytes = CharTokenizer::from_text("b\xc3\xa4", CharUnit::byte);
  CHECK(bytes.encode("\xa4"
                     "b") == tt::Tokens{1, 0});
  CHECK(bytes.vocabulary() == 3);
  CHECK(CharTokenizer::from_text("").vocabulary() == 0);
}

TEST_CASE("decode returns any bytes exactly, with code points and with bytes") {
  for (const std::string& text : golden::awkward_bytes()) {
    for (const CharUnit unit : {CharUnit::code_point, CharUnit::byte}) {
      const CharTokenizer t = CharTokenizer::from_text(text, unit);
      CHECK(t.decode(t.encode(text)) == text);
    }
  }
}

TEST_CASE("unknown characters and token numbers throw") {
  const CharTokenizer t = CharTokenizer::from_text("ab");
  errors::check_error(
      "TT-TEXT-01: CharTokenizer: '\\xe2\\x82\\xac', U+20AC, at byte 2 is not among the 2 characters of the "
      "vocabulary\n"
      "  hint: build the tokenizer from a text that contains it, or use BpeTokenizer, which has tokens for "
      "all "
      "bytes",
      [&] { t.encode("ab\xe2\x82\xac"); });
  test::expect_error("TT-TEXT-01", "U+1F600, at byte 0", [&] { t.encode("\xf0\x9f\x98\x80"); });
  test::expect_error("TT-TEXT-01", "'\\xff', a byte, at byte 1", [&] { t.encode("a\xff"); });
  test::expect_error("TT-TEXT-01", "U+0000", [&] { t.encode(std::string_view("\0", 1)); });
  test::expect_error("TT-TEXT-02", "2 at position 0", [&] { t.decode(tt::Tokens{2}); });
  test::expect_error("TT-TEXT-02", "-1 at position 1", [&] { t.decode(tt::Tokens{0, -1}); });
}

namespace {
const char* const kPlay = "tinyshakespeare/input.txt";
}

TEST_CASE("Tiny Shakespeare has 65 characters" * test::needs_data(kPlay)) {
  const std::string text = tt::load_text(test::data_file(kPlay));
  const CharTokenizer t = CharTokenizer::from_text(text);
  CHECK(t.vocabulary() == 65);
  CHECK(t.decode(t.encode(text)) == text);
}
