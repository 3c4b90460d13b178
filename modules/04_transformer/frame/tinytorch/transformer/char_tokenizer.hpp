// CharTokenizer: one token per character, the smallest vocabulary for a given text.
//
// The frame of a course header: it has the given parts, and includes the functions of task 4.1. It is cut
// from the library's header by modules/frames.py.
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
  static CharTokenizer from_text(std::string_view text, CharUnit unit = CharUnit::code_point);  // task 4.1
  // Codes as in unicode::Unit, in any order; duplicates are removed.
  CharTokenizer(std::vector<uint32_t> codes, CharUnit unit) : codes_(std::move(codes)), unit_(unit) {
    std::sort(codes_.begin(), codes_.end());
    codes_.erase(std::unique(codes_.begin(), codes_.end()), codes_.end());
  }

  inline Tokens encode(std::string_view text, TT_LOC) const override;                 // task 4.1
  inline std::string decode(std::span<const int32_t> tokens, TT_LOC) const override;  // task 4.1

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

#include <tasks/transformer/char_tokenizer.hpp>
