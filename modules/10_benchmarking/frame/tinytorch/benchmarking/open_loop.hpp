// Load of a server: in an open loop, queries arrive at their due times, independently of the server.
//
// The frame of a course header: it has the given parts, and includes the functions of task 10.9. It is cut
// from the library's header by modules/frames.py.
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

// Task 10.9.
inline std::vector<double> poisson_schedule(double rate, double seconds, int64_t fewest, uint64_t seed);

// The times of a query, in seconds of one clock.
struct Served {
  double due = 0;          // arrival of the query
  double begun = 0;        // start of the service
  double answered = 0;     // end of the service
  double latency() const;  // task 10.9
};

inline std::vector<double> latencies(std::span<const Served> queries) {
  std::vector<double> out;
  for (const Served& q : queries) out.push_back(q.latency());
  return out;
}

// The service time in seconds of query number i if the server begins it at `begun`.
using Service = std::function<double(size_t query, double begun)>;

inline std::vector<Served> serve_open_loop(std::span<const double> due, const Service& service,
                                           Loc loc = Loc::current());                   // task 10.9
inline std::vector<Served> serve_closed_loop(int64_t queries, const Service& service);  // task 10.9
inline double highest_rate(const std::function<bool(double rate)>& holds, double lowest, double highest,
                           double precision = 0.02);  // task 10.9

}  // namespace tinytorch::inline TT_BUILD::benchmarking

#include <tasks/benchmarking/open_loop.hpp>
