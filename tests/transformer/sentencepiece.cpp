#include <tinytorch/transformer/sentencepiece.hpp>

#include <tinytorch/tinytorch.hpp>
#include <tinytorch/transformer/tokenizer_json.hpp>

#include <io/files.hpp>
#include <transformer/golden_strings.hpp>

namespace tt = tinytorch;
using files::refusal_of;

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

TEST_CASE("special tokens are text unless they are allowed") {
  const tt::SentencePieceBpe t(
      tt::parse_sentencepiece_json(tt::read_file(golden::path("families/llama2.json"))));
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

TEST_CASE("pairs are merged by rank, the leftmost first, whatever the length of the text") {
  tt::SentencePieceModel m;
  m.tokens = {"a", "aa", "aaaa"}, m.merges = {{0, 0}, {1, 1}};
  m.prefix = tt::SpacePrefix::never;
  const tt::SentencePieceBpe t(m);
  for (const size_t n : {0, 1, 2, 3, 7, 4096, 100003}) {
    tt::Tokens expected(n / 4, 2);
    if (n % 4 >= 2) expected.push_back(1);
    if (n % 2 == 1) expected.push_back(0);
    CHECK(t.encode(std::string(n, 'a')) == expected);
  }
}
