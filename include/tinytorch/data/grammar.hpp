// Text of known entropy: sentences drawn from a probabilistic grammar, so the best possible loss is known.
//
// Text is a row of independent sentences. For a symbol A whose rule r has probability p(r) = weight / total:
//   H(A) = sum_r p(r) (-log2 p(r) + sum of H(B) over the symbols B of r)     bits of one derivation
//   L(A) = sum_r p(r) (characters of r + sum of L(B) over the symbols B of r)
//   entropy rate = H(sentence) / L(sentence)                                 bits per character
// Both are linear systems x = c + M x, solved by iteration from 0, whose limit is the expected value. The
// rate holds because no text has two derivations (tested by a parser) and by the law of renewal processes.
// Source: Grenander, "Syntax-controlled probabilities", 1967; Cover & Thomas, "Elements of Information
// Theory".
#pragma once

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <tinytorch/core/error.hpp>
#include <tinytorch/core/random.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::grammar {

// Part of a rule's right side: a symbol to expand, or text to write.
struct Part {
  int symbol = -1;  // -1: text
  std::string text;
};
struct Rule {
  uint32_t weight = 0;
  std::vector<Part> parts;
};
struct Symbol {
  std::string name;
  std::vector<Rule> rules;
  uint32_t total = 0;  // of the weights
};

// One sentence and -log2 of the probability of its derivation.
struct Sentence {
  std::string text;
  double bits = 0;
};

class Grammar {
 public:
  // One symbol per line: name = weight part part ... | weight part ..., where a part is 'text' or a name and
  // weights are whole numbers. "\n" inside text is a line break. The first symbol is the sentence.
  explicit Grammar(std::string_view notation, TT_LOC);

  const std::vector<Symbol>& symbols() const { return symbols_; }
  double entropy_bits_per_sentence() const { return bits_; }
  double characters_per_sentence() const { return characters_; }
  double entropy_bits_per_character() const { return bits_ / characters_; }

  // Sentence number `index` of the text named by `seed`: a pure function of both.
  Sentence sentence(uint64_t seed, uint64_t index) const;
  // The first `characters` of that text; the last sentence may be cut.
  std::string text(int64_t characters, uint64_t seed, TT_LOC) const;

 private:
  void read_line(std::string_view line, Loc loc);
  int symbol_named(std::string_view name);
  void check(Loc loc) const;
  double expected(const std::vector<double>& own, Loc loc) const;

  std::vector<Symbol> symbols_;
  double bits_ = 0, characters_ = 0;
};

// The bundled English: agreement in number and gender, clauses within clauses, quotations, brackets, and
// additions that are always right.
const Grammar& english();
inline std::string text(int64_t characters, uint64_t seed, TT_LOC) {
  return english().text(characters, seed, loc);
}
inline double entropy_bits_per_character() { return english().entropy_bits_per_character(); }

// ---------------------------------------------------------------------------------------------------------

namespace detail {

// Whole number in [0, n), each exactly as likely (Lemire, "Fast random integer generation in an interval").
class Draws {
 public:
  Draws(uint64_t seed, uint64_t sentence) : seed_(seed), sentence_(sentence) {}
  uint32_t below(uint32_t n) {
    const uint32_t unfair = (0u - n) % n;  // 2^32 mod n
    while (true) {
      const uint64_t product = uint64_t{word()} * n;
      if (static_cast<uint32_t>(product) >= unfair) return static_cast<uint32_t>(product >> 32);
    }
  }

 private:
  uint32_t word() {
    if (used_ == 4) {
      block_ = philox(seed_, kPurpose | next_++, sentence_);
      used_ = 0;
    }
    return block_.v[used_++];
  }
  static constexpr uint64_t kPurpose = uint64_t{0x7e87} << 48;  // apart from a Generator's counters
  uint64_t seed_, sentence_, next_ = 0;
  PhiloxBlock block_{};
  int used_ = 4;
};

inline std::string_view trim(std::string_view s) {
  const size_t first = s.find_first_not_of(" \t\r");
  return first == std::string_view::npos ? "" : s.substr(first, s.find_last_not_of(" \t\r") - first + 1);
}

inline std::string unescape(std::string_view s) {
  std::string out;
  for (size_t i = 0; i < s.size(); ++i) {
    const bool line_break = s[i] == '\\' && i + 1 < s.size() && s[i + 1] == 'n';
    out += line_break ? '\n' : s[i];
    i += line_break;
  }
  return out;
}

[[noreturn]] inline void refuse(std::string_view line, const std::string& why, Loc loc) {
  fail("TT-DATA-02",
       "grammar: " + why + " in: " + std::string(line) +
           "\n  hint: write lines like  animal = 3 'cat' | 1 adjective ' cat'",
       loc);
}

}  // namespace detail

