// SentencePieceBpe: byte pair encoding of characters, as in Llama 2, Mistral and Gemma. Every text has
// tokens.
//
//   const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer("llama2/tokenizer.json");  //
//   tokenizer_json.hpp tokenizer->encode("Hello world")
//
// Spaces are written as U+2581, and one may be put before the text. The whole text is one piece; or, with
// `split`, each word with the space before it. Its characters are merged as in bpe.hpp: the pair of the
// lowest rank first, the leftmost of several, by a heap in O(n log n). A character without a token becomes
// the tokens <0x00> to <0xFF> of its bytes, or the unknown token.
//
// The text of special tokens is ordinary text unless a SpecialPolicy allows it (bpe.hpp). The space is put
// before a text's first part; as in `tokenizers`, also before parts after special tokens if `prefix` is
// always. Source: Kudo and Richardson, "SentencePiece", 2018.
#pragma once

#include <queue>
#include <tinytorch/transformer/bpe.hpp>
#include <utility>

namespace tinytorch::inline TT_BUILD {

enum class SpacePrefix : uint8_t { never, first, always };

struct SentencePieceModel {
  std::vector<std::string> tokens;          // UTF-8, with U+2581 for a space; empty for an unused number
  std::vector<BpeMerge> merges;             // by rank
  std::map<std::string, int32_t> specials;  // by text
  SpacePrefix prefix = SpacePrefix::always;
  bool prefix_doubles = false;  // a space is put before a text that begins with one, too
  bool split = false;           // words are merged alone
  bool byte_fallback = true;
  bool fuse_unknown = false;  // unknown characters in a row are one token
  int32_t unknown = -1;       // -1: characters without tokens have none
  bool ignore_merges = false;
  Tokens before{}, after{};  // special tokens around a text
  friend bool operator==(const SentencePieceModel&, const SentencePieceModel&) = default;
};

class SentencePieceBpe final : public Tokenizer {
 public:
  // Throws TT-TEXT-04 if the model is invalid.
  explicit SentencePieceBpe(SentencePieceModel model, TT_LOC);
  SentencePieceBpe(SentencePieceBpe&&) = default;
  SentencePieceBpe(const SentencePieceBpe&) = delete;
  SentencePieceBpe& operator=(const SentencePieceBpe&) = delete;

  Tokens encode(std::string_view text, TT_LOC) const override { return encode(text, SpecialPolicy{}, loc); }
  // Throws TT-TEXT-03 for special tokens as in BpeTokenizer.
  Tokens encode(std::string_view text, const SpecialPolicy& policy, TT_LOC) const;
  // The text of the tokens; the tokens of bytes give bytes. A space that encode() may have put before the
  // text is removed. So decode(encode(text)) is the text, unless it has U+2581, characters that are unknown,
  // or a space at its beginning before which Metaspace puts none.
  inline std::string decode(std::span<const int32_t> tokens, TT_LOC) const override;
  int64_t vocabulary() const override { return static_cast<int64_t>(model_.tokens.size()); }

  int32_t special(const std::string& text, TT_LOC) const;
  const SentencePieceModel& model() const { return model_; }

 private:
  static constexpr std::string_view kSpace = "\xe2\x96\x81";  // U+2581

  // Appends the tokens of a text without special tokens; `first`: it begins the whole text.
  void append_part(std::string_view text, bool first, Tokens& out) const;
  void append_piece(std::string_view piece, Tokens& out) const;
  Tokens symbols_of(std::string_view piece) const;

