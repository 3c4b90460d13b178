// A server's load: queries come when they are due, whether the server is ready or not.
//
// A closed loop asks again once it was answered. A server that stands still for a second is then asked
// nothing for that second, and one slow call is all that is seen of it ("coordinated omission"). In an open
// loop users come at random moments, those of a Poisson process; who comes while others wait has to wait,
// too, and the latency counts from the moment when the query was due. Simulated servers, whose queue follows
// from arrivals and service times alone, show what load does to latency.
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

// Moments of a Poisson process of `rate` events per second, ascending: gaps are exponential with mean 1 /
// rate. Up to the first moment past `seconds`, and at least `fewest`.
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

// A query's moments, in seconds on one clock.
struct Served {
  double due = 0;       // somebody wants it
  double begun = 0;     // the server takes it up
  double answered = 0;  // somebody has it
  double latency() const { return answered - due; }
};

inline std::vector<double> latencies(std::span<const Served> queries) {
  std::vector<double> out;
  for (const Served& q : queries) out.push_back(q.latency());
  return out;
}

// Seconds that query number i takes when the server begins it at that moment.
using Service = std::function<double(size_t query, double begun)>;

// A server that works on one query at a time, first come, first served. `due` ascends. TT-STAT-07 where it
// does not.
inline std::vector<Served> serve_open_loop(std::span<const double> due, const Service& service,
                                           Loc loc = Loc::current()) {
  std::vector<Served> queries;
  double free = 0;
  for (size_t i = 0; i < due.size(); ++i) {
    if (i > 0 && due[i] < due[i - 1])
      fail("TT-STAT-07",
           "serve_open_loop: query " + std::to_string(i) + " is due at " + std::to_string(due[i]) +
               " s, before the one in front of it\n  hint: sort the moments, first come, first served",
           loc);
    const double begun = i > 0 ? std::max(due[i], free) : due[i];
    free = begun + service(i, begun);
    queries.push_back({due[i], begun, free});
  }
  return queries;
}

// The same server, asked by one user from moment 0 on, who asks again as soon as there is an answer.
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

// The highest rate at which a bound holds: doubled from `lowest` until it does not, then bisected until both
// are closer than the precision, a ratio. `holds(rate)` makes one run and judges it. 0 when not even `lowest`
// holds.
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
