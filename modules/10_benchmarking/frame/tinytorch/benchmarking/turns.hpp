// Computes the numbers of a leaderboard from raw turns, so that anyone can verify them.
//
// The frame of a course header: it has the given parts, and includes the functions of task 10.11. It is cut
// from the library's header by modules/frames.py.
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

inline double value_of(Quantity quantity, const Turn& turn);            // task 10.11
inline std::optional<double> value_of(Quantity quantity, Turns turns);  // task 10.11

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

inline std::vector<double> block_values(Quantity quantity, Turns turns);  // task 10.11
// Task 10.11.
inline std::optional<statistics::Interval> times_better(Quantity quantity, Turns turns, Turns baseline);

// The numbers of a table row that must follow from the turns.
struct Claim {
  std::optional<double> value;
  std::optional<statistics::Interval> times_the_baseline;
};

inline Claim claim_of(Quantity quantity, Turns turns, Turns baseline);    // task 10.11
inline std::string difference(const Claim& claimed, const Claim& found);  // task 10.11

}  // namespace tinytorch::inline TT_BUILD::benchmarking

#include <tasks/benchmarking/turns.hpp>
