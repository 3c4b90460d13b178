#include <support/check.hpp>
#include <tinytorch/profiling/amdahl.hpp>

using namespace course;
using namespace profiling;

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// A profile with `part` seconds of matmul, half of them backward, `rest` seconds of add, and `between`
// seconds in which no op runs.
Profile profile_of(double part, double rest, double between) {
  Profile p;
  p.scopes = {{"", -1, 0, 0}};
  const auto op = [&](const char* name, double seconds, bool backward) {
    OpRecord r;
    r.name = name;
    r.device_seconds = seconds;
    r.backward = backward;
    p.ops.push_back(r);
  };
  op("matmul", part / 4, false), op("add", rest, false), op("matmul", part / 4, false),
      op("matmul", part / 2, true);
  p.seconds = part + rest + between;
  return p;
}
void expect_value(const std::string& what, double got, double want, const std::string& guess = "") {
  const bool good =
      want == kInfinite ? got == kInfinite : std::abs(got - want) <= 1e-12 * (1 + std::abs(want));
  expect(what + ": " + shown(want) + ", got " + shown(got), good, good ? "" : guess);
}

}  // namespace

TEST_CASE("5.7 the formula of Amdahl's law") {
  expect_value("50 % of the time becomes 2 times faster", amdahl_speedup(0.5, 2), 4.0 / 3);
  expect_value("95 % of the time becomes 20 times faster", amdahl_speedup(0.95, 20), 1 / (0.05 + 0.0475));
  expect_value("60 % of the time becomes 3 times faster", amdahl_speedup(0.6, 3), 1 / 0.6);
  expect_value("0 % of the time becomes 10 times faster", amdahl_speedup(0, 10), 1);
  expect_value("100 % of the time becomes 10 times faster", amdahl_speedup(1, 10), 10);
  expect_value("60 % of the time does not change", amdahl_speedup(0.6, 1), 1);
  expect_value("50 % of the time takes twice as long", amdahl_speedup(0.5, 0.5), 1 / 1.5);
}

TEST_CASE("5.7 the bound for an infinite speedup of the part") {
  expect_value("bound if 95 % of the time vanishes", amdahl_bound(0.95), 20);
  expect_value("bound if 50 % of the time vanishes", amdahl_bound(0.5), 2);
  expect_value("bound if 0 % of the time vanishes", amdahl_bound(0), 1);
  expect_value("bound if all of the time vanishes", amdahl_bound(1), kInfinite);
  expect_value("the law with an infinite factor is the bound", amdahl_speedup(0.75, kInfinite),
               amdahl_bound(0.75));
}

TEST_CASE("5.7 the time of all rows with one name") {
  ProfileTable table(4);
  const char* const names[] = {"matmul", "add", "matmul", "matmul bias"};
  for (size_t i = 0; i < 4; ++i) table[i].name = names[i], table[i].seconds = 1 << i;
  table[2].backward = true;
  expect_value("seconds_in of matmul, 1 s forward and 4 s backward", seconds_in(table, "matmul"), 5);
  expect_value("seconds_in of add", seconds_in(table, "add"), 2);
  expect_value("seconds_in of an op without a row", seconds_in(table, "conv2d"), 0);
}

TEST_CASE("5.7 a change of the part alone gives the predicted speedup") {
  const AmdahlCheck c = check_amdahl(profile_of(6, 3, 1), profile_of(2, 3, 1), "matmul");
  const std::string step =
      "of 10 s, matmul takes 6, add 3, and 1 is between ops; afterwards matmul takes 2: ";
  expect_value(step + "share", c.share, 0.6,
               std::abs(c.share - 2.0 / 3) < 1e-9
                   ? "this is the share of the time in ops, but the time between ops counts, too"
               : std::abs(c.share - 0.3) < 1e-9
                   ? "this counts only the forward calls, or only the backward calls"
                   : "");
  expect_value(step + "factor", c.factor, 3);
  expect_value(step + "bound", c.bound, 2.5);
  expect_value(step + "predicted", c.predicted, 10.0 / 6);
  expect_value(step + "measured", c.measured, 10.0 / 6,
               "divide the whole time before by the whole time after");
  expect_value(step + "rest_seconds", c.rest_seconds, 0);
}

TEST_CASE("5.7 a change of the rest is reported") {
  const AmdahlCheck slower = check_amdahl(profile_of(6, 3, 1), profile_of(2, 4, 1.5), "matmul");
  expect_value("predicted, if the rest became 1.5 s slower", slower.predicted, 10.0 / 6);
  expect_value("measured", slower.measured, 10 / 7.5);
  expect_value("rest_seconds", slower.rest_seconds, 1.5,
               "the rest after minus the rest before: above 0 is slower");
  const AmdahlCheck faster = check_amdahl(profile_of(6, 3, 1), profile_of(3, 1, 1), "matmul");
  expect_value("rest_seconds, if the rest became 2 s faster", faster.rest_seconds, -2);
  expect_value("measured, then", faster.measured, 2);
}

TEST_CASE("5.7 a part that takes no time any more, and one that never ran") {
  const AmdahlCheck c = check_amdahl(profile_of(6, 3, 1), profile_of(0, 3, 1), "matmul");
  expect_value("factor of a part that takes no time any more", c.factor, kInfinite);
  expect_value("predicted of a part that takes no time any more: the bound", c.predicted, 2.5);
  expect_value("measured", c.measured, 2.5);
  expect_throws("TT-PROF-01", "check_amdahl of an op that is in neither profile",
                [] { check_amdahl(profile_of(1, 1, 1), profile_of(1, 1, 1), "conv2d"); });
}
