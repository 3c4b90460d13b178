#include <tinytorch/transformer/char_tokenizer.hpp>

#include "texts.hpp"

using namespace course;

namespace {
CharTokenizer of(const std::string& text, CharUnit unit = CharUnit::code_point) {
  return CharTokenizer::from_text(text, unit);
}
}  // namespace

TEST_CASE("4.1 a vocabulary has each character once, sorted by code") {
  expect_equal("vocabulary of from_text(\"abracadabra\")", of("abracadabra").vocabulary(), int64_t{5});
  expect_equal("codes of from_text(\"cab a\")", of("cab a").codes(),
               std::vector<uint32_t>{' ', 'a', 'b', 'c'});
  expect_equal("vocabulary of from_text(\"\")", of("").vocabulary(), int64_t{0});
}

TEST_CASE("4.1 tokens are numbered by code, not by first appearance") {
  expect_equal("from_text(\"cab a\").encode(\"abc\")", of("cab a").encode("abc"), Tokens{1, 2, 3});
  expect_equal("from_text(\"cab a\").decode({3, 1, 2, 0})", of("cab a").decode(Tokens{3, 1, 2, 0}),
               std::string("cab "));
  const std::string text = text_of(kLetters, 200);
  const std::string turned(text.rbegin(), text.rend());
  expect_equal("a vocabulary from the same characters in another order: encode(" + quoted(text) + ")",
               of(turned).encode(text), of(text).encode(text));
}

TEST_CASE("4.1 decode(encode(text)) gives the text") {
  for (int round = 0; round < 5; ++round) {
    const std::string text = text_of(kLetters, 50);
    expect_round_trip("characters", of(text), text);
    expect_round_trip("bytes", of(text, CharUnit::byte), text);
  }
  expect_round_trip("the empty text", of(""), "");
}

TEST_CASE("4.1 a character may have several bytes") {
  const std::string text = "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80 a";
  expect_equal("vocabulary of from_text(" + quoted(text) + "): five code points", of(text).vocabulary(),
               int64_t{5});
  expect_equal("encode(" + quoted(text) + ")", of(text).encode(text), Tokens{2, 3, 4, 0, 1});
  expect_equal("vocabulary of from_text(" + quoted(text) + ", CharUnit::byte)",
               of(text, CharUnit::byte).vocabulary(), int64_t{11});
  for (int round = 0; round < 5; ++round) {
    const std::string many = text_of(kManyScripts, 60);
    expect_round_trip("characters", of(many), many);
  }
}

TEST_CASE("4.1 bytes that are not valid UTF-8 are decoded unchanged") {
  for (int round = 0; round < 5; ++round) {
    const std::string text = any_bytes(300);
    expect_round_trip("characters", of(text), text);
    expect_round_trip("bytes", of(text, CharUnit::byte), text);
  }
}

TEST_CASE("4.1 unknown characters and numbers are refused") {
  expect_throws("TT-TEXT-01", "from_text(\"abd\").encode(\"abc\")", [] { of("abd").encode("abc"); });
  expect_throws("TT-TEXT-01", "from_text(\"abc\").encode(\"abz\")", [] { of("abc").encode("abz"); });
  expect_throws("TT-TEXT-01", "from_text(\"\").encode(\"a\")", [] { of("").encode("a"); });
  expect_throws("TT-TEXT-02", "from_text(\"abc\").decode({0, 3})", [] { of("abc").decode(Tokens{0, 3}); });
  expect_throws("TT-TEXT-02", "from_text(\"abc\").decode({-1})", [] { of("abc").decode(Tokens{-1}); });
}
