#include <tinytorch/transformer/nfc.hpp>

#include <tinytorch/tinytorch.hpp>
#include <tinytorch/transformer/bpe_files.hpp>

#include <transformer/golden_strings.hpp>

namespace tt = tinytorch;

TEST_CASE("NFC: 2,000 strings of marks, compositions and Hangul, and tokens of normalized text") {
  const golden::Strings strings("families/families.safetensors", "nfc_", 2000);
  strings.check_bytes("nfc", [](const std::string& text) { return tt::to_nfc(text); });
  const tt::BpeTokenizer qwen2 = tt::load_tokenizer_json(golden::path("families/qwen2.json"));
  strings.check("qwen2_nfc", [&](const std::string& text) { return qwen2.encode(text); });
  for (const std::string& text : strings.all()) CHECK(tt::to_nfc(tt::to_nfc(text)) == tt::to_nfc(text));
  for (const std::string& bytes : golden::awkward_bytes()) {
    if (tt::find_invalid_utf8(bytes) == bytes.size()) continue;
    CHECK(tt::to_nfc(tt::to_nfc(bytes)) == tt::to_nfc(bytes));
  }
  CHECK(tt::to_nfc("caf\xe9 e\xcc\x81") == "caf\xe9 \xc3\xa9");  // an invalid byte stays
}

TEST_CASE("Hangul is composed and decomposed by its formula, for all syllables") {
  for (uint32_t code = 0xac00; code < 0xd7a4; ++code) {
    std::vector<uint32_t> parts;
    tt::unicode::decompose(code, parts);
    CHECK_UNARY(parts.size() == ((code - 0xac00) % 28 == 0 ? 2 : 3));
    tt::unicode::compose(parts);
    CHECK_UNARY(parts == std::vector<uint32_t>{code});
  }
}
