// BpeTokenizer: byte-level byte pair encoding, as in GPT-2. Every text has tokens, and decode returns its
// bytes.
//
//   const BpeTokenizer gpt2 = load_gpt2_tokenizer("encoder.json", "vocab.bpe");      // bpe_files.hpp
//   gpt2.encode("Hello world")                                                       // {15496, 995}
//
// Text is split into pieces (pretokenize.hpp). In a piece, the adjacent pair whose merge has the lowest rank
// is merged first, the leftmost one if there are several, until no pair has a merge. A short piece scans all
// of its pairs; a long one keeps them in a heap, which costs O(n log n). Most pieces of common text are one
// token, which a hash table finds without merging. The tokenizer is immutable, so threads may share it.
// Sources: Sennrich, Haddow, Birch, "Neural machine translation of rare words with subword units", 2016;
// openai/gpt-2.
#pragma once

#include <array>
#include <map>
#include <queue>
#include <tinytorch/transformer/bpe_model.hpp>
#include <tinytorch/transformer/nfc.hpp>
#include <tinytorch/transformer/tokenizer.hpp>
#include <utility>

namespace tinytorch::inline TT_BUILD {

// The treatment of special tokens ("<|endoftext|>") in a text. By default their text is ordinary text, so
// that untrusted text cannot control the model, and no special token is added, so that decode returns the
// text. as_tokenizers() is the default of Hugging Face's tokenizers.
//
//   llama3.encode(text, SpecialPolicy::as_tokenizers())      // <|begin_of_text|> first
struct SpecialPolicy {
  bool allow_all = false;
  std::vector<std::string> allowed{};  // special tokens that are encoded as such, if not all are
  bool refuse_others = false;          // TT-TEXT-03 if the text contains one that is not allowed
  bool add = false;                    // adds BpeModel::before and after (add_special_tokens in tokenizers)
  static SpecialPolicy as_tokenizers() { return {.allow_all = true, .add = true}; }
};

class BpeTokenizer final : public Tokenizer {
 public:
  // Throws TT-TEXT-04 if the model is invalid: bpe::problem_of(model) gives the reason.
  explicit BpeTokenizer(BpeModel model, TT_LOC);
  // The tables hold views of the model's tokens, which stay valid in a move but not in a copy.
  BpeTokenizer(BpeTokenizer&&) = default;
  BpeTokenizer(const BpeTokenizer&) = delete;
  BpeTokenizer& operator=(const BpeTokenizer&) = delete;

  // Accepts any bytes. The text of special tokens is ordinary text.
  Tokens encode(std::string_view text, TT_LOC) const override { return encode(text, SpecialPolicy{}, loc); }
  Tokens encode(std::string_view text, const SpecialPolicy& policy, TT_LOC) const;
  // The concatenated bytes of the tokens. They are not valid UTF-8 if the tokens end within a character.
  inline std::string decode(std::span<const int32_t> tokens, TT_LOC) const override;
  int64_t vocabulary() const override { return static_cast<int64_t>(model_.tokens.size()); }

  // The number of a special token. Throws TT-TEXT-03 if there is none with that text.
  int32_t special(const std::string& text, TT_LOC) const;
  const BpeModel& model() const { return model_; }

 private:
  static constexpr size_t kShortPiece = 64;  // up to this length a scan is faster than a heap

  void append_text(std::string_view text, Tokens& out) const;
  void append_merged(std::string_view piece, Tokens& out) const;
  void append_merged_short(std::string_view piece, Tokens& out) const;
  void append_merged_long(std::string_view piece, Tokens& out) const;
  void refuse_specials(std::string_view text, const std::map<std::string, int32_t>& allowed, Loc loc) const;

