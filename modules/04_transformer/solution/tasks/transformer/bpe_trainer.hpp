// Training byte pair encoding: join the most frequent pair of neighbouring tokens, again and again.
//
//   const BpeTokenizer tokenizer(train_bpe(text, {.vocabulary = 1000, .specials = {"<|endoftext|>"}}));
//
// The text is cut into pieces (pretokenize.hpp), which no token crosses; equal pieces are kept once, with
// their number. Every round counts all pairs anew: the cost is merges times pieces. Numbers: 256 bytes in
// GPT-2's order, merges, special tokens. Source: Sennrich, Haddow, Birch, 2016.
//
// Task 4.2: count_pairs, most_frequent, join, learn_merges. The given parts of this header are in
// modules/04_transformer/frame/tinytorch/transformer/bpe_trainer.hpp, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::bpe {

// Counts how often each pair of neighbours (tokens[i], tokens[i + 1]) occurs in the text. A piece that the
// text has `count` times brings each of its pairs `count` times. No pair reaches from one piece into the
// next.
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

}  // namespace tinytorch::inline TT_BUILD::bpe
