// Load of a server: in an open loop, queries arrive at their due times, independently of the server.
//
// In a closed loop, a user sends the next query only after the answer to the last one. If the server stalls
// for a second, no query arrives in that second, and only one slow call is measured ("coordinated omission").
// In an open loop, users arrive at the random times of a Poisson process. A user who arrives while others
// wait must wait too, and the latency counts from the due time. Simulated servers, whose queue follows from
// arrival and service times alone, show the effect of load on latency.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <tinytorch/core/error.hpp>
#include <tinytorch/core/random.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::benchmarking {

// The event times of a Poisson process of `rate` events per second, ascending: gaps are exponential with mean
// 1 / rate. Ends with the first time past `seconds`, but has at least `fewest` times.
inline std::vector<double> poisson_schedule(double rate, double seconds, int64_t fewest, uint64_t seed) {
  Generator random(seed);
  std::vector<double> due;
  double t = 0;
  while (t < seconds || static_cast<int64_t>(due.size()) < fewest) {
    t += -std::log1p(-random.uniform(0.0, 1.0)) / rate;
    due.push_back(t);
  }
  return due;
}

// The times of a query, in seconds of one clock.
struct Served {
  double due = 0;       // arrival of the query
  double begun = 0;     // start of the service
  double answered = 0;  // end of the service
  double latency() const { return answered - due; }
};

inline std::vector<double> latencies(std::span<const Served> queries) {
  std::vector<double> out;
  for (const Served& q : queries) out.push_back(q.latency());
  return out;
}

// The service time in seconds of query number i if the server begins it at `begun`.
using Service = std::function<double(size_t query, double begun)>;

// A server that processes one query at a time, in the order of arrival. Throws TT-STAT-07 unless `due` is
// ascending.
inline std::vector<Served> serve_open_loop(std::span<const double> due, const Service& service,
                                           Loc loc = Loc::current()) {
  std::vector<Served> queries;
  double free = 0;
  for (size_t i = 0; i < due.size(); ++i) {
    if (i > 0 && due[i] < due[i - 1])
      fail("TT-STAT-07",
           "serve_open_loop: query " + std::to_string(i) + " is due at " + std::to_string(due[i]) +
               " s, before the previous query\n  hint: sort the due times",
           loc);
    const double begun = i > 0 ? std::max(due[i], free) : due[i];
    free = begun + service(i, begun);
    queries.push_back({due[i], begun, free});
  }
  return queries;
}

// A closed loop: one user sends the first query at time 0, and each further query right after an answer.
inline std::vector<Served> serve_closed_loop(int64_t queries, const Service& service) {
  std::vector<Served> out;
  double now = 0;
  for (int64_t i = 0; i < queries; ++i) {
    const double answered = now + service(static_cast<size_t>(i), now);
    out.push_back({now, now, answered});
    now = answered;
  }
  return out;
}

// The highest rate at which a bound holds: the rate is doubled from `lowest` until it fails, then bisected
// until the ratio of both rates is at most 1 + precision. `holds(rate)` makes and judges one run. Returns 0
// if the bound fails at `lowest`.
inline double highest_rate(const std::function<bool(double rate)>& holds, double lowest, double highest,
                           double precision = 0.02) {
  if (!holds(lowest)) return 0;
  double good = lowest, bad = lowest;
  while (bad < highest) {
    bad = std::min(2 * good, highest);
    if (!holds(bad)) break;
    good = bad;
    if (good >= highest) return good;
  }
  while (bad / good > 1 + precision) {
    const double middle = std::sqrt(good * bad);
    (holds(middle) ? good : bad) = middle;
  }
  return good;
}

}  // namespace tinytorch::inline TT_BUILD::benchmarking
