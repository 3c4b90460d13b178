// Audits on made-up turns: honest noise passes, a real gain fails, and the detail gives the reason.
#include <doctest/doctest.h>

#include <tinymlperf/judge/match/audits.hpp>

using namespace tinymlperf::judge;

namespace {

// Turns whose queries take `seconds`, with the noise of a busy machine: every turn up to a half slower.
std::vector<Turn> turns(double seconds, uint64_t seed, size_t count = 24) {
  tinytorch::Generator random(seed);
  std::vector<Turn> out;
  for (size_t i = 0; i < count; ++i) {
    const double slow = 1 + 0.5 * random.uniform(0, 1) * random.uniform(0, 1);
    Turn t;
    for (int q = 0; q < 30; ++q) t.latencies.push_back(seconds * slow * random.uniform(0.95, 1.05));
    for (const double x : t.latencies) t.seconds += x;
    t.samples = 30;
    out.push_back(std::move(t));
  }
  return out;
}

}  // namespace

TEST_CASE("equal turns pass in nearly all of many noisy runs; a gain of a half never does") {
  int accused = 0, caught = 0;
  for (uint64_t run = 0; run < 200; ++run) {
    const auto known = turns(1e-3, 3 * run), same = turns(1e-3, 3 * run + 1),
               quick = turns(5e-4, 3 * run + 2);
    accused += !same_sample_audit(Scenario::single_stream, known, same).passed;
    accused += !other_seed_audit(Scenario::single_stream, known, same).passed;
    caught += !same_sample_audit(Scenario::single_stream, known, quick).passed;
    caught += !other_seed_audit(Scenario::single_stream, quick, known).passed;
  }
  CHECK(accused <= 4);  // one in a hundred of 400
  CHECK(caught == 400);
}

TEST_CASE("throughput is compared the other way round") {
  const auto slow = turns(1e-3, 1), quick = turns(5e-4, 2);
  CHECK_FALSE(other_seed_audit(Scenario::offline, quick, slow).passed);
  CHECK(other_seed_audit(Scenario::offline, slow, quick).passed);
}

TEST_CASE("short queries may differ by 20 %, longer ones by 10") {
  std::vector<Turn> base = turns(1, 1);
  const auto scaled = [&](double seconds) {
    std::vector<Turn> out = base;
    for (Turn& t : out)
      for (double& x : t.latencies) x *= seconds;
    return out;
  };
  CHECK(same_sample_audit(Scenario::single_stream, scaled(1e-4), scaled(1e-4 / 1.15)).passed);
  CHECK_FALSE(same_sample_audit(Scenario::single_stream, scaled(1e-2), scaled(1e-2 / 1.15)).passed);
  CHECK(same_sample_audit(Scenario::single_stream, scaled(1e-2), scaled(1e-2 / 1.05)).passed);
}

TEST_CASE("five blocks are too few, so they do not pass") {
  const auto few = turns(1e-3, 1, 10);
  CHECK_FALSE(same_sample_audit(Scenario::single_stream, few, few).passed);
}

TEST_CASE("the floor audit fails an answer that is faster than the machine's peaks") {
  const auto passes = [](double seconds, double flops, double bytes) {
    RemeasuredPeaks machine([] { return RemeasuredPeaks::Rates{1e9, 1e10}; });
    return floor_audit(turns(seconds, 1), machine, flops, bytes).passed;
  };
  CHECK(passes(2e-3, 1e6, 4e3));  // a millisecond of arithmetic, 0.4 us of bytes
  CHECK_FALSE(passes(2e-4, 1e6, 4e3));
  CHECK(passes(2e-4, 0, 4e3));
  CHECK_FALSE(passes(2e-4, 0, 4e6));
  RemeasuredPeaks unknown;
  CHECK(floor_audit(turns(1e-9, 1), unknown, 1e12, 1e12).passed);
}

TEST_CASE("peaks that were measured on a busy machine are measured again before an answer fails") {
  int measured = 0;
  const auto recovers_after = [&](int times) {
    measured = 0;
    return RemeasuredPeaks([&measured, times] {
      return RemeasuredPeaks::Rates{++measured > times ? 1e9 : 3e8, 1e10};
    });
  };
  RemeasuredPeaks busy = recovers_after(4);
  CHECK(floor_audit(turns(4e-3, 1), busy, 1e6, 0).passed);
  CHECK(measured == 1);  // nothing looked too fast
  CHECK(floor_audit(turns(2e-3, 1), busy, 1e6, 0).passed);
  CHECK(measured == 5);
  CHECK_FALSE(floor_audit(turns(5e-4, 1), busy, 1e6, 0).passed);
  CHECK(measured == 11);
}

