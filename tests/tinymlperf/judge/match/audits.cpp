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

TEST_CASE("equal turns are never accused in many noisy runs; a gain of a half always is") {
  int accused = 0, caught = 0, open = 0;
  for (uint64_t run = 0; run < 200; ++run) {
    const auto known = turns(1e-3, 3 * run), same = turns(1e-3, 3 * run + 1),
               quick = turns(5e-4, 3 * run + 2);
    const AuditResult a2 = same_sample_audit(Scenario::single_stream, known, same),
                      a3 = other_seed_audit(Scenario::single_stream, known, same);
    accused += accuses(a2) + accuses(a3);
    open += !is_decided(a2) + !is_decided(a3);
    caught += accuses(same_sample_audit(Scenario::single_stream, known, quick));
    caught += accuses(other_seed_audit(Scenario::single_stream, quick, known));
  }
  CHECK(accused == 0);
  CHECK(open < 80);  // a fifth; a match would measure these again
  CHECK(caught == 400);
}

TEST_CASE("turns of further looks decide what the first look left open") {
  int open = 0, still = 0;
  for (uint64_t run = 0; run < 60; ++run) {
    const auto known = turns(1e-3, 2 * run, 120), same = turns(1e-3, 2 * run + 1, 120);
    const auto first = [](const std::vector<Turn>& all) {
      return std::vector<Turn>(all.begin(), all.begin() + 24);
    };
    open += !is_decided(other_seed_audit(Scenario::single_stream, first(known), first(same)));
    still += !is_decided(other_seed_audit(Scenario::single_stream, known, same));
  }
  CHECK(open > 0);
  CHECK(still == 0);
}

namespace {

// The timed turns of a short match on a machine whose cores are all taken: nine of ten queries take `seconds`
// with some noise, and bursts of other work stop the others, and their neighbours, for many times as long.
struct Loaded {
  std::vector<Turn> turns;
  std::vector<std::string> marks;

  Loaded(double seconds, double gain, uint64_t seed, int queries) {
    tinytorch::Generator random(seed);
    for (int t = 0; t < 12; ++t) {
      Turn turn;
      std::string of;
      bool burst = false;
      const double slow = 1 + random.uniform(0, 1);  // of this turn
      for (int q = 0; q < queries; ++q) {
        burst = random.uniform(0, 1) < (burst ? 0.6 : 0.1);
        of += random.below(3) == 0 ? '1' : '0';
        const double work = of.back() == '1' ? seconds : seconds / gain;
        turn.latencies.push_back(work * slow * random.uniform(0.9, 1.3) +
                                 (burst ? seconds * 20 * random.uniform(0, 1) : 0));
        turn.seconds += turn.latencies.back(), ++turn.samples;
      }
      turns.push_back(turn), marks.push_back(of);
    }
  }
  AuditResult audit() const { return repeated_audit(turns, marks); }
};

}  // namespace

TEST_CASE("under load, remembered answers of a short match are found, and honest ones never accused") {
  int accused = 0, open = 0, eightfold = 0, twofold = 0, overlooked = 0;
  for (uint64_t run = 0; run < 200; ++run) {
    const AuditResult honest = Loaded(250e-6, 1, 4 * run, 30).audit();
    accused += accuses(honest), open += !is_decided(honest);
    eightfold += accuses(Loaded(250e-6, 8, 4 * run + 1, 30).audit());
    const AuditResult twice = Loaded(250e-6, 2, 4 * run + 2, 30).audit();
    twofold += accuses(twice), overlooked += twice.passed;
  }
  MESSAGE("of 200: honest and not decided " << open << ", eightfold found " << eightfold << ", twofold "
                                            << twofold);
  CHECK(accused == 0);
  CHECK(eightfold == 200);
  CHECK(twofold >= 190);
  CHECK(overlooked == 0);
}

TEST_CASE("too few queries for the noise decide nothing, in favour of nobody") {
  int honest = 0, cheats = 0;
  for (uint64_t run = 0; run < 50; ++run) {
    const AuditResult a = Loaded(250e-6, 1, 2 * run, 3).audit(),
                      b = Loaded(250e-6, 1.3, 2 * run + 1, 3).audit();
    CHECK_FALSE(accuses(a));
    honest += !is_decided(a), cheats += b.passed;
    if (!is_decided(a)) CHECK(a.detail.starts_with(kNotDecided));
  }
  CHECK(honest > 40);
  CHECK(cheats == 0);
  const AuditResult none = repeated_audit({}, {});
  CHECK_FALSE(none.passed);
  CHECK_FALSE(is_decided(none));
  CHECK(accuses(repeated_audit({Turn{1, 1, {1}}}, {"10"})));  // marks that do not fit
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
  CHECK_FALSE(accuses(same_sample_audit(Scenario::single_stream, scaled(1e-4), scaled(1e-4 / 1.15))));
}

TEST_CASE("five blocks are too few, so they do not pass and accuse nobody") {
  const auto few = turns(1e-3, 1, 10);
  const AuditResult a = same_sample_audit(Scenario::single_stream, few, few);
  CHECK_FALSE(a.passed);
  CHECK_FALSE(accuses(a));
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

TEST_CASE("the piece of work that shows the clock rate is not left out by a compiler that optimizes") {
  CHECK(reference_seconds() > 10e-6);  // 100,000 dependent operations at 10 GHz
  CHECK(reference_seconds() < 1);
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
