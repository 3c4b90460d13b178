// Training byte pair encoding: join the most frequent pair of neighbouring tokens, again and again.
//
//   const BpeTokenizer tokenizer(train_bpe(text, {.vocabulary = 1000, .specials = {"<|endoftext|>"}}));
//
// The text is cut into pieces (pretokenize.hpp), which no token crosses; equal pieces are kept once, with
// their number. Every round counts all pairs anew: the cost is merges times pieces. Numbers: 256 bytes in
// GPT-2's order, merges, special tokens. Source: Sennrich, Haddow, Birch, 2016.
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

// How often each pair of neighbours (tokens[i], tokens[i + 1]) occurs in the text. A piece that the text has
// `count` times brings each of its pairs `count` times. No pair reaches from one piece into the next.
inline PairCounts count_pairs(const std::vector<Piece>& pieces) {
  PairCounts counts;
  for (const Piece& piece : pieces) {
    for (size_t i = 0; i + 1 < piece.tokens.size(); ++i) {
      counts[{piece.tokens[i], piece.tokens[i + 1]}] += piece.count;
    }
  }
  return counts;
}

// The most frequent pair; of equally frequent ones that with the smaller left token, then the smaller right
// one (two runs must learn the same). Nothing when no pair occurs `min_count` times.
inline std::optional<BpeMerge> most_frequent(const PairCounts& counts, int64_t min_count) {
  std::optional<BpeMerge> best;
  int64_t most = min_count - 1;
  for (const auto& [pair, count] : counts) {  // the first of equals wins: the map is sorted
    if (count <= most) continue;
    most = count;
    best = BpeMerge{pair.first, pair.second};
  }
  return best;
}

// Puts `token` wherever pair.left is followed by pair.right, from left to right: of (a, a) in "a a a" the
// first two are joined.
inline void join(Tokens& tokens, BpeMerge pair, int32_t token) {
  Tokens joined;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i + 1 < tokens.size() && tokens[i] == pair.left && tokens[i + 1] == pair.right) {
      joined.push_back(token);
      ++i;  // both are used up
    } else {
      joined.push_back(tokens[i]);
    }
  }
  tokens = std::move(joined);
}

// The bytes of both tokens of a pair, one after the other.
inline std::string joined_bytes(const BpeModel& model, BpeMerge pair) {
  return model.tokens[static_cast<size_t>(pair.left)] + model.tokens[static_cast<size_t>(pair.right)];
}

// Adds merges to `model`, which has the 256 bytes, until it has `tokens` tokens or no pair is frequent
// enough. Each merge: count all pairs; take the most frequent; its bytes become the next token of
// model.tokens, the pair the next of model.merges; join it in every piece. A pair that spells one of
// `specials` (joined_bytes) is passed over: it stays two tokens, and the next frequent pair is taken.
inline void learn_merges(BpeModel& model, std::vector<Piece>& pieces, size_t tokens, int64_t min_count,
                         const std::vector<std::string>& specials) {
  while (model.tokens.size() < tokens) {
    PairCounts counts = count_pairs(pieces);
    for (const std::string& text : specials) {
      std::erase_if(counts, [&](const auto& entry) {
        return joined_bytes(model, {entry.first.first, entry.first.second}) == text;
      });
    }
    const std::optional<BpeMerge> best = most_frequent(counts, min_count);
    if (!best) break;
    const auto token = static_cast<int32_t>(model.tokens.size());
    model.tokens.push_back(joined_bytes(model, *best));
    model.merges.push_back(*best);
    for (Piece& piece : pieces) join(piece.tokens, *best, token);
  }
}

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

// Learns from texts, which do not run into each other: no piece holds parts of two. TT-TEXT-04 for options
// that cannot be met.
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