TEST_CASE("a clock that was slow in most turns is reported") {
  CHECK(clock_audit(std::vector<double>{1, 1.1, 1.3, 1}).passed);
  CHECK_FALSE(clock_audit(std::vector<double>{1, 1.5, 1.5, 1.5}).passed);
  CHECK_FALSE(clock_audit({}).passed);
  CHECK(agreement_audit(5).passed);
  CHECK_FALSE(agreement_audit(0).passed);
}

TEST_CASE("findings in source are reasons to look and accuse nobody") {
  CHECK(source_audit({}).passed);
  const AuditResult a = source_audit({"plugin.cpp:2: reads a clock", "plugin.cpp:7: opens files"});
  CHECK(a.id == "C1");
  CHECK(a.passed);
  CHECK(a.detail == "look at plugin.cpp:2: reads a clock; plugin.cpp:7: opens files");
}

TEST_CASE("continuations have the length that was asked for, and there are some") {
  std::vector<Turn> played = turns(1e-3, 1, 2);
  CHECK_FALSE(length_audit(played, 32).passed);  // nothing was generated
  played[0].tokens = {32, 32}, played[1].tokens = {32};
  CHECK(length_audit(played, 32).passed);
  CHECK(length_audit(played, 32).detail.find("96 tokens in 3 continuations of 32") == 0);
  played[1].tokens = {31};
  CHECK_FALSE(length_audit(played, 32).passed);
}

TEST_CASE("outputs that change after they were given are counted, and none pass") {
  CHECK(fingerprint_audit(7).passed);
  CHECK_FALSE(fingerprint_audit(0).passed);
  CHECK(fingerprint_audit(7, 0).passed);
  CHECK_FALSE(fingerprint_audit(7, 1).passed);
  CHECK(fingerprint_audit(7, 1).detail.find("1 of 7 outputs changed") == 0);
  CHECK_FALSE(fingerprint_audit(0, 0).passed);
}

TEST_CASE("a GPU's events must agree with the clocks around them") {
  const auto sound = [](double events, double host, double judge) {
    return host_clock_complaint(events, host, judge).empty();
  };
  CHECK(sound(9.5e-3, 10e-3, 11e-3));
  CHECK(sound(8.95e-3, 10e-3, 11e-3));       // 90 % of what is left after a launch
  CHECK_FALSE(sound(8.8e-3, 10e-3, 11e-3));  // work that the events did not see
  CHECK_FALSE(sound(1e-3, 10e-3, 11e-3));
  CHECK(sound(1e-5, 9e-4, 1e-3));  // of a short time the way there is most
  CHECK(sound(1e-5, 1e-3, 1e-3));
  CHECK_FALSE(sound(1e-5, 1.1e-3, 2e-3));
  for (const double events : {0.0, -1e-3, std::numeric_limits<double>::quiet_NaN()})
    CHECK_FALSE(sound(events, 1e-3, 1e-3));
  CHECK_FALSE(sound(2e-3, 1e-3, 3e-3));  // longer than the host's
  CHECK_FALSE(sound(1e-3, 4e-3, 3e-3));  // the host's longer than the judge's
  CHECK(host_clock_complaint(1e-3, 10e-3, 11e-3) ==
        "audit A10, host clock: 0.001 s by the GPU's events, but 0.01 s by the host's clock");
  CHECK(host_clock_audit(40, 0).passed);
  CHECK(host_clock_audit(40, 4).passed);  // the host was interrupted
  CHECK_FALSE(host_clock_audit(40, 5).passed);
  CHECK(host_clock_audit(40, 5).detail.find("5 of 40 times") == 0);
  CHECK_FALSE(host_clock_audit(0, 0).passed);
}

TEST_CASE("10 times the best of a table is a leap") {
  CHECK(leap_audit(9.9, 1).passed);
  CHECK(leap_audit(10, 1).passed);
  CHECK_FALSE(leap_audit(10.1, 1).passed);
  CHECK(leap_audit(10.1, 1.5).passed);
  CHECK(leap_audit(0.01, 1).passed);
  CHECK(leap_audit(30, 2).detail.find("held until") != std::string::npos);
}

TEST_CASE("a claim is compared with the measurement") {
  RunDocument d;
  d.quality_metric = "accuracy";
  ContenderRecord c;
  c.quality = Interval{0.95, 0.94, 0.96};
  c.turns = turns(1e-3, 1);
  const auto audit = [&](const char* metric, double value) { return claims_audit(d, c, {{metric, value}}); };
  CHECK(audit("accuracy", 0.955).passed);
  CHECK_FALSE(audit("accuracy", 0.97).passed);
  CHECK(audit("single_stream", 1.2e-3).passed);
  CHECK_FALSE(audit("single_stream", 5e-4).passed);
  CHECK(audit("offline", 1e9).passed);  // not measured in this run
  CHECK(audit("single_stream", 5e-4).detail.find("was promised") != std::string::npos);
}
