// Vocabulary files of byte-level BPE: GPT-2's pair of files, and Hugging Face's tokenizer.json, read and
// written.
//
//   encoder.json    {"token": number, ...}             vocab.bpe   a line "left right" per merge, by rank
//   tokenizer.json  {"added_tokens": [...], "pre_tokenizer": {...}, "model": {"type": "BPE", "vocab": {...},
//                   "merges": ["left right" or ["left", "right"], ...]}, ...}
//
// Files spell bytes as printable characters: those that Latin-1 prints stand for themselves, the others are
// U+0100 and up; a space is U+0120. Parts of a tokenizer.json that would change the tokens and are not
// implemented are refused (TT-IO-04), never skipped. Added tokens, special or not, become special tokens
// (SpecialPolicy in bpe.hpp).
#pragma once

#include <tinytorch/io/json.hpp>
#include <tinytorch/transformer/bpe.hpp>
#include <unordered_map>
#include <unordered_set>

namespace tinytorch::inline TT_BUILD {

namespace bpe {

// Each token is a string and a row of an embedding: a file cannot ask for more than this.
inline constexpr int64_t kVocabularyLimit = int64_t{1} << 20;

// The character that spells each byte.
inline constexpr std::array<uint32_t, 256> kSpelling = [] {
  std::array<uint32_t, 256> codes{};
  for (uint32_t i = 0; i < 256; ++i)
    codes[kByteOrder[i]] = i < kPrintedBytes ? uint32_t{kByteOrder[i]} : 256 + i - kPrintedBytes;
  return codes;
}();

// And back: the byte that a character spells, or -1.
inline constexpr std::array<int, 512 - kPrintedBytes> kSpelledByte = [] {
  std::array<int, 512 - kPrintedBytes> bytes{};
  for (int& byte : bytes) byte = -1;
  for (uint32_t byte = 0; byte < 256; ++byte) bytes[kSpelling[byte]] = static_cast<int>(byte);
  return bytes;
}();

inline std::string spelled(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) append_utf8(out, kSpelling[static_cast<unsigned char>(c)]);
  return out;
}
// The bytes, or nothing when some character spells none.
inline std::optional<std::string> unspelled(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const unicode::Unit unit = unicode::unit_at(text, at);
    const int byte = unit.code < kSpelledByte.size() ? kSpelledByte[unit.code] : -1;
    if (byte < 0) return std::nullopt;
    out += static_cast<char>(byte);
    at += unit.length;
  }
  return out;
}

// Known spellings of the patterns; the first of each is the one written.
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

// Refuses what contradicts itself.
[[noreturn]] inline void reject_damaged(const io::Source& source, const std::string& expected,
                                        const std::string& found) {
  source.reject(expected, found, "TT-IO-03", "the file is cut, damaged or edited: fetch or save it again");
}

// Collects what the files of vocabulary and merges say, which may be one; refuses them by name.
class ModelReader {
 public:
  ModelReader(const io::Source& vocabulary, const io::Source& merges)
      : vocabulary_(vocabulary), merges_(merges) {}

  BpeModel model;

  // "token": number, as in encoder.json and "vocab"; `raw` when the name is the bytes and not their spelling.
  void add(const std::string& name, const Json& value, bool raw = false) {
    const int64_t number = value.integer().value_or(-1);
    if (number < 0 || number >= kVocabularyLimit) {
      reject_damaged(
          vocabulary_, "token numbers from 0 to " + std::to_string(kVocabularyLimit - 1),
          (value.integer() ? std::to_string(number) : value.kind()) + " for token " + io::in_quotes(name));
    }
    const std::optional<std::string> bytes = raw ? std::optional(name) : unspelled(name);
    if (!bytes || bytes->empty()) {
      vocabulary_.reject("tokens spelled in the 256 characters of byte-level BPE",
                         "token " + io::in_quotes(name), "TT-IO-04",
                         "tokenizers whose tokens are characters (SentencePiece, WordPiece) cannot be read");
    }
    if (static_cast<size_t>(number) >= model.tokens.size())
      model.tokens.resize(static_cast<size_t>(number) + 1);
    std::string& place = model.tokens[static_cast<size_t>(number)];
    if (!place.empty())
      reject_damaged(vocabulary_, "each number once",
                     io::in_quotes(name) + " with the number of " + io::in_quotes(place));
    place = *bytes;
    if (raw) {
      model.specials[name] = static_cast<int32_t>(number);
    } else {
      numbers_.emplace(name, static_cast<int32_t>(number));
    }
  }

