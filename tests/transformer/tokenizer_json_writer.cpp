#include <tinytorch/transformer/tokenizer_json_writer.hpp>

#include <doctest/doctest.h>

#include <tinytorch/transformer/bpe_files.hpp>
#include <tinytorch/transformer/bpe_trainer.hpp>

namespace tt = tinytorch;

TEST_CASE("every pattern, NFC and tokens around a text are read back equal") {
  using P = tt::SplitPattern;
  for (const P pattern : {P::gpt2, P::cl100k, P::qwen2, P::o200k, P::digits, P::digit_runs}) {
    for (const bool nfc : {false, true}) {
      tt::BpeModel model =
          tt::train_bpe("abab 12 Ab", {.vocabulary = 260, .pattern = pattern, .specials = {"<s>"}});
      model.nfc = nfc, model.ignore_merges = nfc;
      model.before = {model.specials.at("<s>")};
      const std::string json = tt::to_tokenizer_json(model);
      CHECK(tt::parse_tokenizer_json(tt::as_bytes(json)) == model);
      CHECK((json.find("\"NFC\"") != std::string::npos) == nfc);
    }
  }
}