inline int Grammar::symbol_named(std::string_view name) {
  for (size_t i = 0; i < symbols_.size(); ++i) {
    if (symbols_[i].name == name) return static_cast<int>(i);
  }
  symbols_.push_back({std::string(name), {}, 0});
  return static_cast<int>(symbols_.size()) - 1;
}

inline void Grammar::read_line(std::string_view line, Loc loc) {
  const size_t equals = line.find('=');
  if (equals == std::string_view::npos) detail::refuse(line, "no '='", loc);
  const auto self = static_cast<size_t>(symbol_named(detail::trim(line.substr(0, equals))));
  if (!symbols_[self].rules.empty()) detail::refuse(line, "a second definition", loc);
  std::vector<Rule> rules(1);
  const auto is_word = [](char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; };
  for (size_t i = equals + 1; i < line.size();) {
    const char c = line[i];
    if (c == ' ') {
      ++i;
    } else if (c == '|') {
      rules.emplace_back();
      ++i;
    } else if (c == '\'') {
      const size_t close = line.find('\'', i + 1);
      if (close == std::string_view::npos) detail::refuse(line, "an open quote", loc);
      rules.back().parts.push_back({-1, detail::unescape(line.substr(i + 1, close - i - 1))});
      i = close + 1;
    } else if (is_word(c)) {
      size_t end = i;
      while (end < line.size() && is_word(line[end])) ++end;
      const std::string word(line.substr(i, end - i));
      if (std::isdigit(static_cast<unsigned char>(c)) == 0) {
        rules.back().parts.push_back({symbol_named(word), ""});
      } else if (rules.back().weight != 0 || !rules.back().parts.empty() || word.size() > 6) {
        detail::refuse(line, "a misplaced or too large weight " + word, loc);
      } else {
        for (char digit : word) {
          if (digit < '0' || digit > '9') detail::refuse(line, "the weight " + word, loc);
          rules.back().weight = rules.back().weight * 10 + static_cast<uint32_t>(digit - '0');
        }
      }
      i = end;
    } else {
      detail::refuse(line, std::string("the character '") + c + "'", loc);
    }
  }
  for (const Rule& rule : rules) {
    if (rule.weight == 0) detail::refuse(line, "an alternative without a weight of at least 1", loc);
    symbols_[self].total += rule.weight;
  }
  symbols_[self].rules = std::move(rules);
}

inline void Grammar::check(Loc loc) const {
  if (symbols_.empty()) detail::refuse("", "no rule", loc);
  for (const Symbol& s : symbols_) {
    if (s.rules.empty()) detail::refuse(s.name, "an undefined symbol", loc);
  }
}

// Solves x = own + M x, M[A][B] the expected number of B in one expansion of A; returns x(sentence).
inline double Grammar::expected(const std::vector<double>& own, Loc loc) const {
  std::vector<double> x(symbols_.size(), 0.0);
  constexpr int kMostSteps = 20000;
  for (int step = 0; step < kMostSteps; ++step) {
    double change = 0;
    for (size_t a = 0; a < x.size(); ++a) {
      double value = own[a];
      for (const Rule& rule : symbols_[a].rules) {
        double sum = 0;
        for (const Part& part : rule.parts) sum += part.symbol < 0 ? 0 : x[static_cast<size_t>(part.symbol)];
        value += sum * rule.weight / symbols_[a].total;
      }
      change = std::max(change, std::abs(value - x[a]) / (1 + std::abs(value)));
      x[a] = value;
    }
    if (!std::isfinite(x[0])) break;
    if (change < 1e-15) return x[0];  // a few units in the last place
  }
  fail("TT-DATA-03",
       "grammar: the expected length of '" + symbols_[0].name +
           "' is infinite\n  hint: give the rules that end a recursion more weight",
       loc);
}

inline Grammar::Grammar(std::string_view notation, Loc loc) {
  while (!notation.empty()) {
    const size_t end = std::min(notation.find('\n'), notation.size());
    const std::string_view line = detail::trim(notation.substr(0, end));
    if (!line.empty()) read_line(line, loc);
    notation.remove_prefix(std::min(end + 1, notation.size()));
  }
  check(loc);
  std::vector<double> bits(symbols_.size(), 0.0), characters(symbols_.size(), 0.0);
  for (size_t a = 0; a < symbols_.size(); ++a) {
    for (const Rule& rule : symbols_[a].rules) {
      const double p = static_cast<double>(rule.weight) / symbols_[a].total;
      bits[a] -= p * std::log2(p);
      for (const Part& part : rule.parts) characters[a] += p * static_cast<double>(part.text.size());
    }
  }
  bits_ = expected(bits, loc);
  characters_ = expected(characters, loc);
  if (characters_ <= 0) detail::refuse(symbols_[0].name, "no text at all", loc);
}

