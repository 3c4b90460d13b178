// The classes of a match: how long it measures, and how many samples are hidden.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tinymlperf/judge/scenarios/scenario.hpp>
#include <tinytorch/benchmarking/percentile_bound.hpp>

namespace tinymlperf::judge {

// The amount of measurement. The class smoke shows that everything works, and ranks nothing.
struct RunClass {
  const char* name;
  double seconds;        // time of all timed turns of each contender and scenario
  int64_t queries;       // at least, in each turn, or in all turns of a block of several rounds
  size_t blocks;         // at most 12
  int64_t hidden;        // samples of the hidden set
  double patience = 30;  // seconds without a reply after which a contender is out
  size_t processes = 1;  // processes of each contender, one after the other
  double budget = 300;   // seconds for which the processes of a contender may run in all; then it is out
  // Rounds of a block where a scenario's turn may be short. Only with 12 blocks may there be several, since
  // the number of blocks follows from that of turns (benchmarking/rounds.hpp).
  size_t rounds = 1;
};
inline constexpr RunClass kSmoke{"smoke", 1, 12, 6, 512},
    kRanked{"ranked", 50, 60, 12, 10000, 30, 12, 1800, 20},
    kOfficial{"official", 300, 662, 12, 10000, 30, 12, 3600, 20};
// Offline, a turn must be a large part of the samples, and a server's turn a search for its rate.
inline size_t rounds_of(const RunClass& c, Scenario s) {
  return s == Scenario::offline || s == Scenario::server ? 1 : c.rounds;
}
// The budget of a contender. In each of its turns a server that is slow is asked at 1, 2, 4, ... queries a
// second until it is too slow; the first of these rates take two seconds for each query.
inline double budget_of(const RunClass& c, bool server) {
  using tinytorch::statistics::samples_to_certify;
  const int64_t certified = samples_to_certify(c.queries >= samples_to_certify(99) ? 99 : 90);
  const auto queries = static_cast<double>(std::max(c.queries, certified));
  return c.budget + (server ? 3 * queries * 2 * static_cast<double>(c.blocks) : 0);
}
// The classes of `race`. Its two matches take as long as the training of its models. Quick only shows that
// everything works.
inline constexpr RunClass kRace{"race", 1.2, 12, 8, 1024}, kQuick{"quick", 0.1, 8, 6, 256};

}  // namespace tinymlperf::judge
