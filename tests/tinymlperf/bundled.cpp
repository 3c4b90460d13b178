#include <doctest/doctest.h>

#include <map>
#include <set>
#include <tinymlperf/bundled.hpp>

using namespace tinymlperf;

TEST_CASE(
    "the bundled models: accepted by the reader, distinct, with the sizes their papers or a pencil give") {
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