  BpeModel model_;
  std::array<int32_t, 256> byte_tokens_{};
  bpe::PairRanks ranks_;
  std::vector<int32_t> results_;  // by rank: the token that the merge produces
  bpe::TokenTable whole_pieces_;  // tokens to which their own bytes are encoded
};

// ---------------------------------------------------------------------------------------------------------

inline BpeTokenizer::BpeTokenizer(BpeModel model, Loc loc)
    : model_(std::move(model)), ranks_(model_.merges.size()), whole_pieces_(model_.tokens.size()) {
  bpe::require_model(model_, loc);
  bpe::TokenTable all(model_.tokens.size());
  for (size_t i = 0; i < model_.tokens.size(); ++i) {
    const std::string& bytes = model_.tokens[i];
    if (bytes.size() == 1) {
      byte_tokens_[static_cast<unsigned char>(bytes[0])] = static_cast<int32_t>(i);
      whole_pieces_.insert(bytes, static_cast<int32_t>(i));
    }
    if (!bytes.empty()) all.insert(bytes, static_cast<int32_t>(i));
  }
  for (size_t rank = 0; rank < model_.merges.size(); ++rank) {
    const BpeMerge merge = model_.merges[rank];
    ranks_.insert(merge, static_cast<int32_t>(rank));
    results_.push_back(all.find(model_.tokens[static_cast<size_t>(merge.left)] +
                                model_.tokens[static_cast<size_t>(merge.right)]));
  }
  if (model_.ignore_merges) {  // includes tokens that no merge produces, except those that are only special
    for (size_t i = 0; i < model_.tokens.size(); ++i) {
      const std::string& bytes = model_.tokens[i];
      const auto token = static_cast<int32_t>(i);
      const auto is_made = [&] { return std::ranges::find(results_, token) != results_.end(); };
      if (bytes.size() > 1 && (!model_.specials.contains(bytes) || is_made()))
        whole_pieces_.insert(bytes, token);
    }
    return;
  }
  Tokens merged;
  // Each token is checked by encoding it, because merges of lower rank may split its bytes differently.
  for (const int32_t token : results_) {
    const std::string& bytes = model_.tokens[static_cast<size_t>(token)];
    merged.clear();
    append_merged(bytes, merged);
    if (merged.size() == 1 && merged[0] == token) whole_pieces_.insert(bytes, token);
  }
}

inline Tokens BpeTokenizer::encode(std::string_view text, const SpecialPolicy& policy, Loc loc) const {
  std::map<std::string, int32_t> allowed;
  if (policy.allow_all) allowed = model_.specials;
  for (const std::string& name : policy.allowed) allowed[name] = special(name, loc);
  if (policy.refuse_others) refuse_specials(text, allowed, loc);

  Tokens out;
  out.reserve(text.size() / 4 + 1);
  if (policy.add) out.insert(out.end(), model_.before.begin(), model_.before.end());
  // The next position of each special token, searched again only after it is passed, so the text is searched
  // once for each.
  std::vector<std::pair<size_t, const std::pair<const std::string, int32_t>*>> next;
  for (const auto& item : allowed) next.emplace_back(text.find(item.first), &item);
  size_t at = 0;
  while (true) {
    const std::pair<const std::string, int32_t>* found = nullptr;
    size_t where = std::string_view::npos;
    for (auto& [place, item] : next) {
      if (place < at) place = text.find(item->first, at);
      const bool is_longer = found && place == where && item->first.size() > found->first.size();
      if (place < where || is_longer) {
        where = place;
        found = item;
      }
    }
    const std::string_view part = text.substr(at, where - at);
    if (model_.nfc)
      append_text(to_nfc(part), out);
    else
      append_text(part, out);
    if (!found) break;
    out.push_back(found->second);
    at = where + found->first.size();
  }
  if (policy.add) out.insert(out.end(), model_.after.begin(), model_.after.end());
  return out;
}

inline void BpeTokenizer::refuse_specials(std::string_view text,
                                          const std::map<std::string, int32_t>& allowed, Loc loc) const {
  for (const auto& item : model_.specials) {
    const size_t at = allowed.contains(item.first) ? std::string_view::npos : text.find(item.first);
    if (at == std::string_view::npos) continue;
    fail("TT-TEXT-03",
         "BpeTokenizer: the text contains the special token " + io::in_quotes(item.first) + " at byte " +
             std::to_string(at) +
             ", which is not allowed here\n  hint: add it to SpecialPolicy::allowed to get "
             "its token, or set refuse_others to false to encode it as text",
         loc);
  }
}

inline int32_t BpeTokenizer::special(const std::string& text, Loc loc) const {
  const auto found = model_.specials.find(text);
  if (found != model_.specials.end()) return found->second;
  std::string known;
  for (const auto& item : model_.specials) known += (known.empty() ? "" : ", ") + io::in_quotes(item.first);
  fail("TT-TEXT-03",
       "BpeTokenizer: there is no special token " + io::in_quotes(text) + "\n  hint: this vocabulary has " +
           (known.empty() ? "none" : known),
       loc);
}

inline std::string BpeTokenizer::decode(std::span<const int32_t> tokens, Loc loc) const {
  std::string out;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto token = static_cast<size_t>(static_cast<uint32_t>(tokens[i]));
    if (token >= model_.tokens.size() || model_.tokens[token].empty())
      fail_unknown_token("BpeTokenizer", tokens[i], i, vocabulary(), loc);
    out += model_.tokens[token];
  }
  return out;
}

