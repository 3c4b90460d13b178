// BpeModel: the vocabulary of a byte pair encoding (tokens, merges, special tokens), and its validation.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <tinytorch/io/bytes.hpp>
#include <tinytorch/transformer/pretokenize.hpp>
#include <tinytorch/transformer/token_tables.hpp>
#include <tinytorch/transformer/tokenizer.hpp>

namespace tinytorch::inline TT_BUILD {

struct BpeModel {
  std::vector<std::string> tokens;          // bytes by number; empty for an unused number
  std::vector<BpeMerge> merges;             // by rank
  std::map<std::string, int32_t> specials;  // by text; one may also be an ordinary token that merges use
  SplitPattern pattern = SplitPattern::gpt2;
  bool nfc = false;            // texts are normalized to NFC before they are split
  bool ignore_merges = false;  // a piece that equals a token becomes it, whatever its merges produce
  Tokens before{}, after{};    // special tokens around a text: Llama 3's <|begin_of_text|>
  friend bool operator==(const BpeModel&, const BpeModel&) = default;
};

namespace bpe {

// Bytes in the order of GPT-2's first 256 tokens: first the printable characters of Latin-1, then the others.
inline constexpr std::array<unsigned char, 256> kByteOrder = [] {
  std::array<unsigned char, 256> order{};
  const auto prints = [](int b) { return (b >= 33 && b <= 126) || (b >= 161 && b != 173); };
  size_t n = 0;
  for (const bool printed : {true, false}) {
    for (int b = 0; b < 256; ++b) {
      if (prints(b) == printed) order[n++] = static_cast<unsigned char>(b);
    }
  }
  return order;
}();
inline constexpr uint32_t kPrintedBytes = 188;

// The requirement that a vocabulary violates, and what it contains instead.
struct Problem {
  std::string expected, found;
};

inline std::string token_name(const BpeModel& model, int32_t token) {
  const bool inside = token >= 0 && static_cast<size_t>(token) < model.tokens.size();
  return std::to_string(token) +
         (inside ? " " + io::in_quotes(model.tokens[static_cast<size_t>(token)]) : "");
}

// The first problem of a model, or nullopt if it is valid.
inline std::optional<Problem> problem_of(const BpeModel& model) {
  TokenTable table(model.tokens.size());
  for (size_t i = 0; i < model.tokens.size(); ++i) {
    const auto token = static_cast<int32_t>(i);
    if (!model.tokens[i].empty() && !table.insert(model.tokens[i], token))
      return Problem{"different bytes for every token", "token " + token_name(model, token) + " twice"};
  }
  for (const auto& [text, token] : model.specials) {
    if (text.empty() || table.find(text) != token)
      return Problem{"special tokens that are not empty, each among the tokens",
                     io::in_quotes(text) + " as token " + std::to_string(token)};
  }
  for (const Tokens* around : {&model.before, &model.after}) {
    for (const int32_t token : *around) {
      const bool inside = token >= 0 && static_cast<size_t>(token) < model.tokens.size();
      if (!inside || !model.specials.contains(model.tokens[static_cast<size_t>(token)]))
        return Problem{"special tokens around a text", "token " + token_name(model, token)};
    }
  }
  for (int b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    if (table.find({&byte, 1}) < 0)
      return Problem{"a token for each of the 256 bytes (trainers give them when told to: initial_alphabet)",
                     "none for byte " + io::in_quotes({&byte, 1})};
  }
  PairRanks seen(model.merges.size());
  const auto is_token = [&](int32_t t) {
    return t >= 0 && static_cast<size_t>(t) < model.tokens.size() &&
           !model.tokens[static_cast<size_t>(t)].empty();
  };
  for (size_t rank = 0; rank < model.merges.size(); ++rank) {
    const auto [left, right] = model.merges[rank];
    const auto where = [&, left = left, right = right] {
      return "merge " + std::to_string(rank) + " of tokens " + token_name(model, left) + " and " +
             token_name(model, right);
    };
    if (!is_token(left) || !is_token(right)) return Problem{"merges of two tokens", where()};
    const std::string joined =
        model.tokens[static_cast<size_t>(left)] + model.tokens[static_cast<size_t>(right)];
    if (table.find(joined) < 0) return Problem{"a token for the result of each merge", where()};
    if (!seen.insert({left, right}, 0)) return Problem{"each merge once", where() + " again"};
  }
  return std::nullopt;
}

// Throws TT-TEXT-04 if the model is invalid.
inline void require_model(const BpeModel& model, Loc loc) {
  const std::optional<Problem> problem = problem_of(model);
  if (!problem) return;
  fail("TT-TEXT-04",
       "BpeTokenizer: this vocabulary is invalid\n  expected: " + problem->expected + "\n  found:    " +
           problem->found + "\n  hint: train_bpe and the readers of bpe_files.hpp make valid models",
       loc);
}

}  // namespace bpe

}  // namespace tinytorch::inline TT_BUILD
