// The questions of audits A2 and A3: a contender answers samples that were asked before, the same sample
// again and again, and samples of a set that nobody saw, in turns of random order. If the same sample is
// faster, it remembers answers (A2); if fresh samples are slower, it was prepared for the hidden set (A3).
// The times are compared by results/measured_audits.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <tinymlperf/benchmarks/benchmark.hpp>
#include <tinymlperf/judge/results/evidence.hpp>
#include <tinymlperf/judge/scenarios/sample_stream.hpp>
#include <tinymlperf/judge/scenarios/scenario.hpp>
#include <tinytorch/benchmarking/schedule.hpp>
#include <vector>

namespace tinymlperf::judge {

inline constexpr size_t kAuditBlocks = 12;  // with eight, one disturbed block could hide a gain at 99 %

// The samples of a turn, the set that they are from, and the use of the answers.
struct Questions {
  Benchmark& set;
  int64_t samples_per_query;
  std::function<std::vector<int64_t>(int64_t)> next;
  std::function<void(int64_t sample, const Answer& answer)> answered;
};

// Samples for the repetition of A2. A single one is chosen by its work, so that it takes as long as the 90th
// percentile of the others.
inline std::vector<int64_t> usual_samples(const Benchmark& set, int64_t each, uint64_t seed) {
  SampleStream stream(set.size(), seed);
  if (each > 1) return stream.next(each);
  std::vector<int64_t> some = stream.next(std::min<int64_t>(set.size(), 100));
  std::ranges::stable_sort(some, {}, [&](int64_t s) { return set.work(s); });
  return {some[some.size() * 9 / 10]};
}

// The seed of a match, and which comparison of the same contender this is, counted from 1.
struct ComparisonSeed {
  uint64_t match = 0, look = 1;
};

// Adds the turns of both audits to the evidence, or nothing if a turn throws. `main` asks the samples that
// were asked before. turn(questions, queries) asks so many queries, and returns their times.
template <class TurnOf>
void compare_questions(const Questions& main, Benchmark& fresh_set, Scenario form, const ComparisonSeed& seed,
                       Evidence& evidence, TurnOf&& turn) {
  constexpr int64_t kTurns = 2 * kAuditBlocks;
  const bool offline = form == Scenario::offline;
  const int64_t share = std::min(main.set.size(), fresh_set.size()) / kTurns;  // samples for a turn
  const int64_t each = offline ? std::max<int64_t>(1, share) : main.samples_per_query;
  const int64_t queries = offline ? 1 : std::max<int64_t>(2, share / each) - 1;
  SampleStream stream(fresh_set.size(), seed.match ^ 0xD1B54A32D192ED03u);
  const std::vector<int64_t> few = usual_samples(main.set, each, seed.match);
  const Questions known{main.set, each, main.next, main.answered};
  const Questions same{main.set, each, [&](int64_t) { return few; }, main.answered};
  const Questions fresh{fresh_set, each, [&](int64_t k) { return stream.next(k); },
                        [](int64_t, const Answer&) {}};
  const std::array<const Questions*, 3> all{&known, &same, &fresh};
  std::array<std::vector<Turn>, 3> turns;
  for (const auto& block :
       tinytorch::benchmarking::mirrored_blocks(all.size(), kAuditBlocks, seed.match + seed.look))
    for (const size_t i : block) turns[i].push_back(turn(*all[i], queries));
  const std::array<std::vector<Turn>*, 3> kept{&evidence.known, &evidence.same, &evidence.fresh};
  for (size_t i = 0; i < kept.size(); ++i) kept[i]->insert(kept[i]->end(), turns[i].begin(), turns[i].end());
}

}  // namespace tinymlperf::judge
