// Computes the ranking of a race from its two matches, single_stream and offline. The ranking depends on
// race.json alone, so anyone can recompute it.
//
//   score      = 100 sqrt(r_p90 r_throughput)
//   efficiency = 100 exp(1/2 ln r_p90 + 1/4 ln r_peak_bytes + 1/4 ln r_model_bytes)
// Each r is a ratio to the baseline, above 1 if the entry is better. The square root of the score and each r
// of the efficiency are clipped to [1/64, 64], so that one extreme ratio does not dominate. An entry is
// ranked if the lower bound of its accuracy, over the hidden samples of both matches, reaches the floor.
// Intervals and ranks come from paired blocks: block i of an entry is compared with block i of the baseline
// (paired_ratio.hpp) or of another entry (block_ranking.hpp), since a slow phase of the machine affects both.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <tinymlperf/judge/results/run_document.hpp>
#include <tinytorch/benchmarking/statistics.hpp>
#include <vector>

namespace tinymlperf {

namespace statistics = tinytorch::statistics;
using statistics::Interval;

// The two matches of a race, with the same contenders in the same order; the first is the baseline. A
// contender that was put out of one match is in neither.
struct Matches {
  judge::RunDocument single_stream, offline;  // no contenders: not played
};

inline std::vector<const judge::RunDocument*> played(const Matches& m) {
  std::vector<const judge::RunDocument*> out;
  for (const judge::RunDocument* match : {&m.single_stream, &m.offline})
    if (!match->contenders.empty()) out.push_back(match);
  return out;
}

struct Result {
  size_t index = 0;  // into the contenders
  int64_t rank = 0;  // 0: below the floor, not ranked
  bool on_front = false;
  Interval accuracy;      // share of all hidden samples
  double p90 = 0;         // 90th percentile of the seconds for one sample
  double throughput = 0;  // samples per second
  Interval score;
  std::optional<double> efficiency;  // empty if memory or size is not known, for example of a plugin
};

namespace detail {

constexpr double kLargestRatio = 64;

inline double clipped(double ratio) { return std::clamp(ratio, 1 / kLargestRatio, kLargestRatio); }

// The cost of each block in seconds: the geometric mean of the p90 latency (single_stream) and of the time
// per sample (offline).
inline std::vector<double> block_costs(const Matches& m, size_t i) {
  std::vector<double> costs =
      judge::block_costs(judge::Scenario::single_stream, m.single_stream.contenders[i].turns);
  const std::vector<double> offline =
      judge::block_costs(judge::Scenario::offline, m.offline.contenders[i].turns);
  if (costs.size() != offline.size())
    throw std::invalid_argument("race file: the two matches have different numbers of turns of " +
                                m.offline.contenders[i].name);
  for (size_t b = 0; b < costs.size(); ++b) costs[b] = std::sqrt(costs[b] * offline[b]);
  return costs;
}

inline Interval score_of(const Matches& m, size_t i) {
  const auto ratio = statistics::paired_ratio(block_costs(m, 0), block_costs(m, i));
  if (!ratio) throw std::invalid_argument("race file: an interval needs at least six blocks");
  return {100 * clipped(ratio->estimate), 100 * clipped(ratio->low), 100 * clipped(ratio->high)};
}

inline std::optional<double> efficiency_of(const Matches& m, size_t i) {
  const judge::ContenderRecord &ours = m.single_stream.contenders[i], &base = m.single_stream.contenders[0];
  for (const int64_t bytes : {ours.peak_bytes, base.peak_bytes, ours.model_bytes, base.model_bytes})
    if (bytes < 1) return std::nullopt;
  const auto latency = judge::times_the_baseline(judge::Scenario::single_stream, ours, base);
  const auto bytes = [](int64_t x, int64_t y) {
    return std::log(clipped(static_cast<double>(x) / static_cast<double>(y)));
  };
  if (!latency)
    throw std::invalid_argument("race file: the latency of " + ours.name +
                                " cannot be compared with the baseline's");
  return 100 *
         std::exp(std::log(clipped(latency->estimate)) / 2 + bytes(base.peak_bytes, ours.peak_bytes) / 4 +
                  bytes(base.model_bytes, ours.model_bytes) / 4);
}

inline Interval accuracy_in_both(const Matches& m, size_t i) {
  const std::string credit = m.single_stream.contenders[i].credit + m.offline.contenders[i].credit;
  return statistics::bootstrap_proportion(std::count(credit.begin(), credit.end(), '1'),
                                          static_cast<int64_t>(credit.size()));
}

inline void check(const Matches& m) {
  const auto &a = m.single_stream.contenders, &b = m.offline.contenders;
  const auto same = [](const judge::ContenderRecord& x, const judge::ContenderRecord& y) {
    return x.name == y.name && x.out.empty() && y.out.empty() && !x.credit.empty() && !y.credit.empty();
  };
  if (m.single_stream.scenario != judge::Scenario::single_stream ||
      m.offline.scenario != judge::Scenario::offline || a.empty() ||
      !std::equal(a.begin(), a.end(), b.begin(), b.end(), same))
    throw std::invalid_argument(
        "race file: expected a single_stream and an offline match of the same entries");
}

// Orders the ranked entries by rank, then the others by accuracy. Sets on_front for the Pareto front of
// accuracy and latency.
inline void order_results(const Matches& m, std::vector<Result>& results, double floor) {
  std::vector<std::vector<double>> costs;
  for (const Result& r : results) costs.push_back({-r.accuracy.estimate, r.p90});
  for (const size_t i : statistics::pareto_front(costs)) results[i].on_front = true;
  std::vector<Result> ranked, others;
  for (const Result& r : results) (r.accuracy.low >= floor ? ranked : others).push_back(r);
  std::vector<std::vector<double>> blocks;
  for (const Result& r : ranked) blocks.push_back(block_costs(m, r.index));
  results.clear();
  for (const auto& [index, rank] : statistics::rank_by_blocks(blocks)) {
    results.push_back(ranked[index]);
    results.back().rank = rank;
  }
  std::ranges::stable_sort(others, std::greater{}, [](const Result& r) { return r.accuracy.estimate; });
  results.insert(results.end(), others.begin(), others.end());
}

}  // namespace detail

// Returns the results in the order of the table. Throws std::invalid_argument if the matches cannot be
// scored.
inline std::vector<Result> score_race(const Matches& m, double floor) {
  detail::check(m);
  std::vector<Result> results(m.offline.contenders.size());
  for (size_t i = 0; i < results.size(); ++i)
    results[i] = {
        .index = i,
        .accuracy = detail::accuracy_in_both(m, i),
        .p90 = judge::value_of(judge::Scenario::single_stream, m.single_stream.contenders[i]).value(),
        .throughput = judge::value_of(judge::Scenario::offline, m.offline.contenders[i]).value(),
        .score = detail::score_of(m, i),
        .efficiency = detail::efficiency_of(m, i)};
  detail::order_results(m, results, floor);
  return results;
}

}  // namespace tinymlperf
