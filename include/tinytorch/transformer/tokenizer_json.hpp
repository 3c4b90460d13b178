// load_tokenizer: the tokenizer of a tokenizer.json, whichever of the two kinds of BPE it has.
//
//   byte-level     a BpeTokenizer (bpe_files.hpp): GPT-2, Llama 3, Qwen 2 and 3, GPT-4o
//   SentencePiece  a SentencePieceBpe (sentencepiece.hpp): Llama 2, Mistral, Gemma
//
// A SentencePiece file says how spaces become U+2581 in one of these forms; another throws TT-IO-04:
//   normalizer Prepend "_" and Replace " " by "_" (Llama 2), or Replace alone (Gemma, whose pre_tokenizer,
//   Split " ", then finds no space); or pre_tokenizer Metaspace with its prepend_scheme and split
#pragma once

#include <memory>
#include <tinytorch/transformer/bpe_files.hpp>
#include <tinytorch/transformer/sentencepiece.hpp>

namespace tinytorch::inline TT_BUILD {

namespace bpe {

class SentencePieceReader {
 public:
  explicit SentencePieceReader(const io::Source& source) : source_(source) {}

  SentencePieceModel run(const Json& root) {
    read_spaces(root);
    const Json& model = member(root, "model");
    out_.byte_fallback = flag(model, "byte_fallback"), out_.fuse_unknown = flag(model, "fuse_unk");
    out_.ignore_merges = flag(model, "ignore_merges");
    for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"})
      if (const Json* found = model.find(key); found && !found->is_null() && !is_text(found, ""))
        refuse(std::string("no '") + key + "'", found->kind());
    read_tokens(root, model);
    const Json* const unknown = model.find("unk_token");
    if (unknown && unknown->string()) out_.unknown = number_of(*unknown->string());
    read_merges(member(model, "merges"));
    const Json* const after = root.find("post_processor");
    if (after && !after->is_null()) read_post_processor(*after);
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(const std::string& expected, const std::string& found) const {
    source_.reject(expected, found, "TT-IO-04", "other settings would give other tokens");
  }
  const Json& member(const Json& object, const char* key) const {
    const Json* found = object.find(key);
    if (!found) reject_damaged(source_, "the member '" + std::string(key) + "'", "none");
    return *found;
  }
  static bool is_text(const Json* json, std::string_view text) {
    return json && json->string() && *json->string() == text;
  }
  bool flag(const Json& object, const char* key) const {
    const Json* found = object.find(key);
    return found && found->boolean() && *found->boolean();
  }
  std::string type_of(const Json* part) const {
    return part && part->find("type") && part->find("type")->string() ? *part->find("type")->string()
                                                                      : "none";
  }
  const Json::Array& list(const Json& json, const char* what) const {
    if (!json.array()) reject_damaged(source_, std::string("'") + what + "' as an array", json.kind());
    return *json.array();
  }

  void read_spaces(const Json& root) {
    const Json* normalizer = root.find("normalizer");
    const Json* pieces = root.find("pre_tokenizer");
    const std::string how = type_of(normalizer), after = type_of(pieces);
    if (how == "none" && after == "Metaspace") return read_metaspace(*pieces);
    const Json::Array one = normalizer ? Json::Array{*normalizer} : Json::Array{};
    bool replaced = false;
    out_.prefix = SpacePrefix::never;
    for (const Json& part :
         how == "Sequence" ? list(member(*normalizer, "normalizers"), "normalizers") : one) {
      const std::string type = type_of(&part);
      if (type == "Prepend" && is_text(part.find("prepend"), kMark) && !replaced) {
        out_.prefix = SpacePrefix::always, out_.prefix_doubles = true;
      } else if (type == "Replace" && is_text(part.find("content"), kMark) && part.find("pattern") &&
                 is_text(part.find("pattern")->find("String"), " ") && !replaced) {
        replaced = true;
      } else {
        refuse("a normalizer that writes spaces as U+2581", "one of type " + io::in_quotes(type));
      }
    }
    if (!replaced) refuse("spaces written as U+2581, by a normalizer or Metaspace", "normalizer " + how);
    const bool finds_none =
        after == "Split" && pieces->find("pattern") && is_text(pieces->find("pattern")->find("String"), " ");
    if (after != "none" && !finds_none) refuse("no pre_tokenizer, or Split at spaces", after);
  }
  void read_metaspace(const Json& part) {
    if (!is_text(part.find("replacement"), kMark)) refuse("Metaspace with U+2581", "another replacement");
    const Json* scheme = part.find("prepend_scheme");
    const bool old_prefix = !part.find("add_prefix_space") || flag(part, "add_prefix_space");
    const std::string name = scheme && scheme->string() ? *scheme->string() : old_prefix ? "always" : "never";
    if (name != "first" && name != "always" && name != "never")
      refuse("prepend_scheme first, always or never", name);
    out_.prefix = name == "first"    ? SpacePrefix::first
                  : name == "always" ? SpacePrefix::always
                                     : SpacePrefix::never;
    out_.split = !part.find("split") || flag(part, "split");
  }

  void place(const std::string& name, const Json& value) {
    const int64_t number = value.integer().value_or(-1);
    if (number < 0 || number >= kVocabularyLimit)
      reject_damaged(source_, "token numbers from 0 to " + std::to_string(kVocabularyLimit - 1),
                     value.kind() + (" for " + io::in_quotes(name)));
    const auto at = static_cast<size_t>(number);
    if (at >= out_.tokens.size()) out_.tokens.resize(at + 1);
    if (!out_.tokens[at].empty() && out_.tokens[at] != name)
      reject_damaged(source_, "each number once", io::in_quotes(name) + " with that of another token");
    out_.tokens[at] = name;
    numbers_[name] = static_cast<int32_t>(number);
  }
  int32_t number_of(const std::string& name) const {
    const auto found = numbers_.find(name);
    if (found == numbers_.end()) reject_damaged(source_, "a token of the vocabulary", io::in_quotes(name));
    return found->second;
  }
  void read_tokens(const Json& root, const Json& model) {
    const Json& vocabulary = member(model, "vocab");
    if (!vocabulary.object()) reject_damaged(source_, "'vocab' as an object", vocabulary.kind());
    for (const auto& [name, number] : *vocabulary.object()) place(name, number);
    const Json* added = root.find("added_tokens");
    if (!added || added->is_null()) return;
    for (const Json& token : list(*added, "added_tokens")) {
      const Json& name = member(token, "content");
      if (!name.string()) reject_damaged(source_, "'content' as a string", name.kind());
      for (const char* key : {"single_word", "lstrip", "rstrip"})
        if (flag(token, key))
          refuse(std::string("added tokens without '") + key + "'", io::in_quotes(*name.string()));
      place(*name.string(), member(token, "id"));
      out_.specials[*name.string()] = numbers_.at(*name.string());
    }
  }
  void read_merges(const Json& merges) {
    for (const Json& merge : list(merges, "merges")) {
      std::string left, right;
      if (const Json::Array* pair = merge.array();
          pair && pair->size() == 2 && (*pair)[0].string() && (*pair)[1].string()) {
        left = *(*pair)[0].string(), right = *(*pair)[1].string();
      } else if (const size_t space = merge.string() ? merge.string()->find(' ') : std::string::npos;
                 space != std::string::npos) {
        left = merge.string()->substr(0, space), right = merge.string()->substr(space + 1);
      } else {
        reject_damaged(source_, "merges as \"left right\" or [\"left\", \"right\"]", merge.kind());
      }
      out_.merges.push_back({number_of(left), number_of(right)});
    }
  }
  void read_post_processor(const Json& part) {
    const std::string type = type_of(&part);
    if (type == "Sequence") {
      for (const Json& inner : list(member(part, "processors"), "processors")) read_post_processor(inner);
      return;
    }
    if (type != "TemplateProcessing")
      refuse("post_processor of type TemplateProcessing", io::in_quotes(type));
    bool text = false;
    for (const Json& piece : list(member(part, "single"), "single")) {
      const Json* special = piece.find("SpecialToken");
      if (!special) {
        text = true;
        continue;
      }
      const Json& name = member(*special, "id");
      (text ? out_.after : out_.before).push_back(number_of(name.string() ? *name.string() : ""));
    }
  }

  static constexpr const char* kMark = "\xe2\x96\x81";  // U+2581
  const io::Source& source_;
  SentencePieceModel out_;
  std::unordered_map<std::string, int32_t> numbers_;
};

// Byte-level files have a ByteLevel part before or after the model; SentencePiece files spell spaces.
inline bool is_sentencepiece(const Json& root) {
  const auto spells = [](const Json* part) {
    const Json* type = part ? part->find("type") : nullptr;
    const std::string name = type && type->string() ? *type->string() : "";
    return name == "Metaspace" || name == "Prepend" || name == "Replace";
  };
  const Json* normalizer = root.find("normalizer");
  const Json* parts = normalizer ? normalizer->find("normalizers") : nullptr;
  bool any = spells(root.find("pre_tokenizer")) || spells(normalizer);
  if (parts && parts->array())
    for (const Json& part : *parts->array()) any = any || spells(&part);
  return any;
}

}  // namespace bpe

// Throws TT-IO-03 for a damaged file, and TT-IO-04 for settings that would give other tokens.
inline SentencePieceModel parse_sentencepiece_json(Bytes bytes, const std::string& name = "tokenizer.json",
                                                   TT_LOC) {
  const io::Source source{name, "tokenizer.json", loc};
  return bpe::SentencePieceReader(source).run(parse_json(bytes, source));
}
// The tokenizer of the text of a tokenizer.json, of either kind.
inline std::unique_ptr<Tokenizer> parse_tokenizer(Bytes bytes, const std::string& name = "tokenizer.json",
                                                  TT_LOC) {
  const io::Source source{name, "tokenizer.json", loc};
  const Json root = parse_json(bytes, source);
  if (bpe::is_sentencepiece(root))
    return std::make_unique<SentencePieceBpe>(bpe::SentencePieceReader(source).run(root), loc);
  return std::make_unique<BpeTokenizer>(bpe::TokenizerJsonReader(source).run(root), loc);
}
inline std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path, TT_LOC) {
  return parse_tokenizer(read_file(path, JsonLimits{}.bytes, loc), path, loc);
}

}  // namespace tinytorch::inline TT_BUILD
