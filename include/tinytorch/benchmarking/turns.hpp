// Computes the numbers of a leaderboard from raw turns, so that anyone can verify them.
//
// The samples of a contender are stored turn by turn, with two turns per block (schedule.hpp). The
// contender's value is the median of the values of its turns. The ratio to the baseline is computed from the
// paired blocks of both (paired_ratio.hpp). A claimed number can then be compared with its samples, and is
// valid only if it follows from them.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tinytorch/benchmarking/paired_ratio.hpp>
#include <tinytorch/benchmarking/percentile_bound.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::benchmarking {

// The measured quantity of a turn.
enum class Quantity {
  p90_latency,  // seconds, lower is better
  p99_latency,
  throughput,      // samples per second, higher is better
  rate,            // queries per second that a server sustained, higher is better
  time_per_token,  // median over queries of (latency / tokens) in seconds, lower is better
};
inline bool more_is_better(Quantity q) { return q == Quantity::throughput || q == Quantity::rate; }

struct Turn {
  double seconds = 0;   // from the first query to the last answer
  int64_t samples = 0;  // answered samples
  std::vector<double> latencies = {};
  double rate = 0;                    // query rate of a server, otherwise 0
  std::vector<int64_t> tokens = {};   // number of tokens of each query with a streamed answer
  std::vector<double> to_first = {};  // seconds to the first token
};
using Turns = std::span<const Turn>;

inline double value_of(Quantity quantity, const Turn& turn) {
  if (quantity == Quantity::throughput) return static_cast<double>(turn.samples) / turn.seconds;
  if (quantity == Quantity::rate) return turn.rate;
  if (quantity == Quantity::time_per_token) {
    std::vector<double> each;
    for (size_t i = 0; i < turn.tokens.size(); ++i)
      each.push_back(turn.latencies.at(i) / static_cast<double>(turn.tokens[i]));
    return statistics::median(each);
  }
  if (quantity == Quantity::p99_latency) return statistics::percentile(turn.latencies, 99);
  return statistics::percentile(turn.latencies, 90);
}

// The median of the values of all turns; nullopt without turns.
inline std::optional<double> value_of(Quantity quantity, Turns turns) {
  if (turns.empty()) return std::nullopt;
  std::vector<double> values;
  for (const Turn& turn : turns) values.push_back(value_of(quantity, turn));
  return statistics::median(values);
}

// The upper bound of a latency percentile at 99 % confidence, from all queries of all turns. nullopt for
// other quantities, or for too few queries: 64 are needed for a p90, 662 for a p99.
inline std::optional<double> certified_bound(Quantity quantity, Turns turns) {
  const bool p99 = quantity == Quantity::p99_latency;
  if (!p99 && quantity != Quantity::p90_latency) return std::nullopt;
  std::vector<double> all;
  for (const Turn& turn : turns) all.insert(all.end(), turn.latencies.begin(), turn.latencies.end());
  if (all.empty()) return std::nullopt;
  return statistics::percentile_upper_bound(all, p99 ? 99 : 90);
}

// The value of each block: the geometric mean of its two turns. A last turn without its second is ignored.
inline std::vector<double> block_values(Quantity quantity, Turns turns) {
  std::vector<double> out;
  for (size_t i = 0; i + 1 < turns.size(); i += 2)
    out.push_back(std::sqrt(value_of(quantity, turns[i]) * value_of(quantity, turns[i + 1])));
  return out;
}

// The ratio to the baseline with its 95 % interval; above 1 is better. nullopt if the numbers of turns differ
// or are too small.
inline std::optional<statistics::Interval> times_better(Quantity quantity, Turns turns, Turns baseline) {
  if (turns.size() != baseline.size() || turns.size() < 2) return std::nullopt;
  const std::vector<double> ours = block_values(quantity, turns), theirs = block_values(quantity, baseline);
  return more_is_better(quantity) ? statistics::paired_ratio(ours, theirs)
                                  : statistics::paired_ratio(theirs, ours);
}

// The numbers of a table row that must follow from the turns.
struct Claim {
  std::optional<double> value;
  std::optional<statistics::Interval> times_the_baseline;
};

inline Claim claim_of(Quantity quantity, Turns turns, Turns baseline) {
  return {value_of(quantity, turns), times_better(quantity, turns, baseline)};
}

// Describes the first difference between a claim and the computed numbers; empty if they agree up to the
// rounding of numbers that were written and read.
inline std::string difference(const Claim& claimed, const Claim& found) {
  const auto text = [](const std::optional<double>& x) { return x ? std::to_string(*x) : "nothing"; };
  std::string out;
  const auto compare = [&](const char* what, std::optional<double> claim, std::optional<double> truth) {
    const bool agree =
        claim && truth ? std::abs(*claim - *truth) <= 1e-9 * std::abs(*truth) : !claim && !truth;
    if (!agree && out.empty())
      out = std::string(what) + " is claimed as " + text(claim) + ", but the samples give " + text(truth);
  };
  const auto bound = [](const Claim& c, double statistics::Interval::*which) {
    return c.times_the_baseline ? std::optional(*c.times_the_baseline.*which) : std::nullopt;
  };
  using statistics::Interval;
  compare("the value", claimed.value, found.value);
  compare("the ratio", bound(claimed, &Interval::estimate), bound(found, &Interval::estimate));
  compare("the ratio's lower bound", bound(claimed, &Interval::low), bound(found, &Interval::low));
  compare("the ratio's upper bound", bound(claimed, &Interval::high), bound(found, &Interval::high));
  return out;
}

}  // namespace tinytorch::inline TT_BUILD::benchmarking
