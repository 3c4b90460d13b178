// Each way in which a vocabulary can be invalid has a message of its own.
#include <tinytorch/transformer/bpe_model.hpp>

#include <functional>
#include <set>

#include <support/errors.hpp>

namespace tt = tinytorch;
using tt::BpeModel;

namespace {

// The 256 bytes by value, two merges, a special token.
BpeModel small_model() {
  BpeModel model;
  for (int b = 0; b < 256; ++b) model.tokens.emplace_back(1, static_cast<char>(b));
  for (const char* text : {"ab", "abc", "<|end|>"}) model.tokens.emplace_back(text);
  model.merges = {{'a', 'b'}, {256, 'c'}};
  model.specials["<|end|>"] = 258;
  return model;
}

}  // namespace

TEST_CASE("valid models have no problem") {
  CHECK(!tt::bpe::problem_of(small_model()));
  BpeModel model = small_model();
  model.before = {258};
  model.tokens.emplace_back();  // an unused number
  CHECK(!tt::bpe::problem_of(model));
  model.specials["a"] = 'a', model.specials["ab"] = 256;  // both are ordinary tokens too
  CHECK(!tt::bpe::problem_of(model));
}

TEST_CASE("invalid models report their problem") {
  const auto refused = [](const std::string& text, const std::function<void(BpeModel&)>& change) {
    BpeModel model = small_model();
    change(model);
    test::expect_error("TT-TEXT-04", text, [&] { tt::bpe::require_model(model, tt::Loc::current()); });
  };
  refused("none for byte '\\xff'", [](BpeModel& m) { m.tokens[255].clear(); });
  refused("token 256 'a' twice", [](BpeModel& m) { m.tokens[256] = "a"; });
  refused("merge 1 of tokens 256 'ab' and 97 'a'", [](BpeModel& m) { m.merges[1].right = 'a'; });
  refused("merge 0 of tokens -1", [](BpeModel& m) { m.merges[0].left = -1; });
  refused("merge 0 of tokens 400", [](BpeModel& m) { m.merges[0].left = 400; });
  refused("again", [](BpeModel& m) { m.merges.push_back(m.merges[0]); });
  refused("'<|no|>' as token 3", [](BpeModel& m) { m.specials["<|no|>"] = 3; });
  refused("'' as token 97", [](BpeModel& m) { m.specials[""] = 97; });
  refused("'a' as token 98", [](BpeModel& m) { m.specials["a"] = 98; });
  refused("a token for the result of each merge", [](BpeModel& m) { m.merges.push_back({'b', 'c'}); });
  refused("token 3", [](BpeModel& m) { m.after = {3}; });
}

TEST_CASE("GPT-2's byte order contains every byte once") {
  const std::set<unsigned char> bytes(tt::bpe::kByteOrder.begin(), tt::bpe::kByteOrder.end());
  CHECK(bytes.size() == 256);
  CHECK(tt::bpe::kByteOrder[0] == '!');
  CHECK(tt::bpe::kByteOrder[tt::bpe::kPrintedBytes] == 0);
}
