// Splits text into the pieces inside which byte pair encoding merges, by one of the common patterns:
//
//   gpt2    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   cl100k  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*
//           |\s*[\r\n]+|\s+(?!\S)|\s+
//   qwen2   cl100k with \p{N} in the place of \p{N}{1,3}
//   o200k   cl100k with words split where lower case becomes upper case, for its first two parts:
//             X?U*L+C?|X?U+L*C?   X [^\r\n\p{L}\p{N}]   U [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
//             L [\p{Ll}\p{Lm}\p{Lo}\p{M}]   C (?i:'s|'t|'re|'ve|'m|'ll|'d);   [\r\n/]* after symbols
//   digits  gpt2 between digits (\p{N}), each of which is a piece;  digit_runs: each run of which is a piece
//
// The matcher is written by hand, because std::regex has no Unicode classes; the first characters select the
// alternative, so the time is linear. Pieces are views that cover the text without gaps. An invalid byte is
// in the class of symbols, neither space nor letter nor number. Sources: openai/gpt-2 encoder.py;
// openai/tiktoken openai_public.py.
#pragma once

#include <tinytorch/transformer/unicode.hpp>
#include <tinytorch/transformer/unicode_case.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

enum class SplitPattern : uint8_t { gpt2, cl100k, qwen2, o200k, digits, digit_runs };

namespace pretokenizer {

class Splitter {
 public:
  Splitter(std::string_view text, SplitPattern pattern) : text_(text), pattern_(pattern) {}

  // The end of the piece that begins at `at`, a position inside the text.
  size_t end_of_piece(size_t at) const {
    switch (pattern_) {
      case SplitPattern::gpt2:
        return end_by_gpt2(at);
      case SplitPattern::digits:
      case SplitPattern::digit_runs:
        return end_by_digits(at);
      case SplitPattern::o200k:
        if (const size_t end = end_of_cased_word(at); end > at) return end;
        return end_by_cl100k(at);
      default:
        return end_by_cl100k(at);
    }
  }

 private:
  size_t end_by_gpt2(size_t at) const {
    if (const size_t length = contraction(at)) return at + length;
    const size_t body = after_one_space(at);
    const CharClass kind = class_at(body);
    return kind == CharClass::space ? end_of_space(at) : end_of_run(body, kind);
  }

  // GPT-2's pattern sees the text between two digits alone.
  size_t end_by_digits(size_t at) const {
    if (class_at(at) == CharClass::number)
      return pattern_ == SplitPattern::digits ? at + unicode::unit_at(text_, at).length
                                              : end_of_run(at, CharClass::number);
    if (at >= digit_) {  // the next digit from here on
      digit_ = at;
      while (digit_ < text_.size() && class_at(digit_) != CharClass::number)
        digit_ += unicode::unit_at(text_, digit_).length;
    }
    return Splitter(text_.substr(0, digit_), SplitPattern::gpt2).end_of_piece(at);
  }

  // X?U*L+C?|X?U+L*C? of o200k; `at` if it does not match.
  size_t end_of_cased_word(size_t at) const {
    const unicode::Unit first = unicode::unit_at(text_, at);
    const CharClass kind = unicode::class_of(first.code);
    const bool prefix = kind != CharClass::letter && kind != CharClass::number && !is_line_end(at);
    const size_t after = at + first.length;
    for (const bool ends_lower : {true, false}) {
      for (const size_t word : {after, at}) {
        if (word == after && (!prefix || after == text_.size())) continue;
        const size_t end = ends_lower ? end_of_lower_word(word) : end_of_upper_word(word);
        if (end > word) return end + (end < text_.size() ? contraction(end) : 0);
      }
    }
    return at;
  }
  // U+L*, where no L follows: the longest run of U.
  size_t end_of_upper_word(size_t at) const {
    while (at < text_.size()) {
      const unicode::Unit unit = unicode::unit_at(text_, at);
      const LetterCase c = unicode::case_of(unit.code);
      if (c != LetterCase::upper && c != LetterCase::both) break;
      at += unit.length;
    }
    return at;
  }
  // U*L+: the longest run of U, then that of L. If no L follows the first, it ends after its last character
  // that is both.
  size_t end_of_lower_word(size_t at) const {
    size_t last_both = at, end = at;
    while (end < text_.size()) {
      const unicode::Unit unit = unicode::unit_at(text_, end);
      const LetterCase c = unicode::case_of(unit.code);
      if (c != LetterCase::upper && c != LetterCase::both) break;
      end += unit.length;
      if (c == LetterCase::both) last_both = end;
    }
    const size_t run = end;
    while (end < text_.size()) {
      const unicode::Unit unit = unicode::unit_at(text_, end);
      const LetterCase c = unicode::case_of(unit.code);
      if (c != LetterCase::lower && c != LetterCase::both) break;
      end += unit.length;
    }
    return end > run ? end : last_both;
  }

