// Writes a BpeModel as tokenizer.json (bpe_files.hpp).
#pragma once

#include <set>
#include <tinytorch/transformer/tokenizer_json_reader.hpp>
#include <unordered_set>

namespace tinytorch::inline TT_BUILD {

namespace bpe {

// The vocabulary lists special tokens too, so that Hugging Face's `tokenizers` gives them the same numbers.
inline std::string vocabulary_json(const BpeModel& model, Loc loc) {
  std::string out;
  std::unordered_set<std::string> ordinary;
  for (const auto& [left, right] : model.merges) {
    const std::string &a = model.tokens[static_cast<size_t>(left)],
                      &b = model.tokens[static_cast<size_t>(right)];
    ordinary.insert({a, b, a + b});
  }
  const auto require = [&](bool holds, const std::string& text, const char* problem) {
    if (holds) return;
    fail("TT-IO-02",
         "to_tokenizer_json: the special token " + io::in_quotes(text) + problem +
             "\n  hint: choose another text for it",
         loc);
  };
  constexpr const char* kSpellsAnother = " is also how the file spells another token";
  std::unordered_map<std::string, int32_t> numbers;
  for (size_t i = 0; i < model.tokens.size(); ++i) {
    const std::string& bytes = model.tokens[i];
    if (bytes.empty()) continue;
    const bool is_special = bytes.size() > 1 && model.specials.contains(bytes) && !ordinary.contains(bytes);
    const std::string name = is_special ? bytes : spelled(bytes);
    require(numbers.emplace(name, static_cast<int32_t>(i)).second, name, kSpellsAnother);
    out += (out.empty() ? "" : ",") + to_json_string(name) + ":" + std::to_string(i);
  }
  for (const auto& [text, number] : model.specials) {
    require(find_invalid_utf8(text) == text.size(), text, " is not UTF-8");
    const auto found = numbers.find(text);
    require(found == numbers.end() || found->second == number, text, kSpellsAnother);
  }
  return "{" + out + "}";
}

// The post_processor that puts model.before and model.after around a text, and around both texts of a pair.
inline std::string template_json(const BpeModel& model) {
  if (model.before.empty() && model.after.empty()) return "null";
  const auto text_of = [&](int32_t token) {
    return to_json_string(model.tokens[static_cast<size_t>(token)]);
  };
  const auto around = [&](const char* sequence, const std::string& type) {
    std::string out;
    for (const int32_t token : model.before)
      out += "{\"SpecialToken\":{\"id\":" + text_of(token) + ",\"type_id\":" + type + "}},";
    out += std::string("{\"Sequence\":{\"id\":\"") + sequence + "\",\"type_id\":" + type + "}}";
    for (const int32_t token : model.after)
      out += ",{\"SpecialToken\":{\"id\":" + text_of(token) + ",\"type_id\":" + type + "}}";
    return out;
  };
  std::string numbers;
  std::set<int32_t> used(model.before.begin(), model.before.end());
  used.insert(model.after.begin(), model.after.end());
  for (const int32_t token : used) {
    const std::string text = text_of(token);
    numbers += (numbers.empty() ? "" : ",") + text + ":{\"id\":" + text + ",\"ids\":[" +
               std::to_string(token) + "],\"tokens\":[" + text + "]}";
  }
  return "{\"type\":\"TemplateProcessing\",\"single\":[" + around("A", "0") + "],\"pair\":[" +
         around("A", "0") + "," + around("B", "1") + "],\"special_tokens\":{" + numbers + "}}";
}

}  // namespace bpe

// The text of a tokenizer.json, which Hugging Face's tokenizers and transformers load. parse_tokenizer_json
// returns an equal model.
inline std::string to_tokenizer_json(const BpeModel& model, TT_LOC) {
  std::string added, merges, split;
  std::map<int32_t, std::string> by_number;
  for (const auto& [text, token] : model.specials) by_number[token] = text;
  for (const auto& [token, text] : by_number) {
    added +=
        std::string(added.empty() ? "" : ",") + "\n  {\"id\":" + std::to_string(token) +
        ",\"content\":" + to_json_string(text) +
        ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true}";
  }
  const auto name = [&](int32_t token) {
    return to_json_string(bpe::spelled(model.tokens[static_cast<size_t>(token)]));
  };
  for (const BpeMerge& m : model.merges)
    merges += (merges.empty() ? "\n[" : ",\n[") + name(m.left) + "," + name(m.right) + "]";
  const auto byte_level = [](bool splits) {
    return std::string(
               "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":") +
           (splits ? "true}" : "false}");
  };
  for (const bpe::KnownPattern& known : bpe::kKnownPatterns) {
    if (known.pattern == model.pattern && split.empty()) split = known.text;
  }
  const auto digits = [&](const char* each) {
    return std::string(
               "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":") +
           each + "}," + byte_level(true) + "]}";
  };
  const std::string pre_tokenizer =
      model.pattern == SplitPattern::gpt2     ? byte_level(true)
      : model.pattern == SplitPattern::digits ? digits("true")
      : model.pattern == SplitPattern::digit_runs
          ? digits("false")
          : "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":" +
                to_json_string(split) + "},\"behavior\":\"Isolated\",\"invert\":false}," + byte_level(false) +
                "]}";
  return "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\n\"added_tokens\":[" + added +
         "],\n\"normalizer\":" + (model.nfc ? "{\"type\":\"NFC\"}" : "null") +
         ",\n\"pre_tokenizer\":" + pre_tokenizer + ",\n\"post_processor\":" + bpe::template_json(model) +
         ",\n\"decoder\":" + byte_level(true) +
         ",\n\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,\"continuing_subword_prefix\":"
         "null,"
         "\"end_of_word_suffix\":null,\"fuse_unk\":false,\"byte_fallback\":false,\"ignore_merges\":" +
         (model.ignore_merges ? "true" : "false") + ",\n\"vocab\":" + bpe::vocabulary_json(model, loc) +
         ",\n\"merges\":[" + merges + "]}}\n";
}
// The old file is kept until the new one is complete.
inline void save_tokenizer_json(const std::string& path, const BpeModel& model, TT_LOC) {
  write_file(path, to_tokenizer_json(model, loc), loc);
}

}  // namespace tinytorch::inline TT_BUILD
