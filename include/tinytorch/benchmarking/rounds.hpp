// Blocks of several rounds. In a round both contenders have two turns (schedule.hpp); a block of one round is
// what turns.hpp and paired_ratio.hpp describe.
//
// The rounds of a block share what differs between blocks, such as the placement of a process in memory. So
// they are no independent blocks, and a block counts as the median of its rounds' ratios. Many short rounds
// are worth more than one long one, since both sides of a short round meet the same spell of other work: in
// simulated matches of 50 s for each side, with drift, bursts in spells of 10 s and heavy tails, a difference
// of 5 % was found in 35 % of the matches with one round in each of 12 blocks, and in 99 % with 20 rounds.
// Equal contenders were told apart in 4 to 5 % of the matches.
#pragma once

#include <cmath>
#include <optional>
#include <tinytorch/benchmarking/paired_ratio.hpp>
#include <tinytorch/benchmarking/turns.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::statistics {

namespace detail {

// The logarithms of block_ratios(). `function`: who complains of wrong samples.
inline std::vector<double> block_logs(const char* function, Samples numerator, Samples denominator,
                                      size_t rounds, Loc loc) {
  const std::vector<double> all = log_ratios(function, numerator, denominator, loc);
  require_in_range(function, "rounds of a block", static_cast<double>(rounds), 1,
                   static_cast<double>(all.size()), loc);
  if (rounds == 1) return all;
  std::vector<double> out;
  for (size_t at = 0; at + rounds <= all.size(); at += rounds) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(at);
    out.push_back(median(std::vector<double>(first, first + static_cast<std::ptrdiff_t>(rounds))));
  }
  return out;
}

}  // namespace detail

// The ratio numerator / denominator of each block of `rounds` rounds, the median of its rounds. Samples are
// > 0, and element i of both is from round i. A last block with fewer rounds is ignored.
inline std::vector<double> block_ratios(Samples numerator, Samples denominator, size_t rounds,
                                        Loc loc = Loc::current()) {
  std::vector<double> out = detail::block_logs("block_ratios", numerator, denominator, rounds, loc);
  for (double& x : out) x = std::exp(x);
  return out;
}

// Computes paired_ratio() from blocks of several rounds. The result is nullopt if there are too few blocks
// for the confidence.
inline std::optional<Interval> paired_ratio_of_rounds(Samples numerator, Samples denominator, size_t rounds,
                                                      double confidence = 0.95, Loc loc = Loc::current()) {
  if (rounds == 1) return paired_ratio(numerator, denominator, confidence, loc);
  const std::vector<double> ratios = block_ratios(numerator, denominator, rounds, loc);
  return paired_ratio(ratios, std::vector<double>(ratios.size(), 1), confidence, loc);
}

}  // namespace tinytorch::inline TT_BUILD::statistics

namespace tinytorch::inline TT_BUILD::benchmarking {

// A match has at most 12 blocks. So the rounds of a block follow from the number of a contender's turns: 1 up
// to 24 turns, and from there as many as twelve blocks of equal length have.
inline constexpr size_t kMostBlocks = 12;
inline size_t rounds_of(size_t turns) { return turns > 2 * kMostBlocks ? turns / (2 * kMostBlocks) : 1; }

// Joins the turns of each block of several rounds to one, so that a percentile has enough queries; turns in
// blocks of one round are returned as they are. Turns that are left over are ignored.
inline std::vector<Turn> pooled_turns(Turns turns) {
  const size_t each = 2 * rounds_of(turns.size());
  if (each == 2) return {turns.begin(), turns.end()};
  std::vector<Turn> out;
  for (size_t at = 0; at + each <= turns.size() && out.size() < kMostBlocks; at += each) {
    Turn& all = out.emplace_back();
    for (const Turn& turn : turns.subspan(at, each)) {
      all.seconds += turn.seconds, all.samples += turn.samples;
      all.rate += turn.rate / static_cast<double>(each);
      all.latencies.insert(all.latencies.end(), turn.latencies.begin(), turn.latencies.end());
      all.tokens.insert(all.tokens.end(), turn.tokens.begin(), turn.tokens.end());
      all.to_first.insert(all.to_first.end(), turn.to_first.begin(), turn.to_first.end());
    }
  }
  return out;
}

// Computes times_better() of turns.hpp from blocks, whose number of rounds follows from the number of turns
// (rounds_of()).
inline std::optional<statistics::Interval> times_better_of_rounds(Quantity quantity, Turns turns,
                                                                  Turns baseline) {
  if (turns.size() != baseline.size() || turns.size() < 2) return std::nullopt;
  const std::vector<double> ours = block_values(quantity, turns), theirs = block_values(quantity, baseline);
  const size_t rounds = rounds_of(turns.size());
  return more_is_better(quantity) ? statistics::paired_ratio_of_rounds(ours, theirs, rounds)
                                  : statistics::paired_ratio_of_rounds(theirs, ours, rounds);
}

}  // namespace tinytorch::inline TT_BUILD::benchmarking
