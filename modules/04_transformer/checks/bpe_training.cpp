#include <tinytorch/transformer/bpe_trainer.hpp>

#include "texts.hpp"

using namespace course;

namespace {

std::vector<std::string> learned(const BpeModel& model) {
  return {model.tokens.begin() + 256, model.tokens.end()};
}
std::vector<std::string> learn(const std::string& text, int64_t merges, int64_t min_count = 2) {
  return learned(train_bpe(text, {.vocabulary = 256 + merges, .min_count = min_count}));
}

// Training by the definition, on strings: count the pairs of neighbours in every piece, merge the most
// frequent pair everywhere, repeat. Ties are ordered by the bytes' position in bpe::kByteOrder; merged tokens
// come after the bytes, in the order in which they were made.
struct ByDefinition {
  std::vector<std::string> tokens;
  std::vector<std::vector<int>> pieces;

  ByDefinition(std::string_view text, int64_t merges, int64_t min_count) {
    for (const unsigned char b : bpe::kByteOrder) tokens.emplace_back(1, static_cast<char>(b));
    for (const std::string_view piece : pretokenize(text, SplitPattern::gpt2)) {
      pieces.emplace_back();
      for (const char c : piece) {
        int number = 0;
        while (tokens[static_cast<size_t>(number)][0] != c) ++number;
        pieces.back().push_back(number);
      }
    }
    while (merges-- > 0 && join_best(min_count)) {
    }
  }
  bool join_best(int64_t min_count) {
    std::map<std::pair<int, int>, int64_t> counts;
    for (const auto& piece : pieces) {
      for (size_t i = 1; i < piece.size(); ++i) ++counts[{piece[i - 1], piece[i]}];
    }
    std::pair<int, int> best{};
    int64_t most = 0;
    for (const auto& [pair, count] : counts) {
      if (count > most) best = pair, most = count;
    }
    if (most < min_count) return false;
    tokens.push_back(tokens[static_cast<size_t>(best.first)] + tokens[static_cast<size_t>(best.second)]);
    for (auto& piece : pieces) {
      for (size_t i = 1; i < piece.size(); ++i) {
        if (piece[i - 1] != best.first || piece[i] != best.second) continue;
        piece[i - 1] = static_cast<int>(tokens.size()) - 1;
        piece.erase(piece.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    return true;
  }
};

void expect_learned(const std::string& text, int64_t merges, int64_t min_count) {
  const ByDefinition want(text, merges, min_count);
  const BpeModel got = train_bpe(text, {.vocabulary = 256 + merges, .min_count = min_count});
  std::string what = std::to_string(merges) + " merges of pairs that occur " + std::to_string(min_count) +
                     " times or more in " + quoted(text);
  for (size_t i = 256; i < std::min(got.tokens.size(), want.tokens.size()); ++i) {
    expect_equal(what + "\n  merge number " + std::to_string(i - 256), quoted(got.tokens[i]),
                 quoted(want.tokens[i]));
  }
  expect_equal(what + "\n  number of tokens", got.tokens.size(), want.tokens.size());
}

}  // namespace

TEST_CASE("4.2 the most frequent pair is merged first") {
  expect_equal("one merge of \"abcabd\"", learn("abcabd", 1), std::vector<std::string>{"ab"});
  expect_equal("two merges of \"abcxabcyab\"", learn("abcxabcyab", 2), std::vector<std::string>{"ab", "abc"});
  const BpeModel model = train_bpe("abcxabcyab", {.vocabulary = 258});
  const auto number = [](char c) {
    return static_cast<int32_t>(std::find(bpe::kByteOrder.begin(), bpe::kByteOrder.end(), c) -
                                bpe::kByteOrder.begin());
  };
  expect("merges of \"abcxabcyab\": (a, b), then (256, c)",
         model.merges == std::vector<BpeMerge>{{number('a'), number('b')}, {256, number('c')}},
         "model.merges holds the two tokens of each merge, in the order in which the merges were learned");
}

TEST_CASE("4.2 a run of one letter is merged from the left") {
  expect_equal("merges of \"aaaaaaa\"", learn("aaaaaaa", 5), std::vector<std::string>{"aa", "aaaa"});
  expect_learned(std::string(100, 'a'), 20, 2);
}

TEST_CASE("4.2 a pair is counted once per occurrence of its piece") {
  // The piece " xy" occurs three times; "ab" occurs twice in a piece that occurs once.
  expect_equal("one merge of \"abab xy xy xy\"", learn("abab xy xy xy", 1), std::vector<std::string>{"xy"});
}

TEST_CASE("4.2 no token crosses a boundary between pieces or texts") {
  const std::vector<std::string_view> texts = {"ab", "cd", "ab", "cd", "ab", "cd"};
  const BpeModel model = train_bpe(texts, {.vocabulary = 300});
  expect_equal("train_bpe({\"ab\", \"cd\", \"ab\", \"cd\", ...}): no \"bc\"", learned(model),
               std::vector<std::string>{"ab", "cd"});
  expect_equal("merges of \"a1a1a1\": letters and digits are separate pieces", learn("a1a1a1", 10),
               std::vector<std::string>{});
}

TEST_CASE("4.2 ties go to the smaller left token, then to the smaller right token") {
  expect_equal("three merges of \"ba dc ba dc ab ab\", where all counts are 2", learn("ba dc ba dc ab ab", 3),
               std::vector<std::string>{"ab", "ba", "dc"});
}

TEST_CASE("4.2 rare pairs are not merged") {
  expect_equal("merges of \"abcd\", min_count 2", learn("abcd", 10), std::vector<std::string>{});
  expect_equal("merges of \"abab\", min_count 3", learn("abab", 10, 3), std::vector<std::string>{});
  expect_equal("merges of \"\"", learn("", 10), std::vector<std::string>{});
}

TEST_CASE("4.2 the merges of random texts are those of the definition") {
  for (int round = 0; round < 4; ++round) expect_learned(text_of(kWords, 80), 20, 1 + round % 3);
  expect_learned(text_of(kManyScripts, 150), 20, 2);
  expect_learned(any_bytes(300), 10, 2);
}

TEST_CASE("4.2 special tokens come last and are never learned") {
  std::string text;
  for (int i = 0; i < 20; ++i) text += "xyxy xyz ";
  const BpeModel model = train_bpe(text, {.vocabulary = 262, .specials = {"xy", "<|end|>"}});
  expect_equal("merges of \"xyxy xyz ...\" where \"xy\" is special: it stays two tokens", learned(model),
               std::vector<std::string>{" x", " xy", " xyz", " xyx", "xy", "<|end|>"});
}
