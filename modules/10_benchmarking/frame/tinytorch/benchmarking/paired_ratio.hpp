// Speedups from blocks in which both contenders took turns (schedule.hpp), and the test of new records.
//
// The frame of a course header: it has the given parts, and includes the functions of task 10.7. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>
#include <tinytorch/benchmarking/hypothesis.hpp>
#include <tinytorch/benchmarking/samples.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::statistics {

namespace detail {

// Task 10.7.
inline std::vector<double> log_ratios(const char* function, Samples numerator, Samples denominator, Loc loc);
inline std::vector<double> walsh_averages(Samples x);      // task 10.7
inline size_t signed_ranks_within(double risk, size_t n);  // task 10.7

}  // namespace detail

inline std::optional<Interval> paired_ratio(Samples numerator, Samples denominator, double confidence = 0.95,
                                            Loc loc = Loc::current());  // task 10.7

struct RecordRule {
  double significance = 0.01;  // the one-sided p must be below this
  double least_gain = 0.01;    // and the estimated speedup must be at least 1 + this
};

struct RecordTrial {
  double speedup = 1;  // holder's time / challenger's
  double p = 1;        // one-sided p-value of the speedup
  bool accepted = false;
};

inline RecordTrial challenge_record(Samples holder, Samples challenger, const RecordRule& rule = {},
                                    Loc loc = Loc::current());  // task 10.7

}  // namespace tinytorch::inline TT_BUILD::statistics

#include <tasks/benchmarking/paired_ratio.hpp>
