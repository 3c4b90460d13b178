// Training of byte pair encoding: repeatedly merge the most frequent pair of adjacent tokens.
//
//   const BpeTokenizer tokenizer(train_bpe(text, {.vocabulary = 10000, .specials = {"<|endoftext|>"}}));
//
// Equal pieces are counted once and merged once. A merge changes only the counts of adjacent pairs, so only
// the pieces that contain the merged pair are visited. A heap holds the pairs; an entry with an outdated
// count is pushed again with the right count when it is popped. The result is deterministic: among pairs of
// equal count, the smaller left token is first, then the smaller right one, as in the trainer of Hugging
// Face's tokenizers. Tokens are numbered: 256 bytes in GPT-2's order, merges, special tokens.
#pragma once

#include <algorithm>
#include <queue>
#include <tinytorch/transformer/bpe_model.hpp>
#include <unordered_map>

namespace tinytorch::inline TT_BUILD {

struct BpeTrainOptions {
  int64_t vocabulary = 1024;  // total number of tokens: 256 bytes, merges, special tokens
  SplitPattern pattern = SplitPattern::gpt2;
  std::vector<std::string> specials{};
  int64_t min_count = 2;  // rarer pairs are not merged, so the vocabulary may be smaller than asked for
};

namespace bpe {

class Trainer {
 public:
  explicit Trainer(const BpeTrainOptions& options) : options_(options) {}

  void count_pieces(std::string_view text) {
    for_each_piece(text, options_.pattern, [&](std::string_view bytes) {
      const auto [found, is_new] = numbers_.try_emplace(bytes, pieces_.size());
      if (is_new) pieces_.push_back({tokens_of(bytes), 0});
      ++pieces_[found->second].count;
    });
  }

  BpeModel run() {
    for (const unsigned char b : kByteOrder) model_.tokens.emplace_back(1, static_cast<char>(b));
    model_.pattern = options_.pattern;
    count_pairs();
    const auto bytes_and_merges = static_cast<size_t>(options_.vocabulary) - options_.specials.size();
    while (model_.tokens.size() < bytes_and_merges && !heap_.empty()) {
      const Candidate best = heap_.top();
      heap_.pop();
      const int64_t count = pairs_[key_of(best.pair)].count;
      if (count < best.count) {
        propose(best.pair, count);
      } else if (std::string bytes = joined(best.pair); !is_special(bytes)) {
        merge(best.pair, std::move(bytes));
      }
    }
    for (const std::string& text : options_.specials) {
      model_.specials[text] = static_cast<int32_t>(model_.tokens.size());
      model_.tokens.push_back(text);
    }
    return std::move(model_);
  }

 private:
  struct Piece {
    Tokens tokens;
    int64_t count;
  };
  struct Pair {
    int64_t count = 0;
    std::vector<size_t> pieces;  // indices of the pieces that contain it or contained it
  };
  struct Candidate {
    int64_t count;
    BpeMerge pair;
    // std::priority_queue has the largest element at its top.
    friend bool operator<(const Candidate& a, const Candidate& b) {
      if (a.count != b.count) return a.count < b.count;
      return std::pair(a.pair.left, a.pair.right) > std::pair(b.pair.left, b.pair.right);
    }
  };
  struct MixedHash {
    size_t operator()(uint64_t key) const { return mix(key); }
  };
  struct BytesHash {
    size_t operator()(std::string_view bytes) const { return hash_of(bytes); }
  };

  static uint64_t key_of(BpeMerge pair) {
    return uint64_t{static_cast<uint32_t>(pair.left)} << 32 | static_cast<uint32_t>(pair.right);
  }
  static BpeMerge pair_of(uint64_t key) {
    return {static_cast<int32_t>(key >> 32), static_cast<int32_t>(key & 0xffffffffu)};
  }
  static Tokens tokens_of(std::string_view bytes) {
    static constexpr std::array<int32_t, 256> kTokenOfByte = [] {
      std::array<int32_t, 256> tokens{};
      for (size_t i = 0; i < 256; ++i) tokens[kByteOrder[i]] = static_cast<int32_t>(i);
      return tokens;
    }();
    Tokens tokens;
    for (const char c : bytes) tokens.push_back(kTokenOfByte[static_cast<unsigned char>(c)]);
    return tokens;
  }
  std::string joined(BpeMerge pair) const {
    return model_.tokens[static_cast<size_t>(pair.left)] + model_.tokens[static_cast<size_t>(pair.right)];
  }
  // Token bytes are unique in a vocabulary, so a pair that spells a special token is not merged.
  bool is_special(const std::string& bytes) const {
    return std::find(options_.specials.begin(), options_.specials.end(), bytes) != options_.specials.end();
  }
  void propose(BpeMerge pair, int64_t count) {
    if (count >= std::max<int64_t>(options_.min_count, 1)) heap_.push({count, pair});
  }
  void change(BpeMerge pair, int64_t by, size_t piece) {
    Pair& entry = pairs_[key_of(pair)];
    entry.count += by;
    if (by > 0 && (entry.pieces.empty() || entry.pieces.back() != piece)) entry.pieces.push_back(piece);
  }

