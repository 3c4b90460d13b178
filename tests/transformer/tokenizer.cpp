// The interface that a model uses of any tokenizer, through the base class.
#include <tinytorch/transformer/tokenizer.hpp>

#include <memory>
#include <tinytorch/transformer/char_tokenizer.hpp>

#include <support/errors.hpp>

namespace tt = tinytorch;

namespace {

// A minimal tokenizer: bytes are tokens.
class ByteTokenizer final : public tt::Tokenizer {
 public:
  tt::Tokens encode(std::string_view text, tt::Loc) const override {
    tt::Tokens out;
    for (const char c : text) out.push_back(static_cast<unsigned char>(c));
    return out;
  }
  std::string decode(std::span<const int32_t> tokens, tt::Loc loc) const override {
    std::string out;
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i] < 0 || tokens[i] > 255) tt::fail_unknown_token("ByteTokenizer", tokens[i], i, 256, loc);
      out += static_cast<char>(tokens[i]);
    }
    return out;
  }
  int64_t vocabulary() const override { return 256; }
};

}  // namespace

TEST_CASE("a tokenizer is used through its base class") {
  const std::string text = "to be\xff\n";
  std::vector<std::unique_ptr<tt::Tokenizer>> all;
  all.push_back(std::make_unique<ByteTokenizer>());
  all.push_back(std::make_unique<tt::CharTokenizer>(tt::CharTokenizer::from_text(text)));
  for (const auto& tokenizer : all) {
    const tt::Tokens tokens = tokenizer->encode(text);
    for (const int32_t token : tokens) CHECK((token >= 0 && token < tokenizer->vocabulary()));
    CHECK(tokenizer->decode(tokens) == text);
    CHECK(tokenizer->encode("").empty());
    CHECK(tokenizer->decode({}) == "");
  }
}

TEST_CASE("a number that is not a token throws with its position and the caller's line") {
  errors::check_error(
      "TT-TEXT-02: ByteTokenizer: 256 at position 1 is not a token; this vocabulary has numbers from 0 to "
      "255\n"
      "  hint: decode with the tokenizer that encoded the text",
      [] {
        ByteTokenizer().decode(tt::Tokens{7, 256}, tt::Loc::current());
      });
}
