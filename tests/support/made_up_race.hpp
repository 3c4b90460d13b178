// Synthetic matches with given times, so that every score is known without running the code.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <support/audited_run.hpp>
#include <tinymlperf/judge/results/verify_run.hpp>
#include <tinymlperf/race/score.hpp>
#include <vector>

namespace test {

using namespace tinymlperf;

// An entry of `turns` turns, two per block, each with 20 single samples and one batch of 256.
struct MadeUp {
  std::string name;
  double single = 1e-3, batch = 0.1;  // seconds
  double spread = 0.01;               // relative deviation of each time
  size_t turns = 16;
  double accuracy = 0.95;
};

inline judge::ContenderRecord contender(const MadeUp& e) {
  judge::ContenderRecord c;
  c.name = e.name;
  c.model_bytes = 1000;
  c.peak_bytes = 5000;
  for (int64_t i = 0; i < 1000; ++i) c.credit += static_cast<double>(i) < 1000 * e.accuracy ? '1' : '0';
  c.quality = tinymlperf::detail::quality_from_samples(c);
  return c;
}

// Matches of the entries; the first one is the baseline.
inline Matches made_up_matches(const std::vector<MadeUp>& entries) {
  Matches m;
  m.single_stream = {.benchmark = "dig",
                     .scenario = judge::Scenario::single_stream,
                     .run_class = "race",
                     .hardware = "cpu-mt",
                     .date = "today",
                     .seed = 0xfffffffffffffffe,
                     .hidden_samples = 1000,
                     .quality_metric = "accuracy",
                     .machine = Json::object(),
                     .sandbox = Json::object(),
                     .contenders = {}};
  m.offline = m.single_stream;
  m.offline.scenario = judge::Scenario::offline;
  m.offline.seed = 77;
  for (const MadeUp& e : entries) {
    tinytorch::Generator random(std::hash<std::string>{}(e.name));
    judge::ContenderRecord one = contender(e), all = contender(e);
    const auto around = [&](double x) { return x * random.uniform(1 - e.spread, 1 + e.spread); };
    for (size_t t = 0; t < e.turns; ++t) {
      judge::Turn turn{.seconds = 0, .samples = 20};
      for (int i = 0; i < 20; ++i) turn.seconds += turn.latencies.emplace_back(around(e.single));
      one.turns.push_back(turn);
      const double batch = around(e.batch);
      all.turns.push_back({.seconds = batch, .samples = 256, .latencies = {batch}});
    }
    add_evidence(one, m.single_stream.scenario), add_evidence(all, m.offline.scenario);
    m.single_stream.contenders.push_back(one);
    m.offline.contenders.push_back(all);
  }
  return m;
}

}  // namespace test
