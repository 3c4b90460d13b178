// Ranks of contenders that were measured in the same blocks, by direct comparison with each other.
//
// Two intervals of ratios to a baseline both include the baseline's noise, so they overlap until the
// difference is as wide as both halves together. Contenders of the same blocks can be compared more
// precisely: the machine was the same for both in each block, so the interval of their own ratio
// (paired_ratio.hpp) is narrower, and it decides at 95 % if they differ. Entries of different runs have only
// the baseline in common; they are ranked by their intervals (ranking.hpp).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <tinytorch/benchmarking/paired_ratio.hpp>
#include <tinytorch/benchmarking/ranking.hpp>
#include <tinytorch/benchmarking/rounds.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::statistics {

// costs[i][r] > 0 is the cost of contender i in round r; lower is better, and all contenders have the same
// number of blocks, of `rounds` rounds each. Sorted by the ratio to the first contender, estimated as in
// paired_ratio(). An entry shares the rank of its group's first entry unless the 95 % interval of their own
// ratio shows that it is slower. With fewer than 6 blocks no difference can be shown, and all share rank 1.
inline std::vector<Rank> rank_by_blocks(std::span<const std::vector<double>> costs, size_t rounds = 1,
                                        Loc loc = Loc::current()) {
  std::vector<double> slower(costs.size());  // logarithm of the ratio to the first contender
  for (size_t i = 0; i < costs.size(); ++i) {
    auto averages =
        detail::walsh_averages(detail::block_logs("rank_by_blocks", costs[i], costs[0], rounds, loc));
    slower[i] = detail::median_in_place(averages);
  }
  std::vector<Rank> order(costs.size());
  for (size_t i = 0; i < order.size(); ++i) order[i].index = i;
  std::ranges::stable_sort(order, {}, [&](const Rank& r) { return slower[r.index]; });
  size_t leader = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const auto behind =
        paired_ratio_of_rounds(costs[order[i].index], costs[order[leader].index], rounds, 0.95, loc);
    if (behind && behind->low > 1) leader = i;
    order[i].rank = static_cast<int64_t>(leader) + 1;
  }
  return order;
}

}  // namespace tinytorch::inline TT_BUILD::statistics
