// Comparison of entries: shared ranks by overlapping intervals, the Pareto front of several objectives, and
// its hypervolume.
//
// The frame of a course header: it has the given parts, and includes the functions of task 10.8. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <tinytorch/benchmarking/samples.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD::statistics {

struct Rank {
  size_t index = 0;  // index into the given intervals
  int64_t rank = 0;  // 1 is best; 1 1 3 if the first two are tied
};

inline std::vector<Rank> rank_with_ties(std::span<const Interval> intervals);  // task 10.8
// Task 10.8.
inline std::vector<size_t> pareto_front(std::span<const std::vector<double>> costs, Loc loc = Loc::current());

namespace detail {
inline double union_of_boxes(std::vector<std::vector<double>> points, size_t columns);  // task 10.8
}  // namespace detail

inline double hypervolume(std::span<const std::vector<double>> costs, Samples reference,
                          Loc loc = Loc::current());  // task 10.8

}  // namespace tinytorch::inline TT_BUILD::statistics

#include <tasks/benchmarking/ranking.hpp>