inline void BpeTokenizer::append_text(std::string_view text, Tokens& out) const {
  for_each_piece(text, model_.pattern, [&](std::string_view piece) {
    const int32_t whole = whole_pieces_.find(piece);
    if (whole >= 0) {
      out.push_back(whole);
    } else {
      append_merged(piece, out);
    }
  });
}

inline void BpeTokenizer::append_merged(std::string_view piece, Tokens& out) const {
  if (piece.size() <= kShortPiece) {
    append_merged_short(piece, out);
  } else {
    append_merged_long(piece, out);
  }
}

inline void BpeTokenizer::append_merged_short(std::string_view piece, Tokens& out) const {
  int32_t tokens[kShortPiece];
  int32_t ranks[kShortPiece];  // ranks[i]: of the pair of tokens i and i + 1
  size_t n = piece.size();
  for (size_t i = 0; i < n; ++i) tokens[i] = byte_tokens_[static_cast<unsigned char>(piece[i])];
  for (size_t i = 0; i + 1 < n; ++i) ranks[i] = ranks_.find(tokens[i], tokens[i + 1]);
  while (n > 1) {
    const size_t i = static_cast<size_t>(std::min_element(ranks, ranks + n - 1) - ranks);
    if (ranks[i] == bpe::PairRanks::kNone) break;
    tokens[i] = results_[static_cast<size_t>(ranks[i])];
    std::copy(tokens + i + 2, tokens + n, tokens + i + 1);
    std::copy(ranks + i + 1, ranks + n - 1, ranks + i);
    --n;
    if (i > 0) ranks[i - 1] = ranks_.find(tokens[i - 1], tokens[i]);
    if (i + 1 < n) ranks[i] = ranks_.find(tokens[i], tokens[i + 1]);
  }
  out.insert(out.end(), tokens, tokens + n);
}

inline void BpeTokenizer::append_merged_long(std::string_view piece, Tokens& out) const {
  // A linked list in arrays: token i spans the bytes from i to next[i]. It is -1 after it has been merged
  // into the token at its left.
  const size_t n = piece.size();
  Tokens tokens(n);
  std::vector<size_t> next(n), before(n);
  using Candidate = std::pair<int32_t, size_t>;  // rank, then position: the leftmost first
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap;
  const auto propose = [&](size_t i) {
    const int32_t rank = next[i] < n ? ranks_.find(tokens[i], tokens[next[i]]) : bpe::PairRanks::kNone;
    if (rank != bpe::PairRanks::kNone) heap.emplace(rank, i);
  };
  for (size_t i = 0; i < n; ++i) {
    tokens[i] = byte_tokens_[static_cast<unsigned char>(piece[i])];
    next[i] = i + 1;
    before[i] = i == 0 ? n : i - 1;
  }
  for (size_t i = 0; i < n; ++i) propose(i);
  while (!heap.empty()) {
    const auto [rank, i] = heap.top();
    heap.pop();
    const BpeMerge merge = model_.merges[static_cast<size_t>(rank)];
    const size_t right = next[i];
    // Heap entries are not removed when they become stale: the tokens of this one may have been merged since.
    if (tokens[i] != merge.left || right >= n || tokens[right] != merge.right) continue;
    tokens[i] = results_[static_cast<size_t>(rank)];
    tokens[right] = -1;
    next[i] = next[right];
    if (next[i] < n) before[next[i]] = i;
    propose(i);
    if (before[i] < n) propose(before[i]);
  }
  for (size_t i = 0; i < n; i = next[i]) out.push_back(tokens[i]);
}

}  // namespace tinytorch::inline TT_BUILD
