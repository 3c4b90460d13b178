// Training byte pair encoding: join the most frequent pair of neighbouring tokens, again and again.
//
// The frame of a course header: it has the given parts, and includes the functions of task 4.2.
#pragma once

#include <algorithm>
#include <map>
#include <tinytorch/transformer/bpe_model.hpp>

namespace tinytorch::inline TT_BUILD {

struct BpeTrainOptions {
  int64_t vocabulary = 1024;  // tokens in all: 256 bytes, merges, special tokens
  SplitPattern pattern = SplitPattern::gpt2;
  std::vector<std::string> specials{};
  int64_t min_count = 2;  // a pair that occurs less often is not joined; the vocabulary may then stay smaller
};

namespace bpe {

struct Piece {
  Tokens tokens;      // as the merges so far have left it
  int64_t count = 0;  // how often the text has it
};
using PairCounts = std::map<std::pair<int32_t, int32_t>, int64_t>;  // in order of left, then of right

// The bytes of both tokens of a pair, one after the other.
inline std::string joined_bytes(const BpeModel& model, BpeMerge pair) {
  return model.tokens[static_cast<size_t>(pair.left)] + model.tokens[static_cast<size_t>(pair.right)];
}

}  // namespace bpe
}  // namespace tinytorch::inline TT_BUILD

#include <tasks/transformer/bpe_trainer.hpp>

namespace tinytorch::inline TT_BUILD {
namespace bpe {

// The pieces of all texts, equal ones once, each as the tokens of its bytes.
inline std::vector<Piece> pieces_of(std::span<const std::string_view> texts, SplitPattern pattern) {
  std::array<int32_t, 256> token_of_byte{};
  for (size_t i = 0; i < 256; ++i) token_of_byte[kByteOrder[i]] = static_cast<int32_t>(i);
  std::map<std::string_view, int64_t> counts;
  for (const std::string_view text : texts) {
    for (const std::string_view piece : pretokenize(text, pattern)) counts[piece] += 1;
  }
  std::vector<Piece> pieces;
  for (const auto& [bytes, count] : counts) {
    pieces.push_back({{}, count});
    for (const char c : bytes) pieces.back().tokens.push_back(token_of_byte[static_cast<unsigned char>(c)]);
  }
  return pieces;
}

inline void require_options(const BpeTrainOptions& options, Loc loc) {
  const auto least = static_cast<int64_t>(256 + options.specials.size());
  if (options.vocabulary < least || options.vocabulary > INT32_MAX) {
    fail("TT-TEXT-04",
         "train_bpe: a vocabulary of " + std::to_string(options.vocabulary) +
             " cannot hold the 256 bytes and " + std::to_string(options.specials.size()) +
             " special tokens\n  hint: take " + std::to_string(least) + " or more",
         loc);
  }
  for (const std::string& text : options.specials) {
    if (text.size() >= 2 && std::count(options.specials.begin(), options.specials.end(), text) == 1) continue;
    fail("TT-TEXT-04",
         "train_bpe: the special token " + io::in_quotes(text) +
             (text.size() < 2 ? " is too short" : " is listed twice"),
         loc);
  }
}

}  // namespace bpe

// Learns from texts, which do not run into each other: no piece holds parts of two. Throws TT-TEXT-04 for
// options that cannot be met.
inline BpeModel train_bpe(std::span<const std::string_view> texts, const BpeTrainOptions& options = {},
                          TT_LOC) {
  bpe::require_options(options, loc);
  BpeModel model;
  model.pattern = options.pattern;
  for (const unsigned char b : bpe::kByteOrder) model.tokens.emplace_back(1, static_cast<char>(b));
  std::vector<bpe::Piece> pieces = bpe::pieces_of(texts, options.pattern);
  bpe::learn_merges(model, pieces, static_cast<size_t>(options.vocabulary) - options.specials.size(),
                    std::max<int64_t>(options.min_count, 1), options.specials);
  for (const std::string& text : options.specials) {
    model.specials[text] = static_cast<int32_t>(model.tokens.size());
    model.tokens.push_back(text);
  }
  return model;
}
inline BpeModel train_bpe(std::string_view text, const BpeTrainOptions& options = {}, TT_LOC) {
  return train_bpe(std::span(&text, 1), options, loc);
}

}  // namespace tinytorch::inline TT_BUILD
