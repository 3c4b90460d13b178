// Ablation with a simulated clock, so that the results are known.
#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <tinytorch/profiling/ablation.hpp>

using namespace tinytorch::profiling;

namespace {

// A step of 12 s: `a` removes 6 s, `b` halves the rest, `c` does nothing.
struct World {
  bool a = false, b = false, c = false;
  double now = 0;
  int steps = 0;
  void step() {
    now += (12 - (a ? 6 : 0)) * (b ? 0.5 : 1);
    ++steps;
  }
  std::vector<Optimization> optimizations() {
    return {{"a", [this](bool on) { a = on; }}, {"b", [this](bool on) { b = on; }}, {"c", [this](bool on) {
                                                                                       c = on;
                                                                                     }}};
  }
};

}  // namespace

TEST_CASE("speedups of each alone, all but each, and all together are relative to none") {
  World world;
  const Ablation result = ablate(
      world.optimizations(), [&] { world.step(); }, {.blocks = 6}, [&] { return world.now; });
  std::vector<std::string> names;
  std::vector<double> speedups;
  for (const AblationRow& row : result.rows) {
    names.push_back(row.name);
    speedups.push_back(row.speedup.estimate);
    CHECK(row.samples.size() == 6);
    CHECK(row.speedup.low <= row.speedup.estimate);
    CHECK(row.speedup.estimate <= row.speedup.high);
  }
  CHECK(names ==
        std::vector<std::string>{"none", "a", "b", "c", "all but a", "all but b", "all but c", "all"});
  CHECK(speedups == std::vector<double>{1, 2, 2, 1, 2, 2, 4, 4});
  CHECK(result.expected == 4);
  CHECK(result.rows[0].seconds.estimate == 12);
  CHECK_FALSE((world.a || world.b || world.c));
  CHECK(world.steps == 8 * 6 * 3);
}

TEST_CASE("with two optimizations there is no `all but`; interfering optimizations are visible") {
  World world;
  double now = 0;
  std::vector<Optimization> two = world.optimizations();
  two.pop_back();
  const Ablation result = ablate(
      two, [&] { now += world.a && world.b   ? 10
                        : world.a || world.b ? 5
                                             : 20; }, {.blocks = 6},
      [&] { return now; });
  REQUIRE(result.rows.size() == 4);
  CHECK(result.rows[3].speedup.estimate == 2);
  CHECK(result.expected == 16);
}

TEST_CASE("ablate throws without optimizations and for too few blocks") {
  CHECK(errors::thrown_by([] { ablate({}, [] {}); }).code == "TT-PROF-05");
  CHECK(errors::thrown_by([] { ablate({{"a", [](bool) {}}}, [] {}, {.blocks = 5}); }).code == "TT-PROF-06");
}
