// The splitter is compared with the regular expressions on 12,000 strings, and with results computed by hand
// in corner cases.
#include <doctest/doctest.h>

#include <chrono>
#include <tinytorch/transformer/pretokenize.hpp>

#include <transformer/golden_strings.hpp>

namespace tt = tinytorch;
using tt::SplitPattern;
using Pieces = std::vector<std::string_view>;

namespace {

Pieces gpt2(std::string_view text) { return tt::pretokenize(text, SplitPattern::gpt2); }
Pieces cl100k(std::string_view text) { return tt::pretokenize(text, SplitPattern::cl100k); }

tt::Tokens lengths(const Pieces& pieces) {
  tt::Tokens out;
  for (const std::string_view piece : pieces) out.push_back(static_cast<int32_t>(piece.size()));
  return out;
}

}  // namespace

TEST_CASE("pieces equal the matches of the regular expressions in Python's regex") {
  const golden::Strings strings;
  strings.check("pieces_gpt2", [](const std::string& s) { return lengths(gpt2(s)); });
  strings.check("pieces_cl100k", [](const std::string& s) { return lengths(cl100k(s)); });
}

TEST_CASE("GPT-2's pattern splits as computed by hand") {
  CHECK(gpt2("").empty());
  CHECK(gpt2("Hello world") == Pieces{"Hello", " world"});
  CHECK(gpt2("it's I'LL") == Pieces{"it", "'s", " I", "'", "LL"});
  CHECK(gpt2("a  b") == Pieces{"a", " ", " b"});
  CHECK(gpt2("a\t\tb") == Pieces{"a", "\t", "\t", "b"});
  CHECK(gpt2("a \n b") == Pieces{"a", " \n", " b"});
  CHECK(gpt2("a  ") == Pieces{"a", "  "});
  CHECK(gpt2(" ") == Pieces{" "});
  CHECK(gpt2("x12345.6") == Pieces{"x", "12345", ".", "6"});
  CHECK(gpt2("'''s") == Pieces{"'''", "s"});
  CHECK(gpt2(" 's") == Pieces{" '", "s"});
}

TEST_CASE("the pattern of cl100k splits as computed by hand") {
  CHECK(cl100k("it's I'LL") == Pieces{"it", "'s", " I", "'LL"});
  CHECK(cl100k("'silly") == Pieces{"'s", "illy"});
  CHECK(cl100k("'\xc5\xbf") == Pieces{"'\xc5\xbf"});
  CHECK(cl100k("a\t\tb") == Pieces{"a", "\t", "\tb"});
  CHECK(cl100k("a\n\nb") == Pieces{"a", "\n\n", "b"});
  CHECK(cl100k("a \n  b") == Pieces{"a", " \n", " ", " b"});
  CHECK(cl100k("f(x);\n\ny") == Pieces{"f", "(x", ");\n\n", "y"});
  CHECK(cl100k("1234567") == Pieces{"123", "456", "7"});
  CHECK(cl100k(" 12") == Pieces{" ", "12"});
  CHECK(cl100k("((a") == Pieces{"((", "a"});
}

TEST_CASE("pieces cover any bytes without gaps, and none is empty") {
  for (const std::string& text : golden::awkward_bytes()) {
    for (const SplitPattern pattern : {SplitPattern::gpt2, SplitPattern::cl100k}) {
      size_t at = 0;
      for (const std::string_view piece : tt::pretokenize(text, pattern)) {
        CHECK(piece.data() == text.data() + at);
        CHECK(!piece.empty());
        at += piece.size();
      }
      CHECK(at == text.size());
    }
  }
}

TEST_CASE("time is linear for long runs of every class, and for mixtures that need lookahead") {
  for (const char* unit :
       {"a", "1", " ", "\n", "\t", "!", "'", "\xff", " \n", "\t ", "' ", "\xe3\x80\x80", "'s", "\r"}) {
    std::string text;
    while (text.size() < 1'000'000) text += unit;
    for (const std::string_view end : {"", "x"}) {
      for (const SplitPattern pattern : {SplitPattern::gpt2, SplitPattern::cl100k}) {
        const auto start = std::chrono::steady_clock::now();
        size_t total = 0;
        const std::string whole = text + std::string(end);
        tt::for_each_piece(whole, pattern, [&](std::string_view piece) { total += piece.size(); });
        CHECK(total == whole.size());
        CAPTURE(unit);
        CHECK(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < 5);
      }
    }
  }
}
