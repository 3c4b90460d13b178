// The grammar's text and its entropy rate, checked by closed forms, sampling and an independent parser.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <set>
#include <tinytorch/data/grammar.hpp>

namespace tt = tinytorch;
using tt::grammar::Grammar;
using tt::grammar::Sentence;

namespace {

struct Parse {
  double probability = 0;
  double derivations = 0;
};
using Ends = std::map<size_t, Parse>;

// All derivations of `text` from a position, by memoized recursive descent, independently of the generator.
class Parser {
 public:
  Parser(const Grammar& g, std::string text) : grammar_(g), text_(std::move(text)) {}
  const Ends& ends(int symbol, size_t at) {
    const auto key = std::make_pair(symbol, at);
    if (const auto found = memo_.find(key); found != memo_.end()) return found->second;
    Ends all;
    const tt::grammar::Symbol& s = grammar_.symbols()[static_cast<size_t>(symbol)];
    for (const tt::grammar::Rule& rule : s.rules) {
      Ends now = {{at, {static_cast<double>(rule.weight) / s.total, 1}}};
      for (const tt::grammar::Part& part : rule.parts) now = extend(now, part);
      for (const auto& [end, parse] : now) {
        all[end].probability += parse.probability;
        all[end].derivations += parse.derivations;
      }
    }
    return memo_[key] = all;
  }

