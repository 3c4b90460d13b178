// The bundled models: the reader accepts them, and they have the expected sizes.
#include <doctest/doctest.h>

#include <map>
#include <set>
#include <tinymlperf/entries/bundled.hpp>

using namespace tinymlperf;

TEST_CASE(
    "the reader accepts the bundled models of dig, which have different names and the sizes of their "
    "papers") {
  const auto recipes = bundled_recipes();
  REQUIRE(recipes.size() >= 4);
  std::set<std::string> names;
  std::map<std::string, const EntrySpec*> by_name;
  for (const Recipe& r : recipes) {
    CHECK(r.epochs > 0);
    CHECK(r.learning_rate > 0);
    names.insert(r.spec.name);
    by_name[r.spec.name] = &r.spec;
  }
  CHECK(names.size() == recipes.size());
  CHECK(by_name.at("linear")->parameters == 7850);
  CHECK(by_name.at("mlp")->parameters == 784 * 128 + 128 + 1290);
  CHECK(by_name.at("lenet")->parameters == 61706);  // LeNet-5 with full connections
  CHECK(by_name.at("wasteful")->multiply_adds > 10 * by_name.at("lenet")->multiply_adds);
}

TEST_CASE(
    "kws has a DS-CNN of 32 channels, ad an autoencoder, lm a GPT, and each also a model that is too small") {
  const auto recipes = bundled_recipes("kws");
  REQUIRE(recipes.size() == 2);
  for (const Recipe& r : recipes) {
    CHECK(r.spec.benchmark == "kws");
    CHECK(r.epochs > 0);
  }
  // 5 x 5 filters, three separable blocks, batch norm after each convolution, linear layer 6 x 32 -> 12.
  const int64_t block = 32 * 9 + 32 * 32 + 4 * 32;
  CHECK(recipes[0].spec.parameters == 32 * 25 + 2 * 32 + 3 * block + (6 * 32 * 12 + 12));
  CHECK(recipes[1].spec.parameters < recipes[0].spec.parameters / 4);
  const auto sounds = bundled_recipes("ad");
  REQUIRE(sounds.size() == 2);
  CHECK(sounds[0].spec.multiply_adds == 2 * (640 * 128 + 128 * 128 + 128 * 8));
  CHECK(sounds[1].spec.multiply_adds < sounds[0].spec.multiply_adds / 4);
  const auto text = bundled_recipes("lm");
  REQUIRE(text.size() == 2);
  CHECK(text[0].spec.gpt->context == kContextBytes);
  CHECK(text[1].spec.parameters < text[0].spec.parameters / 4);
  CHECK_THROWS_AS(bundled_recipes("tea"), std::invalid_argument);
}
