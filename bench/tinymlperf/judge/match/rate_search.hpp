// The search for the highest rate of a server: it begins near what the server was seen to do. A search from
// one query per second on would ask for minutes at rates that tell nothing.
#pragma once

#include <algorithm>
#include <functional>
#include <tinytorch/benchmarking/open_loop.hpp>

namespace tinymlperf::judge {

// A rate that a server of this latency keeps easily; at least one query per second.
inline double easy_rate(double seconds_per_query) { return std::max(1.0, 0.25 / seconds_per_query); }

// The highest rate for which holds(rate), up to a twentieth, searched from `start` on; 0 if one query per
// second is too much. A `start` that is too high is divided by 8 until it holds.
inline double highest_rate_near(double start, const std::function<bool(double rate)>& holds) {
  for (;; start = std::max(1.0, start / 8)) {
    const double rate = tinytorch::benchmarking::highest_rate(holds, start, 1e6, 0.05);
    if (rate > 0 || start <= 1) return rate;
  }
}

}  // namespace tinymlperf::judge