 private:
  Ends extend(const Ends& from, const tt::grammar::Part& part) {
    Ends to;
    for (const auto& [at, before] : from) {
      if (part.symbol < 0) {
        if (text_.compare(at, part.text.size(), part.text) == 0) {
          to[at + part.text.size()].probability += before.probability;
          to[at + part.text.size()].derivations += before.derivations;
        }
        continue;
      }
      for (const auto& [end, parse] : ends(part.symbol, at)) {
        to[end].probability += before.probability * parse.probability;
        to[end].derivations += before.derivations * parse.derivations;
      }
    }
    return to;
  }
  const Grammar& grammar_;
  std::string text_;
  std::map<std::pair<int, size_t>, Ends> memo_;
};

double binary_entropy(double p) { return -p * std::log2(p) - (1 - p) * std::log2(1 - p); }

std::string code_of(const char* notation) {
  try {
    Grammar g(notation);
  } catch (const tt::Error& e) {
    return e.code();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("grammar: entropy rates with closed forms") {
  CHECK(Grammar("s = 1 'ab' | 1 'c'").entropy_bits_per_character() ==
        doctest::Approx(1 / 1.5).epsilon(1e-12));
  // Uniform over 8 letters: 3 bits per letter. A certain text has entropy 0.
  CHECK(Grammar("s = 1 a a a\na = 1 'x' | 1 'y'").entropy_bits_per_character() == doctest::Approx(1.0));
  CHECK(Grammar("s = 7 'always'").entropy_bits_per_character() == 0.0);
  // Nesting: s = (s) with probability p, else x.  H = h(p) / (1 - p),  L = (1 + p) / (1 - p).
  const Grammar nested("s = 3 '(' s ')' | 1 'x'");
  CHECK(nested.entropy_bits_per_sentence() == doctest::Approx(binary_entropy(0.75) / 0.25).epsilon(1e-12));
  CHECK(nested.characters_per_sentence() == doctest::Approx(7).epsilon(1e-12));
  // Two symbols that call each other: a -> 'x' b or 'y', b -> 'z' a or 'w', all 1/2: L = 1 + L/2 = 2, H = 2.
  const Grammar mutual("a = 1 'x' b | 1 'y'\nb = 1 'z' a | 1 'w'");
  CHECK(mutual.characters_per_sentence() == doctest::Approx(2).epsilon(1e-12));
  CHECK(mutual.entropy_bits_per_sentence() == doctest::Approx(2).epsilon(1e-12));
}

TEST_CASE("grammar: the text is reproducible, and a shorter text is a prefix of a longer one") {
  const std::string text = tt::grammar::text(5000, 7);
  CHECK(text.size() == 5000);
  CHECK(tt::grammar::text(5000, 7) == text);
  CHECK(tt::grammar::text(1234, 7) == text.substr(0, 1234));
  CHECK(tt::grammar::text(5000, 8) != text);
  CHECK(tt::grammar::text(0, 7).empty());
  CHECK_THROWS_AS(tt::grammar::text(-1, 7), tt::Error);
  std::set<char> letters(text.begin(), text.end());
  CHECK(letters.size() > 30);
  CHECK(letters.size() < 64);
}

// The text depends only on integer random numbers, so it is equal with every compiler.
TEST_CASE("grammar: golden text") {
  uint64_t hash = 14695981039346656037ull;
  for (char c : tt::grammar::text(20000, 1)) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  CHECK(hash == 2583906592395560624ull);
}

// Sentences (X bits, L characters) are independent, so by the delta method sum X / sum L has the standard
// error sd(X - rate L) / (mean(L) sqrt(n)). Five standard errors are exceeded by one of 1.7 million seeds.
TEST_CASE("grammar: the sampled cross-entropy converges to the reported rate") {
  const Grammar& g = tt::grammar::english();
  const double rate = tt::grammar::entropy_bits_per_character();
  const int n = 40000;
  double bits = 0, characters = 0, squares = 0;
  for (uint64_t k = 0; k < n; ++k) {
    const Sentence s = g.sentence(11, k);
    const double length = static_cast<double>(s.text.size());
    bits += s.bits, characters += length;
    squares += (s.bits - rate * length) * (s.bits - rate * length);
  }
  const double error = std::sqrt(squares / n) / (characters / n) / std::sqrt(n);
  MESSAGE("rate " << rate << " bits per character, sampled " << bits / characters << " +- " << error
                  << "; a sentence has " << g.characters_per_sentence() << " characters and "
                  << g.entropy_bits_per_sentence() << " bits");
  CHECK(error < 0.002);
  CHECK(std::abs(bits / characters - rate) < 5 * error);
  CHECK(characters / n == doctest::Approx(g.characters_per_sentence()).epsilon(0.02));
  CHECK(bits / n == doctest::Approx(g.entropy_bits_per_sentence()).epsilon(0.02));
}

// The entropy of derivations is the entropy of the text only if every text has one derivation, and if the end
// of a sentence can be recognized.
TEST_CASE("grammar: every sentence has one derivation, and the parser finds it with the same probability") {
  const Grammar& g = tt::grammar::english();
  for (uint64_t k = 0; k < 1500; ++k) {
    const Sentence s = g.sentence(3, k);
    // The text continues with the next sentences.
    Parser parser(g, s.text + g.sentence(3, k + 1).text + g.sentence(3, k + 2).text);
    const Ends& ends = parser.ends(0, 0);
    REQUIRE(ends.size() == 1);
    CHECK(ends.begin()->first == s.text.size());
    CHECK(ends.begin()->second.derivations == 1);
    CHECK(-std::log2(ends.begin()->second.probability) == doctest::Approx(s.bits).epsilon(1e-9));
  }
  // The parser finds both derivations of an ambiguous text.
  const Grammar ambiguous("s = 1 a b\na = 1 'x' | 1 'xy'\nb = 1 'yz' | 1 'z'");
  Parser parser(ambiguous, "xyz");
  CHECK(parser.ends(0, 0).at(3).derivations == 2);
}

TEST_CASE("grammar: rules are drawn with the frequencies of their weights") {
  const Grammar g("s = 5 'a' | 3 'b' | 1 'c'");
  std::map<std::string, double> count;
  for (uint64_t k = 0; k < 9000; ++k) ++count[g.sentence(2, k).text];
  CHECK(std::abs(count["a"] - 5000) < 5 * 47.2);  // standard deviation of a binomial count
  CHECK(std::abs(count["b"] - 3000) < 5 * 44.8);
  CHECK(std::abs(count["c"] - 1000) < 5 * 29.9);
}

TEST_CASE("grammar: English has agreement in number and gender, balanced brackets and correct additions") {
  const std::string text = tt::grammar::text(200000, 5);
  // These are wrong only at the start of a sentence: after "the bird that sees", "the cats sleeps" is
  // correct.
  for (const char* wrong : {". the cats sleeps", ". the dog sleep ", ". the dogs runs", "does the cat sleeps",
                            "anna sees himself", "ben sees herself", "2 + 2 = 5", "(x]", "[x)"}) {
    CHECK(text.find(wrong) == std::string::npos);
  }
  for (const char* right :
       {"cat sees", "cats see ", "herself", "himself", " = 1", "[(", " that ", "if ", " says: \""}) {
    CHECK(text.find(right) != std::string::npos);
  }
}

// A model of the frequencies of letters or of pairs of letters has a much higher loss than the entropy rate,
// so there is something to learn.
TEST_CASE("grammar: the rate is well below the loss of a model of letter pairs") {
  const std::string text = tt::grammar::text(200000, 6);
  std::map<char, double> one;
  std::map<std::pair<char, char>, double> two;
  for (size_t i = 1; i < text.size(); ++i) ++one[text[i - 1]], ++two[{text[i - 1], text[i]}];
  const double n = static_cast<double>(text.size() - 1);
  double letters = 0, pairs = 0;
  for (const auto& [c, count] : one) letters -= count / n * std::log2(count / n);
  for (const auto& [c, count] : two) pairs -= count / n * std::log2(count / one[c.first]);
  const double rate = tt::grammar::entropy_bits_per_character();
  MESSAGE("letters " << letters << ", letter after letter " << pairs << ", rate " << rate);
  CHECK(letters > 3.5);
  CHECK(pairs > 1.3 * rate);
  CHECK(rate > 0.5);
}

TEST_CASE("grammar: invalid notation is an error") {
  CHECK(code_of("s = 1 'a'") == "accepted");
  CHECK(code_of("") == "TT-DATA-02");
  CHECK(code_of("s 1 'a'") == "TT-DATA-02");
  CHECK(code_of("s = 'a'") == "TT-DATA-02");
  CHECK(code_of("s = 0 'a'") == "TT-DATA-02");
  CHECK(code_of("s = 1 'a") == "TT-DATA-02");
  CHECK(code_of("s = 1 nowhere") == "TT-DATA-02");
  CHECK(code_of("s = 1 'a'\ns = 1 'b'") == "TT-DATA-02");
  CHECK(code_of("s = 1 'a' | ") == "TT-DATA-02");
  CHECK(code_of("s = 1x 'a'") == "TT-DATA-02");
  CHECK(code_of("s = 1 2 'a'") == "TT-DATA-02");
  CHECK(code_of("s = 9999999 'a'") == "TT-DATA-02");
  CHECK(code_of("s = 1 'a' + 'b'") == "TT-DATA-02");
  CHECK(code_of("s = 1 ''") == "TT-DATA-02");
  CHECK(code_of("s = 1 s") == "TT-DATA-02");            // never produces text
  CHECK(code_of("s = 2 s s | 1 'a'") == "TT-DATA-03");  // the expected length is infinite
  CHECK(code_of("s = 1 'a' s") == "TT-DATA-03");
}
