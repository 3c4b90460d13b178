// BpeTokenizer: byte pair encoding over bytes, as in GPT-2: every text has tokens, and decode gives back its
// bytes.
//
// The frame of a course header: it has the given parts, and includes the functions of task 4.3.
#pragma once

#include <map>
#include <tinytorch/transformer/bpe_model.hpp>

namespace tinytorch::inline TT_BUILD {

// The treatment of special tokens ("<|endoftext|>") whose text is inside a text. By default it is text like
// any other, so that a stranger's text cannot command the model, and none is added, so that decode gives the
// text back. as_tokenizers() is the default of Hugging Face's tokenizers.
struct SpecialPolicy {
  bool allow_all = false;
  std::vector<std::string> allowed{};  // these become their tokens, or all do
  bool refuse_others = false;          // TT-TEXT-03 when the text holds one that is not allowed
  bool add = false;                    // BpeModel::before and after around the text
  static SpecialPolicy as_tokenizers() { return {.allow_all = true, .add = true}; }
};

class BpeTokenizer final : public Tokenizer {
 public:
  // Throws TT-TEXT-04 when the model cannot work: bpe::problem_of(model) says why.
  explicit BpeTokenizer(BpeModel model, TT_LOC) : model_(std::move(model)), ranks_(model_.merges.size()) {
    bpe::require_model(model_, loc);
    for (size_t i = 0; i < model_.tokens.size(); ++i) {
      const std::string& bytes = model_.tokens[i];
      const auto token = static_cast<int32_t>(i);
      if (bytes.size() == 1) byte_tokens_[static_cast<unsigned char>(bytes[0])] = token;
      if (!bytes.empty()) numbers_[bytes] = token;
    }
    for (const BpeMerge merge : model_.merges) {
      ranks_.insert(merge, static_cast<int32_t>(results_.size()));
      results_.push_back(numbers_.at(bytes_of(merge.left) + bytes_of(merge.right)));
    }
  }
  BpeTokenizer(BpeTokenizer&&) = default;
  BpeTokenizer(const BpeTokenizer&) = delete;
  BpeTokenizer& operator=(const BpeTokenizer&) = delete;

  // The tokens of any bytes; special tokens are text like any other.
  Tokens encode(std::string_view text, TT_LOC) const override { return encode(text, SpecialPolicy{}, loc); }
  Tokens encode(std::string_view text, const SpecialPolicy& policy, TT_LOC) const;

  inline std::string decode(std::span<const int32_t> tokens, TT_LOC) const override;  // task 4.3

  int64_t vocabulary() const override { return static_cast<int64_t>(model_.tokens.size()); }
  // The number of a special token. Throws TT-TEXT-03 when there is none of that text.
  int32_t special(const std::string& text, TT_LOC) const {
    const auto found = model_.specials.find(text);
    if (found != model_.specials.end()) return found->second;
    fail("TT-TEXT-03", "BpeTokenizer: there is no special token " + io::in_quotes(text), loc);
  }
  const BpeModel& model() const { return model_; }

 private:
  void merge(Tokens& tokens) const;                            // task 4.3
  void append_text(std::string_view text, Tokens& out) const;  // task 4.3

  const std::string& bytes_of(int32_t token) const { return model_.tokens[static_cast<size_t>(token)]; }
  // Models that ignore merges (Llama 3): a piece that is a token is that token. Says whether it did.
  bool append_whole(std::string_view piece, Tokens& out) const {
    if (!model_.ignore_merges) return false;
    const auto found = numbers_.find(std::string(piece));
    if (found == numbers_.end() || model_.specials.contains(found->first)) return false;
    out.push_back(found->second);
    return true;
  }
  void refuse_specials(std::string_view text, const std::map<std::string, int32_t>& allowed, Loc loc) const;

  BpeModel model_;
  std::array<int32_t, 256> byte_tokens_{};
  bpe::PairRanks ranks_;
  std::vector<int32_t> results_;            // by rank: the token that the merge makes
  std::map<std::string, int32_t> numbers_;  // by bytes
};

// ---------------------------------------------------------------------------------------------------------

// Text between special tokens is appended as text; of several that begin at one place, the longest counts.
inline Tokens BpeTokenizer::encode(std::string_view text, const SpecialPolicy& policy, Loc loc) const {
  std::map<std::string, int32_t> allowed;
  if (policy.allow_all) allowed = model_.specials;
  for (const std::string& name : policy.allowed) allowed[name] = special(name, loc);
  if (policy.refuse_others) refuse_specials(text, allowed, loc);

  Tokens out;
  if (policy.add) out = model_.before;
  while (!text.empty()) {
    size_t where = std::string_view::npos;
    const std::pair<const std::string, int32_t>* found = nullptr;
    for (const auto& item : allowed) {
      const size_t at = text.find(item.first);
      const bool is_longer = found && at == where && item.first.size() > found->first.size();
      if (at < where || is_longer) where = at, found = &item;
    }
    append_text(text.substr(0, where), out);
    if (!found) break;
    out.push_back(found->second);
    text.remove_prefix(where + found->first.size());
  }
  if (policy.add) out.insert(out.end(), model_.after.begin(), model_.after.end());
  return out;
}

inline void BpeTokenizer::refuse_specials(std::string_view text,
                                          const std::map<std::string, int32_t>& allowed, Loc loc) const {
  for (const auto& item : model_.specials) {
    if (allowed.contains(item.first) || text.find(item.first) == std::string_view::npos) continue;
    fail("TT-TEXT-03",
         "BpeTokenizer: the text contains the special token " + io::in_quotes(item.first) +
             ", which is not allowed here\n  hint: add it to SpecialPolicy::allowed to get its token",
         loc);
  }
}

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/transformer/bpe.hpp>
