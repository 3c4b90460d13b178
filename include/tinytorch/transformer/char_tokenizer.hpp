// CharTokenizer: one token per character, the smallest vocabulary for a given text.
//
//   const CharTokenizer tokenizer = CharTokenizer::from_text(text);    // Tiny Shakespeare: 65 tokens
//   const CharTokenizer bytes = CharTokenizer::from_text(text, CharUnit::byte);
//
// Tokens are numbered by ascending code, so the same set of characters gives the same numbers. With code
// points, an invalid byte is a character of its own (unicode.hpp), so decode returns exactly the bytes of the
// text.
#pragma once

#include <algorithm>
#include <tinytorch/io/text.hpp>
#include <tinytorch/transformer/tokenizer.hpp>
#include <tinytorch/transformer/unicode.hpp>
#include <unordered_set>

namespace tinytorch::inline TT_BUILD {

enum class CharUnit : uint8_t { code_point, byte };

class CharTokenizer final : public Tokenizer {
 public:
  // A tokenizer of all distinct characters of a text. for_each_unit gives their codes.
  static CharTokenizer from_text(std::string_view text, CharUnit unit = CharUnit::code_point) {
    std::unordered_set<uint32_t> seen;
    for_each_unit(text, unit, [&](unicode::Unit u) { seen.insert(u.code); });
    return CharTokenizer({seen.begin(), seen.end()}, unit);
  }
  // Codes as in unicode::Unit, in any order; duplicates are removed.
  CharTokenizer(std::vector<uint32_t> codes, CharUnit unit) : codes_(std::move(codes)), unit_(unit) {
    std::sort(codes_.begin(), codes_.end());
    codes_.erase(std::unique(codes_.begin(), codes_.end()), codes_.end());
  }

  // The token of a character is the index of its code in the sorted codes_. A character without a token
  // throws: fail_unknown(its bytes, its code, the position of its first byte in the text, loc).
  Tokens encode(std::string_view text, TT_LOC) const override {
    Tokens out;
    out.reserve(text.size());
    size_t at = 0;
    for_each_unit(text, unit_, [&](unicode::Unit u) {
      const auto found = std::lower_bound(codes_.begin(), codes_.end(), u.code);
      if (found == codes_.end() || *found != u.code) fail_unknown(text.substr(at, u.length), u.code, at, loc);
      out.push_back(static_cast<int32_t>(found - codes_.begin()));
      at += u.length;
    });
    return out;
  }

  // The concatenated bytes of the characters. A code is the value of a byte if the unit is a byte;
  // kInvalidByte plus the value of a byte for a byte outside UTF-8; else a code point, for append_utf8(out,
  // code). A number outside [0, vocabulary()) throws: fail_unknown_token("CharTokenizer", number, its
  // position, vocabulary(), loc).
  std::string decode(std::span<const int32_t> tokens, TT_LOC) const override {
    std::string out;
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i] < 0 || tokens[i] >= vocabulary())
        fail_unknown_token("CharTokenizer", tokens[i], i, vocabulary(), loc);
      const uint32_t code = codes_[static_cast<size_t>(tokens[i])];
      if (unit_ == CharUnit::byte || code >= unicode::kInvalidByte) {
        out += static_cast<char>(code & 0xff);
      } else {
        append_utf8(out, code);
      }
    }
    return out;
  }

  int64_t vocabulary() const override { return static_cast<int64_t>(codes_.size()); }
  const std::vector<uint32_t>& codes() const { return codes_; }
  CharUnit unit() const { return unit_; }
  friend bool operator==(const CharTokenizer& a, const CharTokenizer& b) {
    return a.codes_ == b.codes_ && a.unit_ == b.unit_;
  }

 private:
  // Calls f(unicode::Unit) with the code and the length in bytes of every character, in order.
  template <class F>
  static void for_each_unit(std::string_view text, CharUnit unit, F&& f) {
    for (size_t at = 0; at < text.size();) {
      const unicode::Unit u = unit == CharUnit::byte ? unicode::Unit{static_cast<unsigned char>(text[at]), 1}
                                                     : unicode::unit_at(text, at);
      f(u);
      at += u.length;
    }
  }
  [[noreturn]] void fail_unknown(std::string_view character, uint32_t code, size_t at, Loc loc) const {
    constexpr char kHex[] = "0123456789ABCDEF";
    std::string shown;
    for (int shift = code > 0xfffff ? 20 : code > 0xffff ? 16 : 12; shift >= 0; shift -= 4)
      shown += kHex[(code >> shift) & 15];
    const bool is_byte = unit_ == CharUnit::byte || code >= unicode::kInvalidByte;
    fail(
        "TT-TEXT-01",
        "CharTokenizer: " + io::in_quotes(character) + (is_byte ? ", a byte," : ", U+" + shown + ",") +
            " at byte " + std::to_string(at) + " is not among the " + std::to_string(codes_.size()) +
            " characters of the vocabulary\n  hint: build the tokenizer from a text that contains it, or use "
            "BpeTokenizer, which has tokens for all bytes",
        loc);
  }

  std::vector<uint32_t> codes_;  // by token, ascending
  CharUnit unit_;
};

}  // namespace tinytorch::inline TT_BUILD