  SentencePieceModel model_;
  bpe::PairRanks ranks_;
  std::vector<int32_t> results_;  // by rank: the token that the merge produces
  bpe::TokenTable table_;
  std::array<int32_t, 256> bytes_{};        // the token of each byte, or -1
  std::map<int32_t, char> bytes_of_token_;  // the inverse
};

// ---------------------------------------------------------------------------------------------------------

inline SentencePieceBpe::SentencePieceBpe(SentencePieceModel model, Loc loc)
    : model_(std::move(model)), ranks_(model_.merges.size()), table_(model_.tokens.size()) {
  const auto require = [&](bool holds, const std::string& expected, const std::string& found) {
    if (holds) return;
    fail("TT-TEXT-04",
         "SentencePieceBpe: this vocabulary is invalid\n  expected: " + expected + "\n  found:    " + found,
         loc);
  };
  const auto inside = [&](int32_t t) {
    return t >= 0 && t < vocabulary() && !model_.tokens[static_cast<size_t>(t)].empty();
  };
  for (size_t i = 0; i < model_.tokens.size(); ++i) {
    const std::string& token = model_.tokens[i];
    if (!token.empty())
      require(table_.insert(token, static_cast<int32_t>(i)), "different texts for every token",
              io::in_quotes(token) + " twice");
  }
  for (size_t byte = 0; byte < 256; ++byte) {
    constexpr char kHex[] = "0123456789ABCDEF";
    const int32_t token = table_.find(std::string("<0x") + kHex[byte >> 4] + kHex[byte & 15] + ">");
    bytes_[byte] = token;
    if (token >= 0) bytes_of_token_[token] = static_cast<char>(byte);
  }
  for (const BpeMerge merge : model_.merges) {
    require(inside(merge.left) && inside(merge.right), "merges of two tokens", "another");
    const std::string joined =
        model_.tokens[static_cast<size_t>(merge.left)] + model_.tokens[static_cast<size_t>(merge.right)];
    results_.push_back(table_.find(joined));
    require(results_.back() >= 0, "a token for the result of each merge",
            "none for " + io::in_quotes(joined));
    require(ranks_.insert(merge, static_cast<int32_t>(results_.size() - 1)), "each merge once",
            io::in_quotes(joined) + " again");
  }
  for (const auto& [text, token] : model_.specials)
    require(!text.empty() && table_.find(text) == token, "special tokens among the tokens",
            io::in_quotes(text));
  for (const Tokens* around : {&model_.before, &model_.after})
    for (const int32_t token : *around)
      require(inside(token), "special tokens around a text", std::to_string(token));
  require(model_.unknown < 0 || inside(model_.unknown), "an unknown token among the tokens",
          std::to_string(model_.unknown));
}

inline int32_t SentencePieceBpe::special(const std::string& text, Loc loc) const {
  const auto found = model_.specials.find(text);
  if (found != model_.specials.end()) return found->second;
  fail("TT-TEXT-03", "SentencePieceBpe: there is no special token " + io::in_quotes(text), loc);
}

inline Tokens SentencePieceBpe::encode(std::string_view text, const SpecialPolicy& policy, Loc loc) const {
  std::map<std::string, int32_t> allowed;
  if (policy.allow_all) allowed = model_.specials;
  for (const std::string& name : policy.allowed) allowed[name] = special(name, loc);
  for (const auto& item : model_.specials) {
    if (policy.refuse_others && !allowed.contains(item.first) &&
        text.find(item.first) != std::string_view::npos)
      fail("TT-TEXT-03",
           "SentencePieceBpe: the text contains the special token " + io::in_quotes(item.first) +
               ", which is not allowed here\n  hint: add it to SpecialPolicy::allowed",
           loc);
  }
  Tokens out;
  if (policy.add) out.insert(out.end(), model_.before.begin(), model_.before.end());
  std::vector<std::pair<size_t, const std::pair<const std::string, int32_t>*>> next;
  for (const auto& item : allowed) next.emplace_back(text.find(item.first), &item);
  for (size_t at = 0;;) {
    const std::pair<const std::string, int32_t>* found = nullptr;
    size_t where = std::string_view::npos;
    for (auto& [place, item] : next) {
      if (place < at) place = text.find(item->first, at);
      const bool longer = found && place == where && item->first.size() > found->first.size();
      if (place < where || longer) where = place, found = item;
    }
    append_part(text.substr(at, where - at), at == 0, out);
    if (!found) break;
    out.push_back(found->second);
    at = where + found->first.size();
  }
  if (policy.add) out.insert(out.end(), model_.after.begin(), model_.after.end());
  return out;
}

inline void SentencePieceBpe::append_part(std::string_view text, bool first, Tokens& out) const {
  if (text.empty()) return;
  const bool prefixed =
      model_.prefix == SpacePrefix::always || (model_.prefix == SpacePrefix::first && first);
  const bool has_space = text.starts_with(' ') || text.starts_with(kSpace);
  std::string spaced;
  if (prefixed && (model_.prefix_doubles || !has_space)) spaced = kSpace;
  for (const char c : text) c == ' ' ? void(spaced += kSpace) : void(spaced += c);
  if (!model_.split) return append_piece(spaced, out);
  for (size_t at = 0; at < spaced.size();) {
    const size_t end = std::min(spaced.find(kSpace, at + 1), spaced.size());
    append_piece(std::string_view(spaced).substr(at, end - at), out);
    at = end;
  }
}

// The tokens of the characters.
inline Tokens SentencePieceBpe::symbols_of(std::string_view piece) const {
  Tokens out;
  for (size_t at = 0; at < piece.size();) {
    const size_t length = unicode::unit_at(piece, at).length;
    const std::string_view character = piece.substr(at, length);
    at += length;
    if (const int32_t token = table_.find(character); token >= 0) {
      out.push_back(token);
      continue;
    }
    const bool spelled = model_.byte_fallback && std::ranges::all_of(character, [&](char c) {
                           return bytes_[static_cast<unsigned char>(c)] >= 0;
                         });
    if (spelled) {
      for (const char c : character) out.push_back(bytes_[static_cast<unsigned char>(c)]);
    } else if (model_.unknown >= 0 &&
               !(model_.fuse_unknown && !out.empty() && out.back() == model_.unknown)) {
      out.push_back(model_.unknown);
    }
  }
  return out;
}

inline void SentencePieceBpe::append_piece(std::string_view piece, Tokens& out) const {
  if (model_.ignore_merges) {
    if (const int32_t whole = table_.find(piece); whole >= 0) return out.push_back(whole);
  }
  Tokens tokens = symbols_of(piece);
  // A linked list in arrays, as in BpeTokenizer::append_merged_long.
  const size_t n = tokens.size();
  std::vector<size_t> next(n), before(n);
  using Candidate = std::pair<int32_t, size_t>;  // rank, then position: the leftmost first
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap;
  const auto propose = [&](size_t i) {
    const int32_t rank = next[i] < n ? ranks_.find(tokens[i], tokens[next[i]]) : bpe::PairRanks::kNone;
    if (rank != bpe::PairRanks::kNone) heap.emplace(rank, i);
  };
  for (size_t i = 0; i < n; ++i) next[i] = i + 1, before[i] = i == 0 ? n : i - 1;
  for (size_t i = 0; i < n; ++i) propose(i);
  while (!heap.empty()) {
    const auto [rank, i] = heap.top();
    heap.pop();
    const BpeMerge merge = model_.merges[static_cast<size_t>(rank)];
    const size_t right = next[i];
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

inline std::string SentencePieceBpe::decode(std::span<const int32_t> tokens, Loc loc) const {
  std::string out;
  bool first = model_.prefix != SpacePrefix::never;  // a space at the beginning is that of encode()
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto token = static_cast<size_t>(static_cast<uint32_t>(tokens[i]));
    if (token >= model_.tokens.size() || model_.tokens[token].empty())
      fail_unknown_token("SentencePieceBpe", tokens[i], i, vocabulary(), loc);
    if (const auto byte = bytes_of_token_.find(tokens[i]); byte != bytes_of_token_.end()) {
      out += byte->second, first = false;
      continue;
    }
    std::string_view text = model_.tokens[token];
    if (model_.specials.contains(std::string(text))) {  // the text after it may have a space of its own
      out += text;
      continue;
    }
    if (first && text.starts_with(kSpace)) text.remove_prefix(kSpace.size());
    first = false;
    for (size_t at = 0; at < text.size();) {
      const bool space = text.substr(at).starts_with(kSpace);
      out += space ? ' ' : text[at];
      at += space ? kSpace.size() : 1;
    }
  }
  return out;
}

}  // namespace tinytorch::inline TT_BUILD
