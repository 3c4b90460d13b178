// Byte pair encoding is compared with tiktoken and tokenizers on 12,000 strings; round trips of any bytes are
// exact.
#include <tinytorch/transformer/bpe.hpp>

#include <chrono>
#include <thread>
#include <tinytorch/io/text.hpp>
#include <tinytorch/transformer/bpe_files.hpp>

#include <support/data.hpp>
#include <support/errors.hpp>
#include <support/sanitized.hpp>
#include <transformer/golden_strings.hpp>

namespace tt = tinytorch;
using tt::BpeTokenizer;
using tt::SpecialPolicy;
using tt::Tokens;

namespace {

const char* const kEncoder = "gpt2/encoder.json";
const char* const kPlay = "tinyshakespeare/input.txt";
const SpecialPolicy kAllowed{.allow_all = true};

tt::BpeModel gpt2_model() {
  return tt::parse_gpt2(tt::read_file(test::data_file(kEncoder)),
                        tt::read_file(test::data_file("gpt2/vocab.bpe")));
}
BpeTokenizer small(const char* pattern) {
  return tt::load_tokenizer_json(golden::path(std::string("small_") + pattern + ".json"));
}

// The 256 bytes by value, then the results of the merges, then the special tokens.
tt::BpeModel model_of(const std::vector<tt::BpeMerge>& merges,
                      const std::vector<std::string>& specials = {}) {
  tt::BpeModel model;
  for (int b = 0; b < 256; ++b) model.tokens.emplace_back(1, static_cast<char>(b));
  for (const tt::BpeMerge& m : merges)
    model.tokens.push_back(model.tokens[static_cast<size_t>(m.left)] +
                           model.tokens[static_cast<size_t>(m.right)]);
  model.merges = merges;
  for (const std::string& text : specials) {
    model.specials[text] = static_cast<int32_t>(model.tokens.size());
    model.tokens.push_back(text);
  }
  return model;
}

// The definition of the encoding: scan all pairs, merge the one of the lowest rank, the leftmost first, and
// repeat.
Tokens merged_by_definition(const tt::BpeModel& model, std::string_view piece) {
  std::vector<std::string> parts;
  for (const char c : piece) parts.emplace_back(1, c);
  while (true) {
    size_t best = model.merges.size(), place = 0;
    for (size_t rank = 0; rank < best; ++rank) {
      const auto& [left, right] = model.merges[rank];
      for (size_t i = 0; i + 1 < parts.size() && rank < best; ++i) {
        if (parts[i] == model.tokens[static_cast<size_t>(left)] &&
            parts[i + 1] == model.tokens[static_cast<size_t>(right)]) {
          best = rank;
          place = i;
        }
      }
    }
    if (best == model.merges.size()) break;
    parts[place] += parts[place + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
  Tokens out;
  for (const std::string& part : parts)
    out.push_back(static_cast<int32_t>(std::find(model.tokens.begin(), model.tokens.end(), part) -
                                       model.tokens.begin()));
  return out;
}

}  // namespace

TEST_CASE("small vocabularies give the ids of tokenizers, with special tokens") {
  const golden::Strings strings;
  for (const char* pattern : {"gpt2", "cl100k"}) {
    const BpeTokenizer tokenizer = small(pattern);
    strings.check(std::string("small_") + pattern,
                  [&](const std::string& s) { return tokenizer.encode(s, kAllowed); });
    bool same = true;
    for (const std::string& s : strings.all()) {
      same = same && tokenizer.decode(tokenizer.encode(s)) == s &&
             tokenizer.decode(tokenizer.encode(s, kAllowed)) == s;
    }
    CHECK(same);
  }
}

TEST_CASE("a file like Llama 3's gives the ids of tokenizers, with the tokens of its template") {
  const golden::Strings strings;
  const BpeTokenizer tokenizer = small("llama3");
  const tt::BpeModel& model = tokenizer.model();
  const int32_t begin = tokenizer.special("<|begin_of_text|>"), end = tokenizer.special("<|endoftext|>");
  CHECK(model.ignore_merges);
  CHECK(model.pattern == tt::SplitPattern::cl100k);
  CHECK(model.before == Tokens{begin});
  CHECK(model.after.empty());
  const auto as_tokenizers = tt::SpecialPolicy::as_tokenizers();
  strings.check("small_llama3", [&](const std::string& s) { return tokenizer.encode(s, as_tokenizers); });
  tt::BpeModel both = model;
  both.after = {end, end};
  const BpeTokenizer around(std::move(both));
  strings.check("small_around", [&](const std::string& s) { return around.encode(s, as_tokenizers); });

  for (const std::string& bytes : golden::awkward_bytes()) {
    CHECK(around.decode(around.encode(bytes)) == bytes);
    CHECK(around.decode(around.encode(bytes, as_tokenizers)) ==
          "<|begin_of_text|>" + bytes + "<|endoftext|><|endoftext|>");
  }
  CHECK(around.encode("") == Tokens{});
  CHECK(around.encode("", {.add = true}) == Tokens{begin, end, end});
  CHECK(around.encode("<|end", {.add = true}).size() > 4);  // still text, because it is not allowed
}

TEST_CASE("GPT-2's vocabulary gives the ids of tiktoken and tokenizers" * test::needs_data(kEncoder)) {
  const golden::Strings strings;
  tt::BpeModel model = gpt2_model();
  const BpeTokenizer gpt2(model);
  CHECK(gpt2.vocabulary() == 50257);
  CHECK(gpt2.special("<|endoftext|>") == 50256);
  CHECK(gpt2.encode("Hello world") == Tokens{15496, 995});
  strings.check("gpt2", [&](const std::string& s) { return gpt2.encode(s); });
  strings.check("gpt2_special", [&](const std::string& s) { return gpt2.encode(s, kAllowed); });
  model.pattern = tt::SplitPattern::cl100k;
  const BpeTokenizer cl100k(model);
  strings.check("cl100k", [&](const std::string& s) { return cl100k.encode(s); });
  for (const std::string& text : golden::awkward_bytes()) CHECK(gpt2.decode(gpt2.encode(text)) == text);
}

TEST_CASE("GPT-2's vocabulary: Tiny Shakespeare has 338,025 tokens" * test::needs_data(kEncoder) *
          test::needs_data(kPlay)) {
  const std::string text = tt::load_text(test::data_file(kPlay));
  const BpeTokenizer gpt2(gpt2_model());
  const Tokens tokens = gpt2.encode(text);
  CHECK(tokens.size() == 338025);
  CHECK(gpt2.decode(tokens) == text);
}

TEST_CASE("decode returns any encoded bytes exactly") {
  for (const char* pattern : {"gpt2", "cl100k"}) {
    const BpeTokenizer tokenizer = small(pattern);
    for (const std::string& text : golden::awkward_bytes())
      CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
  }
}

TEST_CASE(
    "the pair of the lowest rank is merged first, the leftmost of equals; scan and heap match the "
    "definition") {
  const tt::BpeModel model =
      model_of({{'a', 'a'}, {'b', 'c'}, {'a', 'b'}, {256, 'b'}, {256, 256}, {258, 'c'}, {260, 260}});
  const BpeTokenizer tokenizer(model);
  CHECK(tokenizer.encode("aaa") == Tokens{256, 'a'});
  CHECK(tokenizer.encode("abc") == Tokens{'a', 257});  // not {a b} c, although that is a token
  CHECK(tokenizer.encode("aab") == Tokens{259});
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    std::string piece(1 + random() % (i % 2 ? 200 : 64),
                      '\0');  // lengths around the switch from a scan to a heap
    for (char& c : piece) c = "aaabcd"[random() % 6];
    CAPTURE(piece);
    REQUIRE(tokenizer.encode(piece) == merged_by_definition(model, piece));
  }
}

TEST_CASE("ignore_merges: a piece that equals a token becomes that token") {
  tt::BpeModel model = model_of({{'b', 'c'}, {'a', 'b'}, {257, 'c'}});
  CHECK(BpeTokenizer(model).encode("abc") == Tokens{'a', 256});
  model.ignore_merges = true;
  CHECK(BpeTokenizer(model).encode("abc") == Tokens{258});
  CHECK(BpeTokenizer(model).encode("abcc") == Tokens{'a', 256, 'c'});
}

TEST_CASE("pieces of 100,000 equal or random letters take less than quadratic time") {
  const BpeTokenizer tokenizer = small("gpt2");
  std::mt19937 random(6);
  std::string mixed(100'000, '\0');
  for (char& c : mixed) c = static_cast<char>('a' + random() % 26);
  for (const std::string& text :
       {std::string(100'000, 'a'), std::string(100'000, ' '), std::string(100'000, '='), mixed}) {
    const auto start = std::chrono::steady_clock::now();
    CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    CHECK(seconds < (test::kSanitized ? 10 : 1));
  }
}

TEST_CASE("special tokens are encoded as text unless they are allowed") {
  const BpeTokenizer t(model_of({}, {"<|a|>", "<|a|><|b|>", "<|b|>"}));
  const int32_t a = 256, ab = 257, b = 258;
  CHECK(t.encode("<|a|>").size() == 5);
  CHECK(t.encode("x<|a|>y", kAllowed) == Tokens{'x', a, 'y'});
  CHECK(t.encode("<|a|><|b|>", kAllowed) == Tokens{ab});  // the longer of two matches at one position
  CHECK(t.encode("<|b|><|a|><|a|", kAllowed) == Tokens{b, a, '<', '|', 'a', '|'});
  CHECK(t.encode("<|a|><|b|>", {.allowed = {"<|b|>"}}) == Tokens{'<', '|', 'a', '|', '>', b});
  CHECK(t.encode("<|b|>", {.allowed = {"<|b|>"}, .refuse_others = true}) == Tokens{b});
  CHECK(t.encode("", kAllowed).empty());
  CHECK(t.decode(Tokens{a, b}) == "<|a|><|b|>");
  errors::check_error(
      "TT-TEXT-03: BpeTokenizer: the text contains the special token '<|a|>' at byte 1, which is not allowed "
      "here\n"
      "  hint: add it to SpecialPolicy::allowed to get its token, or set refuse_others to false to encode it "
      "as text",
      [&] { t.encode("x<|a|>", {.refuse_others = true}); });
  test::expect_error("TT-TEXT-03", "hint: this vocabulary has '<|a|>', '<|a|><|b|>', '<|b|>'",
                     [&] { t.special("<|c|>"); });
  test::expect_error("TT-TEXT-03", "there is no special token 'x'",
                     [&] { t.encode("x", {.allowed = {"x"}}); });
}

TEST_CASE("many special tokens in a long text are found in linear time") {
  std::vector<std::string> specials;
  for (int i = 0; i < 100; ++i) specials.push_back("<|" + std::to_string(i) + "|>");
  const BpeTokenizer t(model_of({}, specials));
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "<|7|>x";
  const auto start = std::chrono::steady_clock::now();
  CHECK(t.encode(text, kAllowed).size() == 40'000);
  CHECK(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() <
        (test::kSanitized ? 10 : 1));
}

TEST_CASE("decode throws for numbers that are not tokens") {
  tt::BpeModel model = model_of({});
  model.tokens.emplace_back();  // 256 is unused
  model.tokens.emplace_back("<|end|>");
  model.specials["<|end|>"] = 257;
  const BpeTokenizer t(model);
  CHECK(t.vocabulary() == 258);
  for (const int32_t token : {-1, 256, 258, INT32_MAX, INT32_MIN})
    test::expect_error("TT-TEXT-02", std::to_string(token) + " at position 1", [&] {
      t.decode(Tokens{0, token});
    });
}

TEST_CASE("the constructor throws for invalid models") {
  tt::BpeModel model = model_of({{'a', 'b'}, {256, 'c'}}, {"<|end|>"});
  model.tokens[255].clear();
  test::expect_error("TT-TEXT-04", "none for byte '\\xff'", [&] { BpeTokenizer t(model); });
}

TEST_CASE("threads can share one tokenizer") {
  const BpeTokenizer tokenizer = small("gpt2");
  const golden::Strings strings;
  std::vector<size_t> totals(4);
  std::vector<std::thread> threads;
  for (size_t& total : totals) {
    threads.emplace_back([&] {
      for (size_t i = 0; i < 2000; ++i) total += tokenizer.encode(strings.all()[i]).size();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const size_t total : totals) CHECK(total == totals[0]);
}
