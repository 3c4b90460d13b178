// CharTokenizer: one token per character, the smallest vocabulary that a text allows.
//
//   const CharTokenizer tokenizer = CharTokenizer::from_text(text);                  // 65 tokens for Tiny
//   Shakespeare const CharTokenizer bytes = CharTokenizer::from_text(text, CharUnit::byte);
//
// Tokens are numbered in the order of their codes, so the same set of characters gives the same numbers. As
// code points, an invalid byte counts as a character of its own (unicode.hpp): what was in the text comes
// back exactly.
#pragma once

#include <tinytorch/io/json.hpp>
#include <tinytorch/transformer/tokenizer.hpp>
#include <tinytorch/transformer/unicode.hpp>
#include <unordered_set>

namespace tinytorch::inline TT_BUILD {

enum class CharUnit : uint8_t { code_point, byte };

inline constexpr const char* kCharTokenizerFormat = "tinytorch-char-tokenizer-1";

class CharTokenizer final : public Tokenizer {
 public:
  // The characters of a text.
  static CharTokenizer from_text(std::string_view text, CharUnit unit = CharUnit::code_point) {
    std::unordered_set<uint32_t> seen;
    for_each_unit(text, unit, [&](unicode::Unit u) { seen.insert(u.code); });
    return CharTokenizer({seen.begin(), seen.end()}, unit);
  }
  // Codes as in unicode::Unit, in any order.
  CharTokenizer(std::vector<uint32_t> codes, CharUnit unit) : codes_(std::move(codes)), unit_(unit) {
    std::sort(codes_.begin(), codes_.end());
    codes_.erase(std::unique(codes_.begin(), codes_.end()), codes_.end());
  }

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
    fail("TT-TEXT-01",
         "CharTokenizer: " + io::in_quotes(character) + (is_byte ? ", a byte," : ", U+" + shown + ",") +
             " at byte " + std::to_string(at) + " is not among the " + std::to_string(codes_.size()) +
             " characters of the vocabulary\n  hint: build the tokenizer from a text that has it, or take "
             "BpeTokenizer, which has tokens for all bytes",
         loc);
  }

  std::vector<uint32_t> codes_;  // by token, ascending
  CharUnit unit_;
};

// The file: {"format": "tinytorch-char-tokenizer-1", "unit": "code_point" or "byte", "codes": [10, 32, ...]}
inline std::string to_json(const CharTokenizer& tokenizer) {
  std::string codes;
  for (const uint32_t code : tokenizer.codes()) codes += (codes.empty() ? "" : ",") + std::to_string(code);
  return std::string("{\"format\":\"") + kCharTokenizerFormat + "\",\"unit\":\"" +
         (tokenizer.unit() == CharUnit::byte ? "byte" : "code_point") + "\",\"codes\":[" + codes + "]}\n";
}

inline CharTokenizer parse_char_tokenizer(Bytes bytes, const std::string& name = "character tokenizer",
                                          TT_LOC) {
  const io::Source source{name, "a character tokenizer", loc};
  const Json tree = io::JsonParser(as_text(bytes), source, JsonLimits{}).run();
  const auto text_at = [&](const char* key) {
    const Json* found = tree.find(key);
    return found && found->string() ? *found->string() : std::string();
  };
  if (text_at("format") != kCharTokenizerFormat) {
    source.reject(std::string("\"format\": \"") + kCharTokenizerFormat + "\"",
                  io::in_quotes(text_at("format")), "TT-IO-03", "save it with save_char_tokenizer");
  }
  const std::string unit = text_at("unit");
  if (unit != "byte" && unit != "code_point")
    source.reject("\"unit\": \"byte\" or \"code_point\"", io::in_quotes(unit));
  const Json* list = tree.find("codes");
  if (!list || !list->array()) source.reject("\"codes\" as an array", list ? list->kind() : "none");
  const int64_t limit = unit == "byte" ? 256 : unicode::kInvalidByte + 256;
  std::vector<uint32_t> codes;
  for (const Json& item : *list->array()) {
    const int64_t code = item.integer().value_or(-1);
    const bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
    if (code < 0 || code >= limit || is_surrogate || (!codes.empty() && code <= codes.back())) {
      source.reject("ascending codes from 0 to " + std::to_string(limit - 1) + ", no surrogates",
                    (item.integer() ? std::to_string(code) : item.kind()) + " at position " +
                        std::to_string(codes.size()));
    }
    codes.push_back(static_cast<uint32_t>(code));
  }
  return CharTokenizer(std::move(codes), unit == "byte" ? CharUnit::byte : CharUnit::code_point);
}

inline CharTokenizer load_char_tokenizer(const std::string& path, TT_LOC) {
  return parse_char_tokenizer(read_file(path, JsonLimits{}.bytes, loc), path, loc);
}
// The old file stays whole until the new one is complete.
inline void save_char_tokenizer(const std::string& path, const CharTokenizer& tokenizer, TT_LOC) {
  write_file(path, to_json(tokenizer), loc);
}

}  // namespace tinytorch::inline TT_BUILD