  size_t end_by_cl100k(size_t at) const {
    if (const size_t length = pattern_ == SplitPattern::o200k ? 0 : contraction(at)) return at + length;
    const unicode::Unit first = unicode::unit_at(text_, at);
    const CharClass kind = unicode::class_of(first.code);
    if (kind == CharClass::letter) return end_of_run(at, kind);
    if (kind == CharClass::number)
      return pattern_ == SplitPattern::qwen2 ? at + first.length : end_of_three_numbers(at);
    const size_t second = at + first.length;
    // A single character other than a line end belongs to the letters that follow it.
    if (!is_line_end(at) && second < text_.size() && class_at(second) == CharClass::letter)
      return end_of_run(second, CharClass::letter);
    const size_t body = after_one_space(at);
    if (class_at(body) == CharClass::other) {
      size_t end = end_of_run(body, CharClass::other);
      const bool slashes = pattern_ == SplitPattern::o200k;
      while (end < text_.size() && (is_line_end(end) || (slashes && text_[end] == '/'))) ++end;
      return end;
    }
    const size_t line_end = end_of_last_line_end(at);
    return line_end > at ? line_end : end_of_space(at);
  }

  CharClass class_at(size_t at) const { return unicode::class_of(unicode::unit_at(text_, at).code); }
  bool is_line_end(size_t at) const { return text_[at] == '\n' || text_[at] == '\r'; }

  // The position after a space that is followed by text, else `at`.
  size_t after_one_space(size_t at) const { return text_[at] == ' ' && at + 1 < text_.size() ? at + 1 : at; }

  size_t end_of_run(size_t at, CharClass kind) const {
    while (at < text_.size()) {
      const unicode::Unit unit = unicode::unit_at(text_, at);
      if (unicode::class_of(unit.code) != kind) break;
      at += unit.length;
    }
    return at;
  }

  size_t end_of_three_numbers(size_t at) const {
    for (int i = 0; i < 3 && at < text_.size(); ++i) {
      const unicode::Unit unit = unicode::unit_at(text_, at);
      if (unicode::class_of(unit.code) != CharClass::number) break;
      at += unit.length;
    }
    return at;
  }

  // \s+(?!\S)|\s+: white space without its last character if text follows, because that character belongs to
  // the text.
  size_t end_of_space(size_t at) const {
    size_t end = at, last = at;
    while (end < text_.size()) {
      const unicode::Unit unit = unicode::unit_at(text_, end);
      if (unicode::class_of(unit.code) != CharClass::space) break;
      last = end;
      end += unit.length;
    }
    return end == text_.size() || last == at ? end : last;
  }

  // \s*[\r\n]+: white space up to its last line end. Returns `at` if there is no line end.
  size_t end_of_last_line_end(size_t at) const {
    size_t end = at;
    while (at < text_.size()) {
      const unicode::Unit unit = unicode::unit_at(text_, at);
      if (unicode::class_of(unit.code) != CharClass::space) break;
      at += unit.length;
      if (unit.code == '\n' || unit.code == '\r') end = at;
    }
    return end;
  }

  // The length in bytes of a contraction ('s 't 'm 'd 're 've 'll) at `at`, or 0. cl100k ignores case.
  size_t contraction(size_t at) const {
    if (text_[at] != '\'') return 0;
    const bool folds = pattern_ != SplitPattern::gpt2;
    const auto letter = [&](size_t i) -> char {
      const char c = at + i < text_.size() ? text_[at + i] : '\0';
      return folds && c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
    };
    const char first = letter(1), second = letter(2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
    if ((first == 'r' || first == 'v') && second == 'e') return 3;
    if (first == 'l' && second == 'l') return 3;
    // If case is ignored, U+017F (long s) counts as s.
    return folds && text_.substr(at + 1, 2) == "\xc5\xbf" ? 3 : 0;
  }

  std::string_view text_;
  SplitPattern pattern_;
  mutable size_t digit_ = 0;  // of end_by_digits: the first digit after the pieces so far, or the text's end
};

}  // namespace pretokenizer

// Calls f(std::string_view) with every piece, in order.
template <class F>
void for_each_piece(std::string_view text, SplitPattern pattern, F&& f) {
  const pretokenizer::Splitter splitter(text, pattern);
  for (size_t at = 0; at < text.size();) {
    const size_t end = splitter.end_of_piece(at);
    f(text.substr(at, end - at));
    at = end;
  }
}

// The pieces of `text`, as views of it.
inline std::vector<std::string_view> pretokenize(std::string_view text, SplitPattern pattern) {
  std::vector<std::string_view> pieces;
  for_each_piece(text, pattern, [&](std::string_view piece) { pieces.push_back(piece); });
  return pieces;
}

}  // namespace tinytorch::inline TT_BUILD