inline Sentence Grammar::sentence(uint64_t seed, uint64_t index) const {
  Sentence out;
  detail::Draws draws(seed, index);
  std::vector<Part> open = {{0, ""}};  // what is still to be written, last first
  while (!open.empty()) {
    const Part part = std::move(open.back());
    open.pop_back();
    if (part.symbol < 0) {
      out.text += part.text;
      continue;
    }
    const Symbol& symbol = symbols_[static_cast<size_t>(part.symbol)];
    uint32_t draw = draws.below(symbol.total);
    const Rule* rule = symbol.rules.data();
    while (draw >= rule->weight) draw -= (rule++)->weight;
    out.bits -= std::log2(static_cast<double>(rule->weight) / symbol.total);
    open.insert(open.end(), rule->parts.rbegin(), rule->parts.rend());
  }
  return out;
}

inline std::string Grammar::text(int64_t characters, uint64_t seed, Loc loc) const {
  if (characters < 0) {
    fail("TT-DATA-01", "text: cannot write " + std::to_string(characters) + " characters", loc);
  }
  std::string out;
  for (uint64_t k = 0; out.size() < static_cast<size_t>(characters); ++k) out += sentence(seed, k).text;
  out.resize(static_cast<size_t>(characters));
  return out;
}

namespace detail {

inline constexpr std::string_view kEnglish = R"(
sentence = 9 claim stop | 3 question | 2 speech stop | 2 addition stop | 1 brackets stop
stop = 4 '. ' | 1 '.\n'
claim = 8 fact | 2 fact ' and ' claim | 1 'if ' fact ' then ' claim
fact = 5 one ' ' one_does | 4 many ' ' many_do | 1 oneself
oneself = 1 she ' ' one_takes ' herself' | 1 he ' ' one_takes ' himself'
question = 1 'does ' one ' ' many_do '? ' | 1 'do ' many ' ' many_do '? ' | 1 'where is ' one '? '
speech = 1 she ' says: "' claim '"' | 1 he ' says: "' claim '"'
one = 5 'the ' one_thing | 3 'a small ' one_thing | 1 she | 1 he
many = 4 'the ' many_things | 3 count ' ' many_things
one_thing = 6 one_noun | 3 adjective ' ' one_noun | 1 one_noun ' that ' one_does
many_things = 6 many_noun | 3 adjective ' ' many_noun | 1 many_noun ' that ' many_do
one_does = 4 one_acts | 2 one_acts ' ' place | 4 one_takes ' ' object
many_do = 4 many_act | 2 many_act ' ' place | 4 many_take ' ' object
object = 1 one | 1 many
place = 3 'in the garden' | 2 'on the hill' | 2 'under the bridge' | 1 'behind the old house'
one_noun = 8 'cat' | 6 'dog' | 4 'bird' | 3 'child' | 2 'river' | 1 'engine'
many_noun = 8 'cats' | 6 'dogs' | 4 'birds' | 3 'children' | 2 'rivers' | 1 'engines'
adjective = 6 'red' | 4 'quiet' | 3 'young' | 2 'clever' | 1 'enormous'
one_acts = 5 'sleeps' | 3 'runs' | 2 'sings' | 1 'waits'
many_act = 5 'sleep' | 3 'run' | 2 'sing' | 1 'wait'
one_takes = 5 'sees' | 3 'follows' | 2 'hears' | 1 'remembers'
many_take = 5 'see' | 3 'follow' | 2 'hear' | 1 'remember'
she = 3 'anna' | 2 'mary' | 1 'zoe'
he = 3 'ben' | 2 'tom' | 1 'viktor'
count = 6 'two' | 4 'three' | 2 'seven' | 1 'eleven' | 2 digit digit
digit = 1 '1' | 1 '2' | 1 '3' | 1 '4' | 1 '5' | 1 '6' | 1 '7' | 1 '8' | 1 '9'
brackets = 1 '(' inside ')' | 1 '[' inside ']' | 1 '{' inside '}'
inside = 4 'x' | 2 brackets | 1 brackets brackets
)";

// 'a + b = c' for all digits a and b: once both are read, the rest is certain.
inline std::string additions() {
  std::string line = "addition =";
  for (int a = 0; a < 10; ++a) {
    for (int b = 0; b < 10; ++b) {
      line += std::string(a + b == 0 ? "" : " |") + " 1 '" + std::to_string(a) + " + " + std::to_string(b) +
              " = " + std::to_string(a + b) + "'";
    }
  }
  return line + "\n";
}

}  // namespace detail

inline const Grammar& english() {
  static const Grammar grammar(std::string(detail::kEnglish) + detail::additions());
  return grammar;
}

}  // namespace tinytorch::inline TT_BUILD::grammar
