// BpeTokenizer: byte pair encoding over bytes, as in GPT-2: every text has tokens, and decode gives back its
// bytes.
//
//   const BpeTokenizer tokenizer(train_bpe(text, {.vocabulary = 1000}));
//   tokenizer.decode(tokenizer.encode("any bytes"))                         // "any bytes"
//
// Text is cut into pieces (pretokenize.hpp). Within a piece, of all neighbours that a merge joins, those of
// the lowest rank are joined, the leftmost first, until none is left: the order in which the merges were
// learned. Source: Sennrich, Haddow, Birch, "Neural machine translation of rare words with subword units",
// 2016.
//
// Task 4.3: BpeTokenizer::merge, BpeTokenizer::append_text, BpeTokenizer::decode. The given parts of this
// header are in modules/04_transformer/frame/tinytorch/transformer/bpe.hpp, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD {

// Applies the merges to the tokens of one piece: the neighbours (tokens[i], tokens[i + 1]) whose merge has
// the lowest rank become one token, the leftmost first if several have this rank. Repeat until no merge fits.
//   ranks_.find(left, right)   the merge's rank, or bpe::PairRanks::kNone, which is above all ranks
//   results_[rank]             the token that it makes
inline void BpeTokenizer::merge(Tokens& tokens) const {
  while (tokens.size() > 1) {
    int32_t lowest = bpe::PairRanks::kNone;
    size_t place = 0;
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      const int32_t rank = ranks_.find(tokens[i], tokens[i + 1]);
      if (rank >= lowest) continue;
      lowest = rank;
      place = i;
    }
    if (lowest == bpe::PairRanks::kNone) return;
    tokens[place] = results_[static_cast<size_t>(lowest)];
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

// Adds the tokens of a text without special tokens to `out`: cuts it into pieces, pretokenize(text,
// model_.pattern); each piece starts as one token per byte (byte_tokens_, by the byte's value from 0 to
// 255), and its merges are applied.
inline void BpeTokenizer::append_text(std::string_view text, Tokens& out) const {
  for (const std::string_view piece : pretokenize(text, model_.pattern)) {
    if (append_whole(piece, out)) continue;
    Tokens tokens;
    for (const char c : piece) tokens.push_back(byte_tokens_[static_cast<unsigned char>(c)]);
    merge(tokens);
    out.insert(out.end(), tokens.begin(), tokens.end());
  }
}

// The tokens' bytes (model_.tokens), one after the other. fail_unknown_token for a number that is no token:
// outside [0, vocabulary()), or one whose bytes are empty.
inline std::string BpeTokenizer::decode(std::span<const int32_t> tokens, Loc loc) const {
  std::string out;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const bool inside = tokens[i] >= 0 && tokens[i] < vocabulary();
    if (!inside || bytes_of(tokens[i]).empty())
      fail_unknown_token("BpeTokenizer", tokens[i], i, vocabulary(), loc);
    out += bytes_of(tokens[i]);
  }
  return out;
}

}  // namespace tinytorch::inline TT_BUILD
