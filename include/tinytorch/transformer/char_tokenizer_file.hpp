// The file format of a CharTokenizer:
//
//   {"format": "tinytorch-char-tokenizer-1", "unit": "code_point" or "byte", "codes": [10, 32, ...]}
#pragma once

#include <tinytorch/io/json.hpp>
#include <tinytorch/transformer/char_tokenizer.hpp>

namespace tinytorch::inline TT_BUILD {

inline constexpr const char* kCharTokenizerFormat = "tinytorch-char-tokenizer-1";

inline std::string to_json(const CharTokenizer& tokenizer) {
  std::string codes;
  for (const uint32_t code : tokenizer.codes()) codes += (codes.empty() ? "" : ",") + std::to_string(code);
  return std::string("{\"format\":\"") + kCharTokenizerFormat + "\",\"unit\":\"" +
         (tokenizer.unit() == CharUnit::byte ? "byte" : "code_point") + "\",\"codes\":[" + codes + "]}\n";
}

inline CharTokenizer parse_char_tokenizer(Bytes bytes, const std::string& name = "character tokenizer",
                                          TT_LOC) {
  const io::Source source{name, "a character tokenizer", loc};
  const Json tree = parse_json(bytes, source);
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
// The old file is kept until the new one is complete.
inline void save_char_tokenizer(const std::string& path, const CharTokenizer& tokenizer, TT_LOC) {
  write_file(path, to_json(tokenizer), loc);
}

}  // namespace tinytorch::inline TT_BUILD
