// Byte pair encoding: for any bytes, the pieces cover the text exactly, and decode(encode(text)) is the text,
// with and without special tokens.
//
// One vocabulary is learned from a fixed text, and one from the input itself with few merges, so that merges
// apply.
#include <tinytorch/transformer/bpe.hpp>
#include <tinytorch/transformer/bpe_trainer.hpp>

#include <fuzz/fuzz.hpp>

namespace {

void check_pieces(std::string_view text, tt::SplitPattern pattern) {
  size_t at = 0;
  for (const std::string_view piece : tt::pretokenize(text, pattern)) {
    fuzz::require(!piece.empty() && piece.data() == text.data() + at);
    at += piece.size();
  }
  fuzz::require(at == text.size());
}

void check_round_trip(const tt::BpeTokenizer& tokenizer, std::string_view text) {
  const tt::Tokens plain = tokenizer.encode(text);
  const tt::Tokens allowed = tokenizer.encode(text, tt::SpecialPolicy{.allow_all = true});
  for (const int32_t token : plain) fuzz::require(token >= 0 && token < tokenizer.vocabulary());
  fuzz::require(tokenizer.decode(plain) == text && tokenizer.decode(allowed) == text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const tt::BpeTokenizer fixed(tt::train_bpe(
      "the tiny text that the other texts' merges are from: 100 100 aaaaaaaa    \n\n\n\n \xc3\xa4\xc3\xa4",
      {.vocabulary = 300, .pattern = tt::SplitPattern::cl100k, .specials = {"aa", "<|end|>", "aab"}}));
  return fuzz::run(data, size, [](tt::Bytes bytes) {
    const std::string_view text = tt::as_text(bytes);
    check_round_trip(fixed, text);
    for (const tt::SplitPattern pattern : {tt::SplitPattern::gpt2, tt::SplitPattern::cl100k})
      check_pieces(text, pattern);
    const tt::BpeTokenizer own(tt::train_bpe(text, {.vocabulary = 270, .specials = {"ab"}, .min_count = 1}));
    check_round_trip(own, text);
  });
}
