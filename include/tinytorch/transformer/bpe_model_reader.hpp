// Shared parts of the readers of byte-level BPE files (bpe_files.hpp): the spelling of bytes, and a
// ModelReader that collects tokens and merges into a BpeModel.
//
// Files spell bytes as printable characters. The printable characters of Latin-1 represent themselves; the
// other bytes are U+0100 and up, so a space is U+0120.
#pragma once

#include <tinytorch/io/json.hpp>
#include <tinytorch/transformer/bpe.hpp>
#include <unordered_map>

namespace tinytorch::inline TT_BUILD::bpe {

// The limit on token numbers in a file. Each token costs a string and a row of an embedding, so a damaged
// file must not demand arbitrarily many.
inline constexpr int64_t kVocabularyLimit = int64_t{1} << 20;

// The character that spells each byte.
inline constexpr std::array<uint32_t, 256> kSpelling = [] {
  std::array<uint32_t, 256> codes{};
  for (uint32_t i = 0; i < 256; ++i)
    codes[kByteOrder[i]] = i < kPrintedBytes ? uint32_t{kByteOrder[i]} : 256 + i - kPrintedBytes;
  return codes;
}();

// The inverse: the byte that a character spells, or -1.
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
// The bytes that a spelling represents, or nullopt if one of its characters spells no byte.
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

// The spelling of the result of a merge, "left right" or ["left", "right"].
inline std::string made_by(const Json& merge) {
  std::string made;
  if (merge.string()) made = *merge.string();
  if (merge.array())
    for (const Json& part : *merge.array()) made += part.string() ? *part.string() : "";
  std::erase(made, ' ');
  return made;
}

// Throws TT-IO-03 for a file that contradicts itself.
[[noreturn]] inline void reject_damaged(const io::Source& source, const std::string& expected,
                                        const std::string& found) {
  source.reject(expected, found, "TT-IO-03",
                "the file is truncated, damaged or edited: fetch or save it again");
}

// Collects the contents of the vocabulary file and the merges file, which may be the same file. Errors name
// the file.
class ModelReader {
 public:
  ModelReader(const io::Source& vocabulary, const io::Source& merges)
      : vocabulary_(vocabulary), merges_(merges) {}

  BpeModel model;

  // Adds "token": number, as in encoder.json and in "vocab".
  void add(const std::string& name, const Json& value) {
    const std::optional<std::string> bytes = unspelled(name);
    const int32_t number = number_of(name, value);
    if (!bytes || bytes->empty()) {
      vocabulary_.reject("tokens spelled in the 256 characters of byte-level BPE",
                         "token " + io::in_quotes(name), "TT-IO-04",
                         "tokenizers whose tokens are characters (SentencePiece, WordPiece) cannot be read");
    }
    place(name, number, *bytes);
    numbers_.emplace(name, number);
  }

  // Adds a special token, whose name is its bytes, after all ordinary tokens have been added. If it is also
  // an ordinary token, both must have the same number, because a text cannot tell apart two tokens with the
  // same bytes.
  void add_special(const std::string& name, const Json& value) {
    const int32_t number = number_of(name, value);
    const auto ordinary = numbers_.find(spelled(name));
    if (ordinary == numbers_.end()) {
      place(name, number, name);
    } else if (ordinary->second != number) {
      vocabulary_.reject("the number of an added token that is an ordinary token too to be that token's",
                         io::in_quotes(name) + " with " + std::to_string(number) + " in 'added_tokens' and " +
                             std::to_string(ordinary->second) + " in 'vocab'",
                         "TT-IO-04",
                         "give it the number that it has in 'vocab', or take it out of 'added_tokens'");
    }
    model.specials[name] = number;
  }

  // Adds a merge of two tokens by their spelling. kind and number are the place in the file for messages,
  // such as "line" and 12.
  void add_merge(const std::string& left, const std::string& right, const char* kind, size_t number) {
    const auto a = numbers_.find(left), b = numbers_.find(right);
    if (a == numbers_.end() || b == numbers_.end()) {
      reject_damaged(
          merges_, "merges of tokens of the vocabulary",
          io::in_quotes(a == numbers_.end() ? left : right) + " in " + kind + " " + std::to_string(number));
    }
    model.merges.push_back({a->second, b->second});
  }
  // Adds a merge in the form "left right".
  void add_merge(std::string_view line, const char* kind, size_t number) {
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
      reject_damaged(merges_, "two tokens with one space between them",
                     io::in_quotes(line) + " in " + kind + " " + std::to_string(number));
    }
    add_merge(std::string(line.substr(0, space)), std::string(line.substr(space + 1)), kind, number);
  }

  BpeModel finish() {
    if (const auto problem = problem_of(model))
      reject_damaged(vocabulary_, problem->expected, problem->found);
    return std::move(model);
  }

 private:
  int32_t number_of(const std::string& name, const Json& value) const {
    const int64_t number = value.integer().value_or(-1);
    if (number >= 0 && number < kVocabularyLimit) return static_cast<int32_t>(number);
    reject_damaged(
        vocabulary_, "token numbers from 0 to " + std::to_string(kVocabularyLimit - 1),
        (value.integer() ? std::to_string(number) : value.kind()) + " for token " + io::in_quotes(name));
  }
  void place(const std::string& name, int32_t number, const std::string& bytes) {
    const auto at = static_cast<size_t>(number);
    if (at >= model.tokens.size()) model.tokens.resize(at + 1);
    if (!model.tokens[at].empty())
      reject_damaged(vocabulary_, "each number once",
                     io::in_quotes(name) + " with the number of " + io::in_quotes(model.tokens[at]));
    model.tokens[at] = bytes;
  }

  const io::Source& vocabulary_;
  const io::Source& merges_;
  std::unordered_map<std::string, int32_t> numbers_;  // by spelling; special tokens only if they are ASCII
};

}  // namespace tinytorch::inline TT_BUILD::bpe
