// BpeTokenizer: byte pair encoding over bytes, as in GPT-2: every text has tokens, and decode gives back its
// bytes.
//
//   const BpeTokenizer gpt2 = load_gpt2_tokenizer("encoder.json", "vocab.bpe");      // bpe_files.hpp
//   gpt2.encode("Hello world")                                             // {15496, 995}
//
// Text is cut into pieces (pretokenize.hpp). Within a piece, of all neighbours that a merge joins, those of
// the lowest rank are joined, the leftmost first, until none is left. Short pieces look through all their
// pairs each time; long ones keep them in a heap, so that a piece of n bytes costs n log n. Most pieces of
// common text are one token: a table of all tokens that their own merges lead to answers those. Nothing
// changes after construction: threads may share it. Source: Sennrich, Haddow, Birch, "Neural machine
// translation of rare words with subword units", 2016; openai/gpt-2.
#pragma once

#include <array>
#include <map>
#include <queue>
#include <tinytorch/transformer/bpe_model.hpp>
#include <tinytorch/transformer/tokenizer.hpp>
#include <utility>

namespace tinytorch::inline TT_BUILD {

// What becomes of the text of special tokens ("<|endoftext|>") inside a text. By default it is text like any
// other, so that a stranger's text cannot command the model, and none is added, so that decode gives the text
// back. as_tokenizers(): what Hugging Face's tokenizers does unless told otherwise.
//
//   llama3.encode(text, SpecialPolicy::as_tokenizers())      // <|begin_of_text|> first
struct SpecialPolicy {
  bool allow_all = false;
  std::vector<std::string> allowed{};  // these become their tokens, or all do
  bool refuse_others = false;          // TT-TEXT-03 when the text holds one that is not allowed
  bool add = false;                    // BpeModel::before and after around the text: add_special_tokens there
  static SpecialPolicy as_tokenizers() { return {.allow_all = true, .add = true}; }
};

class BpeTokenizer final : public Tokenizer {
 public:
  // TT-TEXT-04 when the model cannot work: bpe::problem_of(model) says why.
  explicit BpeTokenizer(BpeModel model, TT_LOC);
  // Tables inside hold views of the model's tokens, which move with it.
  BpeTokenizer(BpeTokenizer&&) = default;
  BpeTokenizer(const BpeTokenizer&) = delete;
  BpeTokenizer& operator=(const BpeTokenizer&) = delete;

  // Any bytes; special tokens are text like any other.
  Tokens encode(std::string_view text, TT_LOC) const override { return encode(text, SpecialPolicy{}, loc); }
  Tokens encode(std::string_view text, const SpecialPolicy& policy, TT_LOC) const;
  // The tokens' bytes, one after the other: not UTF-8 when the tokens end within a character.
  std::string decode(std::span<const int32_t> tokens, TT_LOC) const override;
  int64_t vocabulary() const override { return static_cast<int64_t>(model_.tokens.size()); }

  // The number of a special token. TT-TEXT-03 when there is none of that text.
  int32_t special(const std::string& text, TT_LOC) const;
  const BpeModel& model() const { return model_; }

 private:
  static constexpr size_t kShortPiece = 64;  // up to here a scan is faster than a heap

  void append_text(std::string_view text, Tokens& out) const;
  void append_merged(std::string_view piece, Tokens& out) const;
  void append_merged_short(std::string_view piece, Tokens& out) const;
  void append_merged_long(std::string_view piece, Tokens& out) const;
  void refuse_specials(std::string_view text, const std::map<std::string, int32_t>& allowed, Loc loc) const;

  BpeModel model_;
  std::array<int32_t, 256> byte_tokens_{};
  bpe::PairRanks ranks_;
  std::vector<int32_t> results_;  // by rank: the token that the merge makes
  bpe::TokenTable whole_pieces_;  // tokens that their own bytes are encoded to
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
  if (model_.ignore_merges) {  // also tokens that no merge makes, unless they are special alone
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
  for (const int32_t token :
       results_) {  // tried, not assumed: other merges of lower rank may cut a token's bytes
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
  // The next place of each; looked for again only when passed, so that each text is searched once.
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
    append_text(text.substr(at, where - at), out);
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
         "BpeTokenizer: the text holds the special token " + io::in_quotes(item.first) + " at byte " +
             std::to_string(at) +
             ", which is not allowed here\n  hint: name it in SpecialPolicy::allowed to get "
             "its token, or leave refuse_others out to have it encoded as text",
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
  int32_t ranks[kShortPiece];  // of tokens i and i + 1
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
  // A list in arrays: token i reaches from byte i to byte next[i]; -1 where a token was taken in by its left
  // one.
  const size_t n = piece.size();
  Tokens tokens(n);
  std::vector<size_t> next(n), before(n);
  using Candidate = std::pair<int32_t, size_t>;  // rank, then place: the leftmost first
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
    // Proposals are not withdrawn: this one may be about tokens that have been merged since.
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
