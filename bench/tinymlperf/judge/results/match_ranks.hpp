// Ranks within one match: contenders that are in and good enough are compared block by block with each other.
//
// A leaderboard ranks differently (board/store/ranking.hpp): its entries were each compared with the
// baseline, in separate runs.
#pragma once

#include <cstdint>
#include <optional>
#include <tinymlperf/judge/results/quality_gate.hpp>
#include <tinytorch/benchmarking/block_ranking.hpp>
#include <vector>

namespace tinymlperf::judge {

// The ranks in the order of the contenders; nullopt for one that is out, not good enough, or was stopped
// before the end. Trainings have no blocks, so they are ranked by their intervals against the baseline.
inline std::vector<std::optional<int64_t>> match_ranks(const RunDocument& d) {
  std::vector<std::optional<int64_t>> ranks(d.contenders.size());
  std::vector<size_t> places;
  std::vector<std::vector<double>> costs;
  std::vector<Interval> ratios;
  size_t turns = 0;
  for (const ContenderRecord& c : d.contenders) turns = std::max(turns, c.turns.size());
  for (size_t i = 0; i < d.contenders.size(); ++i) {
    const ContenderRecord& c = d.contenders[i];
    if (!quality_gate(d, c).passed || c.turns.size() < turns) continue;
    if (d.scenario == Scenario::time_to_quality) {
      const auto ratio = times_the_baseline(d.scenario, c, d.contenders.front());
      if (!ratio) continue;
      ratios.push_back(*ratio);
    } else {
      costs.push_back(block_costs(d.scenario, c.turns));
    }
    places.push_back(i);
  }
  const auto order =
      d.scenario == Scenario::time_to_quality
          ? tinytorch::statistics::rank_with_ties(ratios)
          : tinytorch::statistics::rank_by_blocks(costs, tinytorch::benchmarking::rounds_of(turns));
  for (const auto& [index, rank] : order) ranks[places[index]] = rank;
  return ranks;
}

}  // namespace tinymlperf::judge
