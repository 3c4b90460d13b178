// The gate on made-up runs: floors, and what a closed division's entry may lose.
#include <doctest/doctest.h>

#include <tinymlperf/judge/quality_gate.hpp>

using namespace tinymlperf::judge;

namespace {

// Contenders that answer these shares of 10,000 samples correctly; the second errs where the first does, and beyond.
RunDocument run(double baseline, double other, const char* division) {
  RunDocument d;
  d.division = division;
  d.quality_metric = "accuracy";
  d.quality_floor = 0.8;
  for (const double share : {baseline, other}) {
    ContenderRecord c;
    const auto right = static_cast<size_t>(share * 10000);
    c.credit = std::string(right, '1') + std::string(10000 - right, '0');
    c.quality = tinytorch::statistics::bootstrap_proportion(static_cast<int64_t>(right), 10000);
    d.contenders.push_back(c);
  }
  return d;
}
GateResult gate(const RunDocument& d) { return quality_gate(d, d.contenders[1]); }

}  // namespace

TEST_CASE("open: the lower bound must reach the floor") {
  CHECK(gate(run(0.99, 0.85, "open")).passed);
  const GateResult below = gate(run(0.99, 0.803, "open"));  // the estimate is above, the bound is not
  CHECK_FALSE(below.passed);
  CHECK(below.reason.find("below the floor of 0.8") != std::string::npos);
}

TEST_CASE("closed: 99 % of the baseline's quality, sample by sample") {
  CHECK(gate(run(0.98, 0.98, "closed")).passed);
  CHECK(gate(run(0.98, 0.975, "closed")).passed);
  const GateResult lost = gate(run(0.98, 0.965, "closed"));
  CHECK_FALSE(lost.passed);
  CHECK(lost.reason.find("lost more than 1 %") != std::string::npos);
}

TEST_CASE("what was not measured, is out, or has no credit does not pass") {
  RunDocument d = run(0.98, 0.98, "closed");
  d.contenders[1].credit.clear();
  CHECK_FALSE(gate(d).passed);
  d.contenders[1].quality.reset();
  CHECK_FALSE(gate(d).passed);
  d = run(0.98, 0.98, "open");
  d.contenders[1].out = "it crashed";
  CHECK(gate(d).reason == "out: it crashed");
}