  void count_pairs() {
    for (size_t i = 0; i < pieces_.size(); ++i) {
      const Tokens& tokens = pieces_[i].tokens;
      for (size_t k = 0; k + 1 < tokens.size(); ++k) change({tokens[k], tokens[k + 1]}, pieces_[i].count, i);
    }
    for (const auto& [key, pair] : pairs_) propose(pair_of(key), pair.count);
  }

  void merge(BpeMerge pair, std::string bytes) {
    const auto token = static_cast<int32_t>(model_.tokens.size());
    model_.tokens.push_back(std::move(bytes));
    model_.merges.push_back(pair);
    std::vector<size_t> holders = std::move(pairs_[key_of(pair)].pieces);
    std::sort(holders.begin(), holders.end());
    holders.erase(std::unique(holders.begin(), holders.end()), holders.end());
    touched_.clear();
    for (const size_t piece : holders) merge_in(piece, pair, token);
    pairs_.erase(key_of(pair));
    std::sort(touched_.begin(), touched_.end());
    touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
    for (const uint64_t key : touched_) propose(pair_of(key), pairs_[key].count);
  }

  void merge_in(size_t piece, BpeMerge pair, int32_t token) {
    auto& [tokens, count] = pieces_[piece];
    size_t kept = 0;
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (i + 1 == tokens.size() || tokens[i] != pair.left || tokens[i + 1] != pair.right) {
        tokens[kept++] = tokens[i];
        continue;
      }
      if (kept > 0) {
        change({tokens[kept - 1], pair.left}, -count, piece);
        add_neighbours({tokens[kept - 1], token}, count, piece);
      }
      if (i + 2 < tokens.size()) {
        change({pair.right, tokens[i + 2]}, -count, piece);
        add_neighbours({token, tokens[i + 2]}, count, piece);
      }
      tokens[kept++] = token;
      ++i;
    }
    tokens.resize(kept);
  }
  // Only pairs with the new token gain counts. They have no entry in the heap yet.
  void add_neighbours(BpeMerge pair, int64_t count, size_t piece) {
    change(pair, count, piece);
    touched_.push_back(key_of(pair));
  }

  const BpeTrainOptions& options_;
  BpeModel model_;
  std::vector<Piece> pieces_;  // in order of first appearance
  std::unordered_map<std::string_view, size_t, BytesHash> numbers_;
  std::unordered_map<uint64_t, Pair, MixedHash> pairs_;
  std::priority_queue<Candidate> heap_;
  std::vector<uint64_t> touched_;  // pairs that the current merge created
};

}  // namespace bpe

// Learns a vocabulary from texts. No piece contains parts of two texts. Special tokens inside a text are
// ordinary text, so split the texts at them. Throws TT-TEXT-04 for options that cannot be satisfied.
inline BpeModel train_bpe(std::span<const std::string_view> texts, const BpeTrainOptions& options = {},
                          TT_LOC) {
  const auto least = static_cast<int64_t>(256 + options.specials.size());
  if (options.vocabulary < least || options.vocabulary > INT32_MAX) {
    fail("TT-TEXT-04",
         "train_bpe: a vocabulary of " + std::to_string(options.vocabulary) +
             " cannot hold the 256 bytes and " + std::to_string(options.specials.size()) +
             " special tokens\n  hint: take " + std::to_string(least) + " or more",
         loc);
  }
  for (size_t i = 0; i < options.specials.size(); ++i) {
    const std::string& text = options.specials[i];
    const auto begin = options.specials.begin();
    if (text.size() >= 2 && std::find(begin, begin + static_cast<std::ptrdiff_t>(i), text) ==
                                begin + static_cast<std::ptrdiff_t>(i))
      continue;
    fail("TT-TEXT-04",
         "train_bpe: the special token " + io::in_quotes(text) +
             (text.size() < 2 ? " is too short" : " is listed twice") +
             "\n  hint: special tokens are different texts of two bytes or more, such as <|endoftext|>",
         loc);
  }
  bpe::Trainer trainer(options);
  for (const std::string_view text : texts) trainer.count_pieces(text);
  return trainer.run();
}
inline BpeModel train_bpe(std::string_view text, const BpeTrainOptions& options = {}, TT_LOC) {
  return train_bpe(std::span(&text, 1), options, loc);
}

}  // namespace tinytorch::inline TT_BUILD
