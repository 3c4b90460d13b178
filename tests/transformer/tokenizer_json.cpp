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

TEST_CASE("NFC: 2,000 strings of marks, compositions and Hangul, and tokens of normalized text") {
  const golden::Strings strings("families/families.safetensors", "nfc_", 2000);
  strings.check_bytes("nfc", [](const std::string& text) { return tt::to_nfc(text); });
  const auto qwen2 = tt::load_tokenizer(path_of("qwen2"));
  strings.check("qwen2_nfc", [&](const std::string& text) { return qwen2->encode(text); });
  for (const std::string& text : strings.all()) CHECK(tt::to_nfc(tt::to_nfc(text)) == tt::to_nfc(text));
  for (const std::string& bytes : golden::awkward_bytes()) {
    if (tt::find_invalid_utf8(bytes) == bytes.size()) continue;
    CHECK(tt::to_nfc(tt::to_nfc(bytes)) == tt::to_nfc(bytes));
  }
  CHECK(tt::to_nfc("caf\xe9 e\xcc\x81") == "caf\xe9 \xc3\xa9");  // an invalid byte stays
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

TEST_CASE("special tokens are text unless they are allowed") {
  const tt::SentencePieceBpe t(parse(json_of("llama2")));
  const int32_t end = t.special("</s>");
  const auto has_end = [&](const tt::Tokens& tokens) { return std::ranges::count(tokens, end); };
  CHECK(has_end(t.encode("a</s>b")) == 0);
  CHECK(has_end(t.encode("a</s>b</s>", {.allowed = {"</s>"}})) == 2);
  CHECK(t.encode("", {.add = true}) == tt::Tokens{t.special("<s>")});
  CHECK(t.decode(t.encode("a</s>b")) == "a</s>b");
  const auto refused = refusal_of([&] { t.encode("a</s>", {.refuse_others = true}); });
  CHECK(refused.code == "TT-TEXT-03");
  CHECK(refusal_of([&] { t.special("<none>"); }).code == "TT-TEXT-03");
  CHECK(refusal_of([&] { t.decode(tt::Tokens{100000}); }).code == "TT-TEXT-02");
}

TEST_CASE("characters without bytes are the unknown token, fused if the model says so") {
  tt::SentencePieceModel m;
  m.tokens = {"<unk>", "a", "b", "ab"}, m.merges = {{1, 2}}, m.unknown = 0;
  m.prefix = tt::SpacePrefix::never, m.byte_fallback = false;
  CHECK(tt::SentencePieceBpe(m).encode("ab\xc3\xa9\xc3\xa9"
                                       "a") == tt::Tokens{3, 0, 0, 1});
  m.fuse_unknown = true;
  CHECK(tt::SentencePieceBpe(m).encode("ab\xc3\xa9\xc3\xa9"
                                       "a") == tt::Tokens{3, 0, 1});
  m.unknown = -1;
  CHECK(tt::SentencePieceBpe(m).encode("\xc3\xa9"
                                       "b") == tt::Tokens{2});
  const auto invalid = [&](auto change) {
    tt::SentencePieceModel bad = m;
    change(bad);
    return refusal_of([&] { tt::SentencePieceBpe t(bad); }).code;
  };
  CHECK(invalid([](auto& b) { b.tokens[1] = "b"; }) == "TT-TEXT-04");
  CHECK(invalid([](auto& b) { b.merges.push_back({2, 1}); }) == "TT-TEXT-04");
  CHECK(invalid([](auto& b) { b.merges.push_back({1, 2}); }) == "TT-TEXT-04");
  CHECK(invalid([](auto& b) { b.merges.push_back({1, 9}); }) == "TT-TEXT-04");
  CHECK(invalid([](auto& b) { b.specials["x"] = 1; }) == "TT-TEXT-04");
  CHECK(invalid([](auto& b) { b.before = {7}; }) == "TT-TEXT-04");
  CHECK(invalid([](auto& b) { b.unknown = 7; }) == "TT-TEXT-04");
}

TEST_CASE("SentencePiece settings that would give other tokens throw, and damaged files do") {
  const std::string llama = json_of("llama2"), mistral = json_of("mistral");
  CHECK(parse(llama).prefix_doubles);
  CHECK(parse(mistral).prefix == tt::SpacePrefix::first);
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
