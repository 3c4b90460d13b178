#include <tinytorch/transformer/hugging_face_keys.hpp>

#include <doctest/doctest.h>

#include <tinytorch/tinytorch.hpp>

#include <io/files.hpp>

namespace tt = tinytorch;
namespace hf = tinytorch::hugging_face;

TEST_CASE("keys: defaults, null, lists, and all problems in one message") {
  const std::string text =
      R"({"a": 3, "none": null, "list": [1, 2.5], "bad": [1, "x"], "zero": 0, "t": [4, 5]})";
  const tt::Json json = hf::parse_object(tt::as_bytes(text), {"c.json", "a config", tt::Loc::current()});
  hf::ConfigReader in(json, "c.json", tt::Loc::current());
  CHECK(in.size("a") == 3);
  CHECK(in.size("none", 7) == 7);
  CHECK(in.size("zero", 7, 0) == 0);
  CHECK((in.has("none") && !in.find("none") && !in.has("gone")));
  CHECK(in.numbers("list") == std::vector<double>{1, 2.5});
  CHECK(in.tokens("t", {}) == std::vector<int64_t>{4, 5});
  in.finish();
  in.numbers("bad"), in.size("zero"), in.text("a", "");
  const auto refusal = files::refusal_of([&] { in.finish(); });
  CHECK(refusal.code == "TT-IO-03");
  for (const char* part :
       {"bad should be a list of numbers", "zero should be an integer from 1", "a should be a string"})
    CHECK(files::contains(refusal.text, part));
}

TEST_CASE("what ConfigWriter writes is read back") {
  hf::ConfigWriter out;
  out.add("i", int64_t{-4}).add("d", 0.1).add("b", true).add("s", std::string("a\"b")).tokens(-1, {2, 3});
  const tt::Json json = hf::parse_object(tt::as_bytes(out.str()), {"c.json", "a config", tt::Loc::current()});
  hf::ConfigReader in(json, "c.json", tt::Loc::current());
  CHECK(json.find("i")->integer() == -4);
  CHECK(in.real("d", 0) == 0.1);
  CHECK(in.boolean("b", false));
  CHECK(in.text("s", "") == "a\"b");
  CHECK(in.tokens("eos_token_id", {}) == std::vector<int64_t>{2, 3});
}