  // Names as spelled in the file. The place, such as "line" 12, is for messages.
  void add_merge(const std::string& left, const std::string& right, const char* kind, size_t number) {
    const auto a = numbers_.find(left), b = numbers_.find(right);
    if (a == numbers_.end() || b == numbers_.end()) {
      reject_damaged(
          merges_, "merges of tokens of the vocabulary",
          io::in_quotes(a == numbers_.end() ? left : right) + " in " + kind + " " + std::to_string(number));
    }
    model.merges.push_back({a->second, b->second});
  }
  // "left right"
  void add_merge(std::string_view line, const char* kind, size_t number) {
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
      reject_damaged(merges_, "two tokens with one space between them",
                     io::in_quotes(line) + " in " + kind + " " + std::to_string(number));
    }
    add_merge(std::string(line.substr(0, space)), std::string(line.substr(space + 1)), kind, number);
  }

  BpeModel finish() {
    if (const auto problem = BpeTokenizer::problem_of(model))
      reject_damaged(vocabulary_, problem->expected, problem->found);
    return std::move(model);
  }

 private:
  const io::Source& vocabulary_;
  const io::Source& merges_;
  std::unordered_map<std::string, int32_t> numbers_;  // by spelling, without special tokens
};

class TokenizerJsonReader {
 public:
  explicit TokenizerJsonReader(const io::Source& source) : source_(source), reader_(source, source) {}

  BpeModel run(const Json& root) {
    require_none(root, {"normalizer", "truncation", "padding"});
    const Json& model = member(root, "model");
    if (model.find("type")) require_type(model, "model", {"BPE"});  // files of 2020 have none
    require_none(model, {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"});
    for (const char* part : {"post_processor", "decoder"}) {
      const Json* found = root.find(part);
      if (found && !found->is_null()) require_type(*found, part, {"ByteLevel"});
    }
    read_pattern(member(root, "pre_tokenizer"));
    reader_.model.ignore_merges = flag(model, "ignore_merges", false);
    read_tokens(root, member(model, "vocab"));
    const Json& merges = member(model, "merges");
    if (!merges.array()) reject_damaged(source_, "'merges' as an array", merges.kind());
    for (size_t i = 0; i < merges.array()->size(); ++i) read_merge((*merges.array())[i], i);
    return reader_.finish();
  }

 private:
  const Json& member(const Json& object, const char* key) const {
    const Json* found = object.find(key);
    if (!found)
      reject_damaged(source_, std::string("the member '") + key + "'",
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
  // Settings that would change the tokens: absent, null, false or empty.
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
        "only byte-level BPE as in GPT-2 is read; a post_processor that adds tokens can be removed, and the "
        "tokens added by the caller");
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
    // The patterns match every character, so keeping the matches and removing the rest is the same.
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
                   "pretokenize.hpp matches these two by hand");
  }
  void read_byte_level(const Json& part, bool splits) const {
    if (flag(part, "add_prefix_space", true)) {
      source_.reject("'add_prefix_space': false", "true", "TT-IO-04",
                     "set it to false and put the space before the text yourself");
    }
    if (flag(part, "use_regex", true) != splits)
      source_.reject(splits ? "'use_regex': true without a Split" : "'use_regex': false after a Split",
                     splits ? "false" : "true", "TT-IO-04", kOnlyByteLevel);
  }

  void read_tokens(const Json& root, const Json& vocab) {
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
      if (special != added.end() && special->second->integer() != number.integer())
        reject_damaged(source_, "the same number in 'vocab' and 'added_tokens'",
                       "two for " + io::in_quotes(name));
      if (special == added.end()) reader_.add(name, number);
    }
    for (const auto& [name, number] : added) reader_.add(name, *number, true);
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

  const io::Source& source_;
  ModelReader reader_;
};

// Special tokens stand in the vocabulary too, so that tokenizers gives them these numbers.
inline std::string vocabulary_json(const BpeModel& model, Loc loc) {
  std::string out;
  std::unordered_map<std::string, int32_t> names;
  for (size_t i = 0; i < model.tokens.size(); ++i) {
    const std::string& bytes = model.tokens[i];
    if (bytes.empty()) continue;
    const bool is_special = model.specials.contains(bytes);
    const std::string name = is_special ? bytes : spelled(bytes);
    if (find_invalid_utf8(name) != name.size() || !names.emplace(name, 0).second) {
      fail("TT-IO-02",
           "to_tokenizer_json: the special token " + io::in_quotes(name) +
               (find_invalid_utf8(name) != name.size() ? " is not UTF-8"
                                                       : " is also how the file spells another token") +
               "\n  hint: choose another text for it",
           loc);
    }
    out += (out.empty() ? "" : ",") + to_json_string(name) + ":" + std::to_string(i);
  }
  return "{" + out + "}";
}

}  // namespace bpe

