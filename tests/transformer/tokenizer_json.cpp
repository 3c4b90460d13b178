// Tokenizers of model families against `tokenizers`: 2,000 strings each; SentencePiece files and what they
// refuse.
#include <tinytorch/transformer/tokenizer_json.hpp>

#include <tinytorch/tinytorch.hpp>

#include <io/files.hpp>
#include <transformer/golden_strings.hpp>

namespace tt = tinytorch;
using files::contains;
using files::refusal_of;

namespace {

const std::vector<std::string> kByteLevel = {"qwen2", "o200k", "digits", "digit_runs"},
                               kSentencePiece = {"llama2", "gemma", "mistral", "metaspace"};

std::string path_of(const std::string& name) { return golden::path("families/" + name + ".json"); }
std::string json_of(const std::string& name) { return tt::load_text(path_of(name)); }

tt::Tokens encode_as_tokenizers(const tt::Tokenizer& tokenizer, std::string_view text) {
  const tt::SpecialPolicy policy = tt::SpecialPolicy::as_tokenizers();
  if (const auto* bpe = dynamic_cast<const tt::BpeTokenizer*>(&tokenizer)) return bpe->encode(text, policy);
  return dynamic_cast<const tt::SentencePieceBpe&>(tokenizer).encode(text, policy);
}

tt::SentencePieceModel parse(const std::string& json) {
  return tt::parse_sentencepiece_json(tt::as_bytes(json), "t.json");
}
std::string with(std::string text, const std::string& part, const std::string& other) {
  const size_t at = text.find(part);
  REQUIRE(at != std::string::npos);
  return text.replace(at, part.size(), other);
}

}  // namespace

TEST_CASE("each family gives the tokens of `tokenizers` for 2,000 strings") {
  const golden::Strings strings("families/families.safetensors", "", 2000);
  for (const std::vector<std::string>* kind : {&kByteLevel, &kSentencePiece}) {
    for (const std::string& name : *kind) {
      CAPTURE(name);
      const auto tokenizer = tt::load_tokenizer(path_of(name));
      strings.check(name, [&](const std::string& text) { return encode_as_tokenizers(*tokenizer, text); });
    }
  }
}

TEST_CASE("decode(encode(text)) is the text, for any bytes") {
  const golden::Strings strings("families/families.safetensors", "", 2000);
  std::vector<std::string> texts = golden::awkward_bytes();
  texts.insert(texts.end(), strings.all().begin(), strings.all().end());
  for (const std::string name :
       {"o200k", "digits", "digit_runs", "llama2", "gemma", "mistral", "metaspace"}) {
    CAPTURE(name);
    const auto tokenizer = tt::load_tokenizer(path_of(name));
    const bool hides_space = name == "mistral" || name == "metaspace";
    for (const std::string& text : texts) {
      if (hides_space && text.starts_with(' ')) continue;  // Metaspace puts no space before it
      const tt::Tokens tokens = tokenizer->encode(text);
      if (tokenizer->decode(tokens) != text) {
        INFO(tt::io::in_quotes(text));
        CHECK(tokenizer->decode(tokens) == text);
      }
      for (const int32_t token : tokens) CHECK_UNARY(token >= 0 && token < tokenizer->vocabulary());
    }
  }
}

TEST_CASE("SentencePiece settings that would give other tokens throw, and damaged files do") {
  const std::string llama = json_of("llama2"), mistral = json_of("mistral");
  CHECK(parse(llama).prefix_doubles);
  CHECK(parse(mistral).prefix == tt::SpacePrefix::first);
  // Settings of calls, which encode() does not have, change nothing.
  for (const std::string& json : {llama, mistral}) {
    CHECK(parse(with(json, "\"truncation\":null", "\"truncation\":{\"max_length\":512}")) == parse(json));
    CHECK(parse(with(json, "\"padding\":null", "\"padding\":{\"pad_id\":0}")) == parse(json));
  }
  const auto code = [&](const std::string& json) { return refusal_of([&] { parse(json); }).code; };
  CHECK(code(with(llama, "\"type\":\"Prepend\"", "\"type\":\"Lowercase\"")) == "TT-IO-04");
  CHECK(code(with(llama, "\"pre_tokenizer\":null", "\"pre_tokenizer\":{\"type\":\"Whitespace\"}")) ==
        "TT-IO-04");
  CHECK(code(with(mistral, "\"prepend_scheme\":\"first\"", "\"prepend_scheme\":\"last\"")) == "TT-IO-04");
  CHECK(code(with(llama, "\"dropout\":null", "\"dropout\":0.1")) == "TT-IO-04");
  CHECK(code(with(llama, "\"lstrip\":false", "\"lstrip\":true")) == "TT-IO-04");
  CHECK(code(with(llama, "\"TemplateProcessing\"", "\"BertProcessing\"")) == "TT-IO-04");
  CHECK(code(with(llama, "\"unk_token\":\"<unk>\"", "\"unk_token\":\"<gone>\"")) == "TT-IO-03");
  CHECK(code(with(llama, "\"<0x00>\":3", "\"<0x00>\":4")) == "TT-IO-03");
  CHECK(code(with(llama, "\"<0x00>\":3", "\"<0x00>\":-3")) == "TT-IO-03");
  CHECK(code("{\"model\":{}}") != "");
}
