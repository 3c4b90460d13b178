// tokenizer.json, GPT-2's files and character tokenizers: any bytes are accepted or refused. Accepted
// tokenizers decode what they encode, and can be written and read again with the same result.
//
// Byte 0 selects the reader. A complete vocabulary is too long for a fuzzer to find, so one mode for
// tokenizer.json writes the input into a valid file, at a position and over a length that the input chooses.
#include <tinytorch/transformer/bpe_files.hpp>
#include <tinytorch/transformer/bpe_trainer.hpp>
#include <tinytorch/transformer/char_tokenizer_file.hpp>

#include <fuzz/fuzz.hpp>

namespace {

const tt::BpeModel& small_model() {
  static const tt::BpeModel model = [] {
    tt::BpeModel m = tt::train_bpe("abab abab", {.vocabulary = 260, .specials = {"<|end|>"}});
    m.before = {m.specials.at("<|end|>")};
    return m;
  }();
  return model;
}

// Returns `valid` with a part replaced by the input from byte 4 on. Bytes 0 and 1 of the input are the
// position of this part, and bytes 2 and 3 its length.
std::string patched(std::string valid, std::string_view input) {
  if (input.size() < 4) return valid;
  const auto number = [&](size_t i) {
    return static_cast<size_t>(static_cast<unsigned char>(input[i]) << 8 |
                               static_cast<unsigned char>(input[i + 1]));
  };
  const size_t at = number(0) % valid.size();
  return valid.replace(at, number(2), input.substr(4));
}

void check_tokenizer_json(std::string_view input, bool patch) {
  static const std::string valid = tt::to_tokenizer_json(small_model());
  const std::string text = patch ? patched(valid, input) : std::string(input);
  const tt::BpeModel model = tt::parse_tokenizer_json(tt::as_bytes(text), "input");
  fuzz::require(tt::parse_tokenizer_json(tt::as_bytes(tt::to_tokenizer_json(model)), "written") == model);
  const tt::BpeTokenizer tokenizer(model);
  fuzz::require(tokenizer.decode(tokenizer.encode(input)) == input);
  const tt::Tokens whole = tokenizer.encode(input, tt::SpecialPolicy::as_tokenizers());
  fuzz::require(tokenizer.decode(whole) ==
                tokenizer.decode(model.before) + std::string(input) + tokenizer.decode(model.after));
}

void check_gpt2(std::string_view input) {
  static const std::string encoder = [] {
    std::string json = "{";
    const tt::BpeModel& model = small_model();
    for (size_t i = 0; i < model.tokens.size(); ++i)
      json +=
          (i ? "," : "") + tt::to_json_string(tt::bpe::spelled(model.tokens[i])) + ":" + std::to_string(i);
    return json + "}";
  }();
  const tt::BpeModel model = tt::parse_gpt2(tt::as_bytes(encoder), tt::as_bytes(input));
  const tt::BpeTokenizer tokenizer(model);
  fuzz::require(tokenizer.decode(tokenizer.encode(input)) == input);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return fuzz::run(data, size, [](tt::Bytes bytes) {
    if (bytes.empty()) return;
    const unsigned kind = std::to_integer<unsigned>(bytes[0]) % 4;
    const std::string_view input = tt::as_text(bytes.subspan(1));
    if (kind == 0) {
      const tt::CharTokenizer tokenizer = tt::parse_char_tokenizer(tt::as_bytes(input), "input");
      fuzz::require(tt::parse_char_tokenizer(tt::as_bytes(to_json(tokenizer)), "written") == tokenizer);
    } else if (kind == 1) {
      check_gpt2(input);
    } else {
      check_tokenizer_json(input, kind == 2);
    }
  });
}
