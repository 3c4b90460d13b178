// Vocabulary files of byte-level BPE: reads GPT-2's pair of files, reads and writes Hugging Face's
// tokenizer.json.
//
//   encoder.json    {"token": number, ...}             vocab.bpe   a line "left right" per merge, by rank
//   tokenizer.json  {"added_tokens": [...], "pre_tokenizer": {...}, "model": {"type": "BPE", "vocab": {...},
//                   "merges": ["left right" or ["left", "right"], ...]}, "post_processor": {...}, ...}
//
// A part of a tokenizer.json that would change the tokens and is not implemented throws TT-IO-04: normalizers
// (NFC), RoBERTa's post-processor, prefix spaces, other patterns. Every added token becomes a special token
// (SpecialPolicy in bpe.hpp), even if it is also an ordinary token of the vocabulary. The tokens that a
// TemplateProcessing puts around a text become BpeModel::before and after.
#pragma once

#include <set>
#include <tinytorch/transformer/bpe_model_reader.hpp>
#include <unordered_set>

namespace tinytorch::inline TT_BUILD {

namespace bpe {

// The known regular expressions of each pattern. The first one of a pattern is written to files.
struct KnownPattern {
  SplitPattern pattern;
  const char* text;
};
inline constexpr KnownPattern kKnownPatterns[] = {
    {SplitPattern::gpt2, R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {SplitPattern::gpt2, R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {SplitPattern::cl100k,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {SplitPattern::cl100k,
     R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"}};

inline constexpr const char* kOnlyByteLevel =
    "only byte-level BPE as in GPT-2 is read; other settings would give other tokens";

class TokenizerJsonReader {
 public:
  explicit TokenizerJsonReader(const io::Source& source) : source_(source), reader_(source, source) {}

  BpeModel run(const Json& root) {
    const Json& model = member(root, "model");
    if (!model.object()) {
      source_.reject("'model' as an object", model.kind(), "TT-IO-03",
                     "load_gpt2_tokenizer reads a vocab.json or encoder.json, with its merges");
    }
    require_none(root, {"truncation", "padding"});
    require_no_normalizer(root);
    if (model.find("type")) require_type(model, "model", {"BPE"});  // files of 2020 have none
    require_none(model, {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"});
    const Json* const decoder = root.find("decoder");
    if (decoder && !decoder->is_null()) require_type(*decoder, "decoder", {"ByteLevel"});
    read_pattern(member(root, "pre_tokenizer"));
    reader_.model.ignore_merges = flag(model, "ignore_merges", false);
    const Json::Array& merges = list(model, "merges");
    read_tokens(root, member(model, "vocab"), merges);
    for (size_t i = 0; i < merges.size(); ++i) read_merge(merges[i], i);
    const Json* const after = root.find("post_processor");
    if (after && !after->is_null()) read_post_processor(*after);
    return reader_.finish();
  }

 private:
  const Json& member(const Json& object, std::string_view key) const {
    const Json* found = object.find(key);
    if (!found)
      reject_damaged(source_, "the member '" + std::string(key) + "'",
                     object.object() ? "none" : object.kind());
    return *found;
  }
  bool flag(const Json& object, const char* key, bool otherwise) const {
    const Json* found = object.find(key);
    if (!found || found->is_null()) return otherwise;
    if (!found->boolean())
      reject_damaged(source_, std::string("'") + key + "' as true or false", found->kind());
    return *found->boolean();
  }
  std::string text(const Json& object, const char* key) const {
    const Json& found = member(object, key);
    if (!found.string()) reject_damaged(source_, std::string("'") + key + "' as a string", found.kind());
    return *found.string();
  }
  const Json::Array& list(const Json& object, std::string_view key) const {
    const Json& found = member(object, key);
    if (!found.array()) reject_damaged(source_, "'" + std::string(key) + "' as an array", found.kind());
    return *found.array();
  }
  // Each of these settings would change the tokens, so it must be absent, null, false or empty.
  void require_none(const Json& object, std::initializer_list<const char*> keys) const {
    for (const char* key : keys) {
      const Json* found = object.find(key);
      const bool is_off = !found || found->is_null() || (found->boolean() && !*found->boolean()) ||
                          (found->string() && found->string()->empty());
      if (!is_off) source_.reject(std::string("no '") + key + "'", found->kind(), "TT-IO-04", kOnlyByteLevel);
    }
  }
  void require_type(const Json& part, const char* what, std::initializer_list<std::string_view> known) const {
    const std::string type = text(part, "type");
    if (std::find(known.begin(), known.end(), type) != known.end()) return;
    std::string list;
    for (const std::string_view name : known) list += (list.empty() ? "" : " or ") + std::string(name);
    source_.reject(
        std::string(what) + " of type " + list, "type " + io::in_quotes(type), "TT-IO-04",
        "only byte-level BPE as in GPT-2 and Llama 3 is read; you can remove a post_processor from the file "
        "and add its tokens in your program");
  }
  // An empty Sequence does nothing. Any other normalizer would change the text before it is split.
  void require_no_normalizer(const Json& root) const {
    const Json* const found = root.find("normalizer");
    if (!found || found->is_null()) return;
    const std::string type = text(*found, "type");
    if (type == "Sequence" && list(*found, "normalizers").empty()) return;
    source_.reject("no 'normalizer'", "a normalizer of type " + io::in_quotes(type), "TT-IO-04",
                   "set the normalizer to null in the file, and normalize texts before you encode them");
  }

  void read_pattern(const Json& part) {
    require_type(part, "pre_tokenizer", {"ByteLevel", "Sequence"});
    if (text(part, "type") == "ByteLevel") {
      read_byte_level(part, true);
      return;
    }
    const Json::Array* parts = member(part, "pretokenizers").array();
    if (!parts || parts->size() != 2)
      source_.reject("a Split and a ByteLevel in the pre_tokenizer", "another sequence", "TT-IO-04",
                     kOnlyByteLevel);
    const Json& split = (*parts)[0];
    require_type(split, "first pre_tokenizer", {"Split"});
    require_type((*parts)[1], "second pre_tokenizer", {"ByteLevel"});
    read_byte_level((*parts)[1], false);
    // The patterns match every character, so "Isolated" and the inverted "Removed" give the same pieces.
    const std::string behavior = text(split, "behavior");
    const bool invert = flag(split, "invert", false);
    if (!(behavior == "Isolated" && !invert) && !(behavior == "Removed" && invert))
      source_.reject("a Split that keeps the matches", io::in_quotes(behavior), "TT-IO-04", kOnlyByteLevel);
    const std::string pattern = text(member(split, "pattern"), "Regex");
    for (const KnownPattern& known : kKnownPatterns) {
      if (pattern == known.text) {
        reader_.model.pattern = known.pattern;
        return;
      }
    }
    source_.reject("the pattern of GPT-2 or of cl100k", io::in_quotes(pattern), "TT-IO-04",
                   "pretokenize.hpp implements these two patterns only");
  }
  void read_byte_level(const Json& part, bool splits) const {
    if (flag(part, "add_prefix_space", true)) {
      source_.reject("'add_prefix_space': false", "true", "TT-IO-04",
                     "set it to false and add the space before the text in your program");
    }
    if (flag(part, "use_regex", true) != splits)
      source_.reject(splits ? "'use_regex': true without a Split" : "'use_regex': false after a Split",
                     splits ? "false" : "true", "TT-IO-04", kOnlyByteLevel);
  }

  void read_tokens(const Json& root, const Json& vocab, const Json::Array& merges) {
    if (!vocab.object()) reject_damaged(source_, "'vocab' as an object", vocab.kind());
    std::unordered_map<std::string, const Json*> added;
    const Json* list = root.find("added_tokens");
    if (list && !list->is_null()) {
      if (!list->array()) reject_damaged(source_, "'added_tokens' as an array", list->kind());
      for (const Json& token : *list->array()) {
        require_none(token, {"single_word", "lstrip", "rstrip"});
        if (!added.emplace(text(token, "content"), &member(token, "id")).second)
          reject_damaged(source_, "each added token once", io::in_quotes(text(token, "content")) + " twice");
      }
    }
    for (const auto& [name, number] : *vocab.object()) {
      const auto special = added.find(name);
      const bool ordinary = special == added.end() || is_ordinary(name, merges);
      if (special != added.end() && special->second->integer() != number.integer())
        reject_damaged(source_, "the same number in 'vocab' and 'added_tokens'",
                       "two for " + io::in_quotes(name));
      if (ordinary) reader_.add(name, number);
    }
    for (const auto& [name, number] : added) reader_.add_special(name, *number);
  }
  // True if an added token that the vocabulary contains is also an ordinary token of it. The vocabulary holds
  // spellings: ASCII text is its own spelling, other text has a different one.
  bool is_ordinary(const std::string& name, const Json::Array& merges) const {
    if (spelled(name) == name) return true;
    const std::optional<std::string> bytes = unspelled(name);
    const auto makes_it = [&](const Json& merge) { return made_by(merge) == name; };
    if (!bytes || (bytes->size() > 1 && std::ranges::none_of(merges, makes_it))) return false;
    source_.reject("added tokens whose text is not how the vocabulary spells other bytes",
                   io::in_quotes(name) + ", which spells the bytes " + io::in_quotes(*bytes), "TT-IO-04",
                   "take it out of 'added_tokens'; the token stays in the vocabulary");
  }

  void read_merge(const Json& merge, size_t rank) {
    const Json::Array* pair = merge.array();
    if (merge.string()) {
      reader_.add_merge(*merge.string(), "merge", rank);
    } else if (pair && pair->size() == 2 && (*pair)[0].string() && (*pair)[1].string()) {
      reader_.add_merge(*(*pair)[0].string(), *(*pair)[1].string(), "merge", rank);
    } else {
      reject_damaged(source_, "merges as \"left right\" or [\"left\", \"right\"]",
                     merge.kind() + std::string(" as merge ") + std::to_string(rank));
    }
  }

  // A ByteLevel post-processor changes only offsets, which this library does not report.
  void read_post_processor(const Json& part) {
    require_type(part, "post_processor", {"ByteLevel", "TemplateProcessing", "Sequence"});
    const std::string type = text(part, "type");
    if (type == "TemplateProcessing") read_template(part);
    if (type != "Sequence") return;
    for (const Json& inner : list(part, "processors")) {
      require_type(inner, "post_processor", {"ByteLevel", "TemplateProcessing"});
      if (text(inner, "type") == "TemplateProcessing") read_template(inner);
    }
  }
  // "single": [{"SpecialToken": {"id": name}} or {"Sequence": {"id": "A"}}, ...]; "special_tokens" maps each
  // name to its token numbers. The tokens of a second template are put around those of the first.
  void read_template(const Json& part) {
    Tokens before, after;
    int texts = 0;
    for (const Json& piece : list(part, "single")) {
      if (const Json* sequence = piece.find("Sequence")) {
        if (text(*sequence, "id") != "A" || ++texts > 1)
          reject_damaged(source_, "a template of one text, A", "another 'single'");
        continue;
      }
      const std::string name = text(member(piece, "SpecialToken"), "id");
      for (const Json& number : list(member(member(part, "special_tokens"), name), "ids")) {
        const int64_t token = number.integer().value_or(-1);
        if (token < 0 || token >= kVocabularyLimit)
          reject_damaged(source_, "the number of an added token",
                         number.kind() + (" for " + io::in_quotes(name)));
        (texts == 0 ? before : after).push_back(static_cast<int32_t>(token));
      }
    }
    if (texts == 0) reject_damaged(source_, "a template of one text, A", "none in 'single'");
    BpeModel& model = reader_.model;
    model.before.insert(model.before.begin(), before.begin(), before.end());
    model.after.insert(model.after.end(), after.begin(), after.end());
  }

  const io::Source& source_;
  ModelReader reader_;
};

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

// A token that is neither a byte nor the result of a merge is special: in GPT-2, <|endoftext|>. A special
// token never begins with a space, so such a token that does is a word whose merge is missing, and throws.
inline BpeModel parse_gpt2(Bytes encoder, Bytes merges, const std::string& encoder_name = "encoder.json",
                           const std::string& merges_name = "vocab.bpe", TT_LOC) {
  const io::Source source{encoder_name, "a GPT-2 vocabulary", loc}, list{merges_name, "GPT-2 merges", loc};
  const Json tree = parse_json(encoder, source);
  if (!tree.object()) bpe::reject_damaged(source, "an object of tokens and numbers", tree.kind());
  bpe::ModelReader reader(source, list);
  for (const auto& [name, number] : *tree.object()) reader.add(name, number);
  const std::vector<std::string> lines = split_lines(parse_text(merges, merges_name, loc));
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i == 0 && lines[i].starts_with("#version")) continue;
    reader.add_merge(lines[i], "line", i + 1);
  }
  BpeModel& model = reader.model;
  std::unordered_set<std::string> made;
  for (const auto& [left, right] : model.merges)
    made.insert(model.tokens[static_cast<size_t>(left)] + model.tokens[static_cast<size_t>(right)]);
  for (size_t i = 0; i < model.tokens.size(); ++i) {
    const std::string& token = model.tokens[i];
    if (token.size() < 2 || made.contains(token)) continue;
    if (token[0] == ' ')
      bpe::reject_damaged(list, "merges for all tokens but special ones", "none for " + io::in_quotes(token));
    model.specials[token] = static_cast<int32_t>(i);
  }
  return reader.finish();
}
inline BpeTokenizer load_gpt2_tokenizer(const std::string& encoder_path, const std::string& merges_path,
                                        TT_LOC) {
  return BpeTokenizer(
      parse_gpt2(read_file(encoder_path, JsonLimits{}.bytes, loc),
                 read_file(merges_path, JsonLimits{}.bytes, loc), encoder_path, merges_path, loc),
      loc);
}
[[deprecated("load_gpt2(encoder, merges) is now load_gpt2_tokenizer")]] inline BpeTokenizer load_gpt2(
    const std::string& encoder_path, const std::string& merges_path, TT_LOC) {
  return load_gpt2_tokenizer(encoder_path, merges_path, loc);
}

inline BpeModel parse_tokenizer_json(Bytes bytes, const std::string& name = "tokenizer.json", TT_LOC) {
  const io::Source source{name, "tokenizer.json", loc};
  return bpe::TokenizerJsonReader(source).run(parse_json(bytes, source));
}
inline BpeTokenizer load_tokenizer_json(const std::string& path, TT_LOC) {
  return BpeTokenizer(parse_tokenizer_json(read_file(path, JsonLimits{}.bytes, loc), path, loc), loc);
}

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
  const std::string pre_tokenizer =
      model.pattern == SplitPattern::gpt2
          ? byte_level(true)
          : "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":" +
                to_json_string(split) + "},\"behavior\":\"Isolated\",\"invert\":false}," + byte_level(false) +
                "]}";
  return "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\n\"added_tokens\":[" + added +
         "],\n\"normalizer\":null,\n\"pre_tokenizer\":" + pre_tokenizer +
         ",\n\"post_processor\":" + bpe::template_json(model) + ",\n\"decoder\":" + byte_level(true) +
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
