// Comparison of entries: shared ranks by overlapping intervals, the Pareto front of several objectives, and
// its hypervolume.
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

// Ranks by value; higher is better. Sorted by the lower bound, so that a wide interval gives no advantage. An
// entry shares the rank of its group's first entry if their intervals overlap or touch.
inline std::vector<Rank> rank_with_ties(std::span<const Interval> intervals) {
  std::vector<Rank> order(intervals.size());
  for (size_t i = 0; i < order.size(); ++i) order[i].index = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](Rank a, Rank b) { return intervals[a.index].low > intervals[b.index].low; });
  size_t leader = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (intervals[order[i].index].high < intervals[order[leader].index].low) leader = i;
    order[i].rank = static_cast<int64_t>(leader) + 1;
  }
  return order;
}

// The indices, ascending, of the points that no other point dominates. Each row is a point; lower is better
// in every column (negate a column where higher is better). Equal points do not dominate each other, so
// duplicates are kept.
inline std::vector<size_t> pareto_front(std::span<const std::vector<double>> costs,
                                        Loc loc = Loc::current()) {
  for (const auto& row : costs) {
    require_samples("pareto_front", row, loc);
    if (row.size() != costs[0].size())
      fail("TT-STAT-04",
           "pareto_front: rows have " + std::to_string(costs[0].size()) + " and " +
               std::to_string(row.size()) + " columns\n  hint: give every point a value for every objective",
           loc);
  }
  const auto dominates = [&](const std::vector<double>& a, const std::vector<double>& b) {
    bool better_somewhere = false;
    for (size_t k = 0; k < a.size(); ++k) {
      if (a[k] > b[k]) return false;
      better_somewhere = better_somewhere || a[k] < b[k];
    }
    return better_somewhere;
  };
  std::vector<size_t> front;
  for (size_t i = 0; i < costs.size(); ++i)
    if (std::none_of(costs.begin(), costs.end(),
                     [&](const auto& other) { return dominates(other, costs[i]); }))
      front.push_back(i);
  return front;
}

namespace detail {
// The volume of the union of boxes [p, 0], all p < 0, over the first `columns` columns. It is cut into slices
// along the last column; the depth of a slice is the distance to the next point, and its cross-section is the
// union of the points so far.
inline double union_of_boxes(std::vector<std::vector<double>> points, size_t columns) {
  const size_t last = columns - 1;
  std::sort(points.begin(), points.end(), [&](const auto& p, const auto& q) { return p[last] < q[last]; });
  if (points.empty() || columns == 1) return points.empty() ? 0 : -points[0][0];
  double volume = 0;
  std::vector<std::vector<double>> reached;
  for (size_t i = 0; i < points.size(); ++i) {
    reached.push_back(points[i]);
    const double depth = (i + 1 < points.size() ? points[i + 1][last] : 0) - points[i][last];
    if (depth > 0) volume += depth * union_of_boxes(reached, last);
  }
  return volume;
}
}  // namespace detail

// The hypervolume of a front: the volume of all outcomes that are no better than some point and no worse than
// `reference`, in the product of the columns' units. Lower is better in every column, as in pareto_front. It
// grows with every added point that the front does not dominate. A point that is not better than the
// reference in every column adds nothing. Exact, by slicing (Zitzler and Thiele 1998; While et al. 2006), for
// tens of points.
inline double hypervolume(std::span<const std::vector<double>> costs, Samples reference,
                          Loc loc = Loc::current()) {
  require_samples("hypervolume", reference, loc);
  std::vector<std::vector<double>> boxes;
  for (const auto& row : costs) {
    require_samples("hypervolume", row, loc);
    if (row.size() != reference.size())
      fail("TT-STAT-04",
           "hypervolume: the reference has " + std::to_string(reference.size()) + " columns and a row has " +
               std::to_string(row.size()) + "\n  hint: give every point a value for every objective",
           loc);
    std::vector<double> box(row.size());
    for (size_t k = 0; k < row.size(); ++k) box[k] = row[k] - reference[k];
    if (*std::max_element(box.begin(), box.end()) < 0) boxes.push_back(std::move(box));
  }
  return detail::union_of_boxes(std::move(boxes), reference.size());
}

}  // namespace tinytorch::inline TT_BUILD::statistics
