// A run of two contenders as the judge writes it, without the measurement: with credit, audits and evidence.
#pragma once

#include <algorithm>
#include <tinymlperf/judge/results/measured_audits.hpp>
#include <tinytorch/benchmarking/bootstrap.hpp>
#include <tinytorch/core/random.hpp>

namespace test {

// The least quality of a made-up run in which texts are continued, which all its contenders reach.
inline constexpr double kTextFloor = -2;

// Replaces the evidence by that of passed audits of these turns, and the audits by those that follow from it.
inline void add_evidence(tinymlperf::judge::ContenderRecord& c, tinymlperf::judge::Scenario s) {
  using tinymlperf::judge::Scenario;
  c.evidence = {};
  c.evidence.answered = 400, c.evidence.compared = 90, c.evidence.least_seconds = 1e-9;
  c.evidence.clock.assign(24, 1e-4);
  c.evidence.known = c.evidence.same = c.evidence.fresh = c.turns;
  for (const auto& turn : c.turns) {
    std::string& marks = c.evidence.first_time.emplace_back();
    for (size_t i = 0; i < turn.latencies.size(); ++i) marks += i % 2 ? '1' : '0';
  }
  if (s == Scenario::server) c.evidence.beside = 80;
  if (s == Scenario::shared_prefix) {
    // Four kinds in turn, of which the first and two kinds of near misses are compared.
    c.evidence.prefixes.swap(c.evidence.first_time);
    for (std::string& marks : c.evidence.prefixes)
      for (size_t i = 0; i < marks.size(); ++i) marks[i] = "0213"[i % 4];
  }
  if (generates(s)) {
    c.evidence.tokens = c.turns.at(0).tokens.at(0);
    c.evidence.text_bits.assign(300, 0.5);
  }
  c.audits = tinymlperf::judge::measured_audits(s, c.turns, c.evidence, kTextFloor);
}

inline tinymlperf::judge::RunDocument audited_run(tinymlperf::judge::Scenario s) {
  using namespace tinymlperf::judge;
  RunDocument d;
  d.benchmark = "dig", d.scenario = s, d.run_class = "smoke", d.hardware = "cpu-1t";
  d.date = "2026-01-31T12:00:00Z", d.seed = 7, d.hidden_samples = 400;
  d.quality_metric = "accuracy", d.quality_floor = generates(s) ? kTextFloor : 0.8;
  d.machine = {{"cpu", "a processor"}, {"threads", 2}}, d.sandbox = {{"landlock", true}};
  tinytorch::Generator random(5);
  for (const char* name : {"base", "quick"}) {
    ContenderRecord c;
    c.name = name, c.model_bytes = 1000;
    for (int i = 0; i < 400; ++i) c.credit += random.below(10) ? '1' : '0';
    c.quality = tinytorch::statistics::bootstrap_proportion(std::ranges::count(c.credit, '1'), 400);
    for (int turn = 0; turn < 24; ++turn) {
      Turn t;
      for (int i = 0; i < 12; ++i) {
        t.latencies.push_back(random.uniform(0.9e-3, 1.1e-3));
        t.seconds += t.latencies.back(), ++t.samples;
        if (generates(s)) t.tokens.push_back(8), t.to_first.push_back(t.latencies.back() / 4);
      }
      if (s == Scenario::server) t.rate = random.uniform(900, 1100);
      c.turns.push_back(t);
    }
    add_evidence(c, s);
    d.contenders.push_back(c);
  }
  return d;
}

}  // namespace test
