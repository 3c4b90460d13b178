// The verdicts of bench_profiler on a profiler of known cost: states are measured in turns on a simulated
// machine.
#include <doctest/doctest.h>

#include <profiler_overhead.hpp>
#include <support/noise.hpp>

using bench::Overhead;
using bench::ProfilerState;

namespace {

// Ops of 1 ms with an observer check that costs the fraction `gate` and a profiler that costs the fraction
// `watched`, on a machine that becomes slower by half and has `noise`.
Overhead simulate(double gate, double watched, uint64_t seed, bool judged = true, double noise = 0.01) {
  tinytorch::Generator random(seed);
  double turns = 0;
  return bench::measure_overhead("op", judged, 20, seed, [&](ProfilerState state) {
    const double drift = 1 + 0.5 * turns++ / 60;
    const double cost = state == ProfilerState::bare       ? 1
                        : state == ProfilerState::detached ? 1 + gate
                                                           : (1 + gate) * (1 + watched);
    return 1e-3 * drift * cost * std::exp(noise * normal_number(random));
  });
}

int objections(double gate, double watched, int runs) {
  int n = 0;
  for (int i = 0; i < runs; ++i)
    n += !objection(simulate(gate, watched, static_cast<uint64_t>(i + 1))).empty();
  return n;
}

}  // namespace

TEST_CASE("each state is measured once per block, in changing order, and ratios match the states") {
  std::vector<ProfilerState> seen;
  const Overhead o = bench::measure_overhead("op", true, 8, 3, [&](ProfilerState state) {
    seen.push_back(state);
    return state == ProfilerState::bare ? 1.0 : state == ProfilerState::detached ? 1.25 : 1.5;
  });
  REQUIRE(seen.size() == 24);
  bool changed = false;
  for (size_t block = 0; block < 8; ++block) {
    size_t states = 0;
    for (size_t i = 0; i < 3; ++i) states |= size_t{1} << static_cast<size_t>(seen[3 * block + i]);
    CHECK(states == 7);
    changed = changed || seen[3 * block] != seen[0];
  }
  CHECK(changed);
  CHECK(o.attached.estimate == doctest::Approx(1.2));
  CHECK(o.detached.estimate == doctest::Approx(1.25));
  CHECK(o.of(ProfilerState::attached) == std::vector<double>(8, 1.5));
}

TEST_CASE("a limit is exceeded if the whole interval is above it") {
  Overhead o{"op", true, {}, {1.05, 1.0301, 1.07}, {1, 0.99, 1.01}};
  CHECK(objection(o) == "op: a profiler that is attached costs at least 3.01 %, and may cost 3 %");
  o.attached.low = 1.03;
  CHECK_FALSE(objection(o).empty());
  o.attached.low = 1.0299;
  CHECK(objection(o).empty());
  o.detached = {1.02, 1.002, 1.04};
  CHECK(objection(o) == "op: a profiler that is detached costs at least 0.20 %, and may cost 0.1 %");
  CHECK(objection(o, {.detached = 0.01}).empty());
  o.judged = false;
  CHECK(objection(o).empty());
}

TEST_CASE("a cheap profiler passes on a drifting machine; an expensive one or an expensive gate fails") {
  CHECK(objections(0, 0.01, 100) == 0);
  CHECK(objections(0, 0.05, 100) >= 95);
  CHECK(objections(0.02, 0.01, 100) >= 95);
  CHECK(objections(0, 0.03, 200) <= 12);  // at the limit: 2.5 % of 200, plus 3 standard errors
}

TEST_CASE("the size grows until a call takes long enough") {
  int calls = 0;
  const auto linear = [&](int64_t n) { return ++calls, static_cast<double>(n) * 1e-6; };
  CHECK(bench::size_that_takes(1e-3, 64, 2, linear) == 1024);
  CHECK(calls == 4 * 5);
  CHECK(bench::size_that_takes(1e-3, 2000, 2, linear) == 2000);
}
