#include <tinytorch/transformer/bpe.hpp>

#include "texts.hpp"

using namespace course;

namespace {

// Tokens 0 to 255 are the bytes by value, followed by the tokens of the merges, then by the special tokens.
BpeModel model_of(const std::vector<BpeMerge>& merges, const std::vector<std::string>& specials = {}) {
  BpeModel model;
  for (int b = 0; b < 256; ++b) model.tokens.emplace_back(1, static_cast<char>(b));
  const auto bytes = [&](int32_t token) { return model.tokens[static_cast<size_t>(token)]; };
  for (const BpeMerge& m : merges) model.tokens.push_back(bytes(m.left) + bytes(m.right));
  for (const std::string& text : specials) {
    model.specials[text] = static_cast<int32_t>(model.tokens.size());
    model.tokens.push_back(text);
  }
  model.merges = merges;
  return model;
}

// A model with random, different merges.
BpeModel random_model(int merges) {
  BpeModel model = model_of({});
  const std::string letters = "abcde 1\xc3\xa4";
  std::vector<int32_t> known(letters.begin(), letters.end());
  for (int32_t& t : known) t &= 255;
  while (merges > 0) {
    const auto pick = [&] {
      return known[static_cast<size_t>(uniform(0, static_cast<double>(known.size())))];
    };
    const BpeMerge m{pick(), pick()};
    const std::string bytes =
        model.tokens[static_cast<size_t>(m.left)] + model.tokens[static_cast<size_t>(m.right)];
    if (bytes.size() > 12 || std::find(model.tokens.begin(), model.tokens.end(), bytes) != model.tokens.end())
      continue;
    known.push_back(static_cast<int32_t>(model.tokens.size()));
    model.tokens.push_back(bytes);
    model.merges.push_back(m);
    --merges;
  }
  return model;
}

// Encoding by the definition: apply the merges in the order in which they were learned; each merges its pair
// everywhere, from the left. (The pairs that a merge creates were learned after it.)
Tokens by_definition(const BpeModel& model, std::string_view text) {
  Tokens out;
  for (const std::string_view piece : pretokenize(text, model.pattern)) {
    std::vector<int32_t> tokens;
    for (const char c : piece) tokens.push_back(static_cast<unsigned char>(c));
    for (size_t rank = 0; rank < model.merges.size(); ++rank) {
      for (size_t i = 1; i < tokens.size(); ++i) {
        if (tokens[i - 1] != model.merges[rank].left || tokens[i] != model.merges[rank].right) continue;
        tokens[i - 1] = static_cast<int32_t>(256 + rank);
        tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    out.insert(out.end(), tokens.begin(), tokens.end());
  }
  return out;
}

}  // namespace

TEST_CASE("4.3 without merges every byte is a token") {
  const BpeTokenizer t(model_of({}));
  expect_equal("encode(\"abc\")", t.encode("abc"), Tokens{'a', 'b', 'c'});
  expect_equal("encode(\"\\xc3\\xa4\"): the bytes of a character, from 0 to 255", t.encode("\xc3\xa4"),
               Tokens{0xc3, 0xa4});
  expect_equal("encode(\"\")", t.encode(""), Tokens{});
}

TEST_CASE("4.3 a pair of neighbours becomes the token of its merge") {
  const BpeTokenizer t(model_of({{'a', 'b'}, {256, 'c'}}));
  expect_equal("encode(\"ab\"), merges ab, ab+c", t.encode("ab"), Tokens{256});
  expect_equal("encode(\"abcab\"), merges ab, ab+c", t.encode("abcab"), Tokens{257, 256});
  expect_equal("encode(\"ba\"), merges ab, ab+c", t.encode("ba"), Tokens{'b', 'a'});
}

TEST_CASE("4.3 the merge learned first is applied first") {
  expect_equal("encode(\"abc\"), merges bc, ab",
               BpeTokenizer(model_of({{'b', 'c'}, {'a', 'b'}})).encode("abc"), Tokens{'a', 256});
  // An encoder that takes the longest token from the left would give abc, d.
  expect_equal("encode(\"abcd\"), merges cd, ab, ab+c",
               BpeTokenizer(model_of({{'c', 'd'}, {'a', 'b'}, {257, 'c'}})).encode("abcd"), Tokens{257, 256});
}

TEST_CASE("4.3 equal pairs are merged from the left") {
  const BpeTokenizer t(model_of({{'a', 'a'}, {256, 256}}));
  expect_equal("encode(\"aaa\"), merges aa, aa+aa", t.encode("aaa"), Tokens{256, 'a'});
  expect_equal("encode(\"aaaaaaa\"), merges aa, aa+aa", t.encode("aaaaaaa"), Tokens{257, 256, 'a'});
}

TEST_CASE("4.3 nothing is merged across the boundary of two pieces") {
  const BpeTokenizer t(model_of({{'a', ' '}, {' ', 'b'}, {'a', '1'}}));
  expect_equal("encode(\"a b\"), merges a+space, space+b: the pieces are \"a\" and \" b\"", t.encode("a b"),
               Tokens{'a', 257});
  expect_equal("encode(\"a1\"), merge a1: the pieces are \"a\" and \"1\"", t.encode("a1"), Tokens{'a', '1'});
}

TEST_CASE("4.3 random vocabularies and texts give the tokens of the definition") {
  for (int round = 0; round < 8; ++round) {
    const BpeModel model = random_model(5 + 6 * round);
    const std::string text = text_of({"a", "b", "c", "d", "e", " ", "1", "\xc3\xa4"}, 80);
    expect_equal("encode(" + quoted(text) + ") with " + std::to_string(model.merges.size()) + " merges",
                 BpeTokenizer(model).encode(text), by_definition(model, text));
  }
}

TEST_CASE("4.3 decode(encode(text)) gives the text, for any bytes") {
  const BpeTokenizer t(random_model(40));
  for (int round = 0; round < 4; ++round) {
    expect_round_trip("letters", t, text_of(kLetters, 80));
    expect_round_trip("many scripts", t, text_of(kManyScripts, 80));
    expect_round_trip("any bytes", t, any_bytes(200));
  }
}

TEST_CASE("4.3 numbers that are not tokens are refused") {
  BpeModel model = model_of({});
  model.tokens.emplace_back();  // token 256 is unused
  model.tokens.emplace_back("<|end|>");
  model.specials["<|end|>"] = 257;
  const BpeTokenizer t(model);
  expect_equal("decode({104, 105, 257})", t.decode(Tokens{'h', 'i', 257}), std::string("hi<|end|>"));
  for (const int32_t token : {-1, 256, 258, INT32_MAX, INT32_MIN}) {
    expect_throws("TT-TEXT-02",
                  "decode({0, " + std::to_string(token) + "}), 258 tokens of which 256 has no bytes", [&] {
                    t.decode(Tokens{0, token});
                  });
  }
}

TEST_CASE("4.3 the text of a special token is plain text unless special tokens are allowed") {
  const BpeTokenizer t(model_of({{'<', '|'}}, {"<|e|>"}));
  expect_equal("encode(\"a<|e|>\")", t.encode("a<|e|>"), Tokens{'a', 256, 'e', '|', '>'});
  expect_equal("encode(\"a<|e|>b\", {.allow_all = true})", t.encode("a<|e|>b", {.allow_all = true}),
               Tokens{'a', 257, 'b'});
}