// --- GPT-2's files ---

// Tokens that are neither a byte nor made by a merge can only be special: in GPT-2, <|endoftext|>.
inline BpeModel parse_gpt2(Bytes encoder, Bytes merges, const std::string& encoder_name = "encoder.json",
                           const std::string& merges_name = "vocab.bpe", TT_LOC) {
  const io::Source source{encoder_name, "a GPT-2 vocabulary", loc}, list{merges_name, "GPT-2 merges", loc};
  const Json tree = io::JsonParser(as_text(encoder), source, JsonLimits{}).run();
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
    if (token.size() > 1 && !made.contains(token)) model.specials[token] = static_cast<int32_t>(i);
  }
  return reader.finish();
}
inline BpeTokenizer load_gpt2(const std::string& encoder_path, const std::string& merges_path, TT_LOC) {
  return BpeTokenizer(
      parse_gpt2(read_file(encoder_path, JsonLimits{}.bytes, loc),
                 read_file(merges_path, JsonLimits{}.bytes, loc), encoder_path, merges_path, loc),
      loc);
}

// --- tokenizer.json ---

inline BpeModel parse_tokenizer_json(Bytes bytes, const std::string& name = "tokenizer.json", TT_LOC) {
  const io::Source source{name, "tokenizer.json", loc};
  return bpe::TokenizerJsonReader(source).run(io::JsonParser(as_text(bytes), source, JsonLimits{}).run());
}
inline BpeTokenizer load_tokenizer_json(const std::string& path, TT_LOC) {
  return BpeTokenizer(parse_tokenizer_json(read_file(path, JsonLimits{}.bytes, loc), path, loc), loc);
}

// What Hugging Face tokenizers and transformers load, and parse_tokenizer_json reads back equal.
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
         ",\n\"post_processor\":null,\n\"decoder\":" + byte_level(true) +
         ",\n\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,\"continuing_subword_prefix\":"
         "null,"
         "\"end_of_word_suffix\":null,\"fuse_unk\":false,\"byte_fallback\":false,\"ignore_merges\":" +
         (model.ignore_merges ? "true" : "false") + ",\n\"vocab\":" + bpe::vocabulary_json(model, loc) +
         ",\n\"merges\":[" + merges + "]}}\n";
}
// The old file stays whole until the new one is complete.
inline void save_tokenizer_json(const std::string& path, const BpeModel& model, TT_LOC) {
  write_file(path, to_tokenizer_json(model, loc), loc);
}

}  // namespace tinytorch::inline TT_BUILD
