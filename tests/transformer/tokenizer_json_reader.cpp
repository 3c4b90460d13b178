#include <tinytorch/transformer/tokenizer_json_reader.hpp>

#include <doctest/doctest.h>

#include <tinytorch/transformer/bpe_files.hpp>
#include <tinytorch/transformer/bpe_trainer.hpp>

namespace tt = tinytorch;

TEST_CASE("each known pattern is read as its own, from a Split and from Digits") {
  for (const tt::bpe::KnownPattern& known : tt::bpe::kKnownPatterns) {
    tt::BpeModel model = tt::train_bpe("abab 12 Ab", {.vocabulary = 258});
    model.pattern = tt::SplitPattern::cl100k;
    std::string json = tt::to_tokenizer_json(model), first;
    for (const tt::bpe::KnownPattern& k : tt::bpe::kKnownPatterns)
      if (k.pattern == tt::SplitPattern::cl100k && first.empty()) first = tt::to_json_string(k.text);
    const size_t at = json.find(first);
    REQUIRE(at != std::string::npos);
    json.replace(at, first.size(), tt::to_json_string(known.text));
    CHECK(tt::parse_tokenizer_json(tt::as_bytes(json)).pattern == known.pattern);
  }
}
