// Foreign text on every surface, and names that could be taken for others.
#include <doctest/doctest.h>

#include <string>
#include <tinymlperf/support/foreign_text.hpp>
#include <tinytorch/core/random.hpp>

using namespace tinymlperf;

TEST_CASE("escape sequences, overrides of direction and invisible characters are replaced; letters stay") {
  const std::string mark(kReplacement);
  CHECK(clean("\x1b[2J\x1b]0;mine\x07") == mark + "[2J" + mark + "]0;mine" + mark);
  CHECK(clean("a\u202Egpj.exe") == "a" + mark + "gpj.exe");
  CHECK(clean("a\u200Bb\u2066c\uFEFF") == "a" + mark + "b" + mark + "c" + mark);
  CHECK(clean("a\u009Bm") == "a" + mark + "m");  // the one-byte form of an escape sequence
  CHECK(clean("na\u00EFve \u65E5\u672C\n\tline") == "na\u00EFve \u65E5\u672C\n\tline");
  CHECK(clean("\xff\xc0\xaf") == mark + mark + mark);
}

TEST_CASE("one line has no line break, no control character and no more than so many characters") {
  CHECK(one_line("a\n  b\r\n\tc") == "a; b ; c");
  CHECK(one_line(std::string(1000, 'x'), 10) == std::string(10, 'x') + "\u2026");
  tinytorch::Generator random(8);
  for (int trial = 0; trial < 200; ++trial) {
    std::string text;
    for (uint64_t i = random.below(80); i > 0; --i) text += static_cast<char>(random.below(256));
    const std::string line = one_line(text, 40);
    size_t count = 0;
    for (size_t i = 0; i < line.size(); ++count) {
      const size_t length = utf8_length(std::string_view(line).substr(i));
      REQUIRE(length > 0);
      const uint32_t c = code_point(std::string_view(line).substr(i), length);
      CHECK_FALSE(is_control(c));
      CHECK_FALSE(is_deceptive(c));
      i += length;
    }
    CHECK(count <= 41);
  }
}

TEST_CASE("a name has one form and one script") {
  for (const char* good : {"Ada", "J\u00FCrgen M\u00FCller-L\u00FCdenscheidt", "\u041D\u0430\u0434\u044F 2",
                           "\u5C71\u7530\u306F\u306A", "\u039D\u03AF\u03BA\u03BF\u03C2", "team_7 (B)", ""})
    CHECK_MESSAGE(name_complaint(good) == "", good);
  const auto says = [](const char* name, const char* part) {
    const std::string why = name_complaint(name);
    CHECK_MESSAGE(why.find(part) != std::string::npos, name << ": " << why);
  };
  says("Ad\u0430", "Latin and Cyrillic");  // a Cyrillic letter that looks like a
  says("\u0391da", "Greek and Latin");
  says("A\u0064\u0308a", "a mark apart");
  says("Ad\u202Ea", "turns the text around");
  says("Ad\u200Da", "invisible");
  says("\uFF21da", "special form");
  says("\U0001D400da", "special form");
  says("Ad\x1b[31ma", "control character");
  says("Ad\xff", "not UTF-8");
}
