// TokenizerJsonReader: reads the byte-level BPE of a tokenizer.json (bpe_files.hpp) into a BpeModel.
#pragma once

#include <tinytorch/transformer/bpe_model_reader.hpp>

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
     R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"},
    {SplitPattern::qwen2,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {SplitPattern::o200k,
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

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
    read_normalizer(root);
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
  // NFC, alone or in a Sequence; an empty Sequence does nothing.
  void read_normalizer(const Json& root) {
    const Json* const found = root.find("normalizer");
    if (!found || found->is_null()) return;
    const std::string type = text(*found, "type");
    const Json::Array one{*found};
    for (const Json& part : type == "Sequence" ? list(*found, "normalizers") : one) {
      const std::string kind = text(part, "type");
      if (kind != "NFC")
        source_.reject("no 'normalizer', or NFC", "a normalizer of type " + io::in_quotes(kind), "TT-IO-04",
                       "set the normalizer to null in the file, and normalize texts before you encode them");
      reader_.model.nfc = true;
    }
  }

  void read_pattern(const Json& part) {
    require_type(part, "pre_tokenizer", {"ByteLevel", "Sequence"});
    if (text(part, "type") == "ByteLevel") {
      read_byte_level(part, true);
      return;
    }
    const Json::Array* parts = member(part, "pretokenizers").array();
    if (!parts || parts->size() != 2)
      source_.reject("a Split or Digits and a ByteLevel in the pre_tokenizer", "another sequence", "TT-IO-04",
                     kOnlyByteLevel);
    const Json& split = (*parts)[0];
    require_type(split, "first pre_tokenizer", {"Split", "Digits"});
    if (text(split, "type") == "Digits") {
      require_type((*parts)[1], "second pre_tokenizer", {"ByteLevel"});
      read_byte_level((*parts)[1], true);
      const bool each = flag(split, "individual_digits", false);
      reader_.model.pattern = each ? SplitPattern::digits : SplitPattern::digit_runs;
      return;
    }
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
    source_.reject("the pattern of GPT-2, cl100k, Qwen 2 or o200k", io::in_quotes(pattern), "TT-IO-04",
                   "pretokenize.hpp implements these patterns only");
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

}  // namespace bpe

}  // namespace tinytorch::inline TT_BUILD
