// The BPE trainer is compared with one that recounts everything, and with what tokenizers learned from the
// same text.
#include <tinytorch/transformer/bpe_trainer.hpp>

#include <chrono>
#include <random>
#include <tinytorch/io/text.hpp>
#include <tinytorch/transformer/bpe.hpp>

#include <support/data.hpp>
#include <support/errors.hpp>
#include <support/sanitized.hpp>

namespace tt = tinytorch;
using tt::BpeModel;
using tt::BpeTokenizer;

namespace {

const char* const kPlay = "tinyshakespeare/input.txt";

// The definition of training: count all pairs of all pieces, merge the most frequent, and repeat.
BpeModel train_by_definition(std::string_view text, int64_t vocabulary, int64_t min_count) {
  BpeModel model;
  std::vector<tt::Tokens> pieces;
  std::array<int32_t, 256> number{};
  for (const unsigned char b : tt::bpe::kByteOrder) {
    number[b] = static_cast<int32_t>(model.tokens.size());
    model.tokens.emplace_back(1, static_cast<char>(b));
  }
  for (const std::string_view piece : tt::pretokenize(text, model.pattern)) {
    pieces.emplace_back();
    for (const char c : piece) pieces.back().push_back(number[static_cast<unsigned char>(c)]);
  }
  while (static_cast<int64_t>(model.tokens.size()) < vocabulary) {
    std::map<std::pair<int32_t, int32_t>, int64_t> counts;
    for (const tt::Tokens& piece : pieces) {
      for (size_t i = 0; i + 1 < piece.size(); ++i) ++counts[{piece[i], piece[i + 1]}];
    }
    // The map is sorted by left, then right, so the first of the largest counts wins.
    const auto best = std::max_element(counts.begin(), counts.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (best == counts.end() || best->second < min_count) break;
    const auto [left, right] = best->first;
    const auto token = static_cast<int32_t>(model.tokens.size());
    model.tokens.push_back(model.tokens[static_cast<size_t>(left)] +
                           model.tokens[static_cast<size_t>(right)]);
    model.merges.push_back({left, right});
    for (tt::Tokens& piece : pieces) {
      for (size_t i = 0; i + 1 < piece.size(); ++i) {
        if (piece[i] != left || piece[i + 1] != right) continue;
        piece[i] = token;
        piece.erase(piece.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
  }
  return model;
}

}  // namespace

TEST_CASE("the merges equal those of a trainer that recounts everything") {
  std::mt19937 random(8);
  for (int round = 0; round < 40; ++round) {
    std::string text(600, '\0');
    const std::string_view alphabet = round % 2 ? "aab b"
                                                : "aaabbcdefg  '\n\xc3\xa4"
                                                  "1";
    for (char& c : text) c = alphabet[random() % alphabet.size()];
    const int64_t min_count = 1 + round % 3;
    REQUIRE(tt::train_bpe(text, {.vocabulary = 320, .min_count = min_count}) ==
            train_by_definition(text, 320, min_count));
  }
  const std::string run(1000, 'a');
  CHECK(tt::train_bpe(run, {.vocabulary = 300}) == train_by_definition(run, 300, 2));
}

TEST_CASE("ties are broken by the smaller left token, then the smaller right one") {
  // ab, ba, dc and a space before a or d occur twice each; the token of the space is larger than those of
  // letters.
  const BpeModel model = tt::train_bpe("ba dc ba dc ab ab", {.vocabulary = 259});
  REQUIRE(model.tokens.size() == 259);
  CHECK(model.tokens[256] == "ab");
  CHECK(model.tokens[257] == "ba");
  CHECK(model.tokens[258] == "dc");
}

TEST_CASE("special tokens come last and are never learned") {
  std::string text;
  for (int i = 0; i < 50; ++i) text += "xyxy xy ";
  const BpeModel model = tt::train_bpe(text, {.vocabulary = 300, .specials = {"xy", "<|end|>"}});
  const auto count = static_cast<int32_t>(model.tokens.size());
  CHECK(model.specials == std::map<std::string, int32_t>{{"xy", count - 2}, {"<|end|>", count - 1}});
  const BpeTokenizer tokenizer(model);  // throws if a token is listed twice
  CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
}

TEST_CASE("no pair spans two texts, and the order of the texts does not matter") {
  const std::vector<std::string_view> texts = {"ab", "cd", "ab", "cd"}, turned = {"cd", "ab", "cd", "ab"};
  const BpeModel model = tt::train_bpe(texts, {.vocabulary = 300});
  CHECK(model.tokens.size() == 258);  // no "bc"
  CHECK(tt::train_bpe(turned, {.vocabulary = 300}) == model);
}

TEST_CASE("empty, short and random texts") {
  CHECK(tt::train_bpe("").tokens.size() == 256);
  CHECK(tt::train_bpe("a").tokens.size() == 256);
  CHECK(tt::train_bpe(std::string_view("\0\0\0\0", 4)).tokens.size() == 257);
  std::mt19937 random(9);
  std::string bytes(5000, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  const BpeTokenizer tokenizer(tt::train_bpe(bytes, {.vocabulary = 400}));
  CHECK(tokenizer.decode(tokenizer.encode(bytes)) == bytes);
}

TEST_CASE("options that cannot be satisfied throw") {
  errors::check_error(
      "TT-TEXT-04: train_bpe: a vocabulary of 256 cannot hold the 256 bytes and 1 special tokens\n  hint: "
      "take 257 or more",
      [] { tt::train_bpe("a", {.vocabulary = 256, .specials = {"<|end|>"}}); });
  test::expect_error("TT-TEXT-04", "'x' is too short", [] { tt::train_bpe("a", {.specials = {"x"}}); });
  test::expect_error("TT-TEXT-04", "'xy' is listed twice", [] {
    tt::train_bpe("a", {.specials = {"xy", "xy"}});
  });
}

TEST_CASE("Tiny Shakespeare: 10,000 merges within 5 s" * test::needs_data(kPlay)) {
  const std::string text = tt::load_text(test::data_file(kPlay));
  const auto start = std::chrono::steady_clock::now();
  const BpeTokenizer tokenizer(tt::train_bpe(text, {.vocabulary = 10256}));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  CHECK(tokenizer.model().merges.size() == 10000);
  CHECK(seconds < (test::kSanitized ? 60 : 5));
  const tt::Tokens tokens = tokenizer.encode(text);
  CHECK(tokens.size() == 311559);
  CHECK(tokenizer.decode(tokens) == text);
}
