#include <support/check.hpp>
#include <tinytorch/benchmarking/ranking.hpp>

using namespace course;
using namespace statistics;

namespace {

using Rows = std::vector<std::vector<double>>;
using Order = std::vector<size_t>;

struct Ranking {
  Order order;
  std::vector<int64_t> ranks;  // ranks of the entries in `order`
};
Ranking ranking(const std::vector<Interval>& intervals) {
  Ranking out;
  for (const Rank& r : rank_with_ties(intervals)) out.order.push_back(r.index), out.ranks.push_back(r.rank);
  return out;
}
void expect_ranking(const std::string& what, const std::vector<Interval>& intervals, const Order& order,
                    const std::vector<int64_t>& ranks, const std::string& guess = "") {
  const Ranking got = ranking(intervals);
  expect(what + ": order " + shown(order) + " with ranks " + shown(ranks) + "; got " + shown(got.order) +
             " with " + shown(got.ranks),
         got.order == order && got.ranks == ranks, guess);
}

// Dominance by the definition: nowhere worse, and somewhere better.
bool dominated(const std::vector<double>& point, const std::vector<double>& by) {
  bool worse = false, better = false;
  for (size_t k = 0; k < point.size(); ++k)
    worse = worse || by[k] > point[k], better = better || by[k] < point[k];
  return better && !worse;
}
Order front_of(const Rows& points) {
  Order front;
  for (size_t i = 0; i < points.size(); ++i) {
    size_t by = 0;
    for (const auto& other : points) by += dominated(points[i], other);
    if (by == 0) front.push_back(i);
  }
  return front;
}
// The number of cells of a grid that some point dominates. Points and reference are integers.
double cells_of(const Rows& points, const std::vector<double>& reference) {
  double cells = 0;
  const size_t n = reference.size(), side = static_cast<size_t>(reference[0]);
  for (size_t cell = 0; cell < static_cast<size_t>(std::lround(std::pow(side, n))); ++cell) {
    bool covered = false;
    for (const auto& p : points) {
      bool good = true;
      for (size_t k = 0, rest = cell; k < n; ++k, rest /= side)
        good = good && p[k] <= static_cast<double>(rest % side);
      covered = covered || good;
    }
    cells += covered;
  }
  return cells;
}

}  // namespace

TEST_CASE("10.8 entries are sorted by the lower bound, best first") {
  expect_ranking("1, 3 and 2, with intervals of width 0", {{1, 1, 1}, {3, 3, 3}, {2, 2, 2}}, {1, 2, 0},
                 {1, 2, 3});
  expect_ranking("a wide interval with the higher estimate, and a narrow one", {{50, 1, 99}, {40, 39, 41}},
                 {1, 0}, {1, 1}, "sort by `low`: an imprecise measurement must not be an advantage");
  expect_ranking("an empty list", {}, {}, {});
  expect_ranking("one", {{5, 4, 6}}, {0}, {1});
}

TEST_CASE("10.8 overlapping intervals share a rank; the next one counts all above it") {
  expect_ranking("200 +- 10, 195 +- 10 and 100 +- 1", {{100, 99, 101}, {200, 190, 210}, {195, 185, 205}},
                 {1, 2, 0}, {1, 1, 3}, "two entries share rank 1, so the third has rank 3: 1 1 3");
  expect_ranking("intervals that touch", {{5, 4, 6}, {7, 6, 8}}, {1, 0}, {1, 1});
  expect_ranking("equal intervals keep the given order", {{5, 4, 6}, {9, 9, 9}, {5, 4, 6}}, {1, 0, 2},
                 {1, 2, 2});
  expect_ranking("three groups", {{9, 8, 10}, {8.5, 7.5, 9}, {5, 4, 6}, {4.5, 3.5, 5}, {1, 1, 1}},
                 {0, 1, 2, 3, 4}, {1, 1, 3, 3, 5});
}

TEST_CASE("10.8 a tie is an overlap with the first of its group, without chains") {
  expect_ranking("10 +- 1, 8 +- 1.5, 6 +- 1.5: the third overlaps the second, not the first",
                 {{10, 9, 11}, {8, 7, 9.5}, {6, 5, 7.5}}, {0, 1, 2}, {1, 1, 3},
                 "with chains, rank 1 would include every entry that overlaps its neighbour");
  std::vector<Interval> stairs;
  for (int i = 0; i < 6; ++i) stairs.push_back({10.0 - i, 9.0 - i, 11.0 - i});
  expect_ranking("six intervals, each overlapping the next two", stairs, {0, 1, 2, 3, 4, 5},
                 {1, 1, 1, 4, 4, 4});
}

TEST_CASE("10.8 the order of the entries does not matter") {
  std::vector<Interval> entries;
  for (int i = 0; i < 12; ++i) {
    const double low = uniform(0, 10);
    entries.push_back({low + 0.5, low, low + uniform(0.1, 3)});
  }
  const Ranking first = ranking(entries);
  std::map<double, int64_t> rank_of;
  for (size_t i = 0; i < 12; ++i) rank_of[entries[first.order[i]].low] = first.ranks[i];
  std::shuffle(entries.begin(), entries.end(), random_source());
  const Ranking second = ranking(entries);
  for (size_t i = 0; i < 12; ++i) {
    const double low = entries[second.order[i]].low;
    expect_equal("rank of the entry that begins at " + shown(low) + ", the entries shuffled", second.ranks[i],
                 rank_of[low]);
  }
}

TEST_CASE("10.8 the Pareto front holds the points that no other point dominates") {
  expect_equal("front of (1, 4), (2, 2), (3, 3), (4, 1), (1, 5)",
               pareto_front(Rows{{1, 4}, {2, 2}, {3, 3}, {4, 1}, {1, 5}}), Order{0, 1, 3});
  expect_equal("front of one column: the smallest values", pareto_front(Rows{{3}, {1}, {2}, {1}}),
               Order{1, 3});
  expect_equal("equal points do not dominate each other", pareto_front(Rows{{2, 2}, {1, 3}, {2, 2}}),
               Order{0, 1, 2});
  expect_equal("front of no points", pareto_front(Rows{}), Order{});
  expect_equal("front of two points that are equal in the first column", pareto_front(Rows{{1, 2}, {1, 1}}),
               Order{1});
  for (size_t columns = 1; columns <= 4; ++columns) {
    for (int round = 0; round < 10; ++round) {
      Rows points(12, std::vector<double>(columns));
      for (auto& p : points)
        for (double& x : p) x = std::floor(uniform(0, 5));
      expect_equal("front of 12 points in " + shown(columns) + " columns, " + shown(points),
                   pareto_front(points), front_of(points));
    }
  }
  expect_throws("TT-STAT-04", "pareto_front of rows with 1 and 2 columns", [] {
    pareto_front(Rows{{1}, {1, 2}});
  });
  expect_throws("TT-STAT-01", "pareto_front with a NaN", [] { pareto_front(Rows{{1, 2}, {NAN, 1}}); });
}

TEST_CASE("10.8 the hypervolume of a front, compared with a count of cells") {
  const std::vector<double> corner{4, 4};
  expect_equal("volume of (1, 3), (2, 2), (3, 1) up to (4, 4)",
               hypervolume(Rows{{1, 3}, {2, 2}, {3, 1}}, corner), 6.0);
  expect_equal("a dominated point adds nothing", hypervolume(Rows{{1, 3}, {2, 2}, {3, 1}, {3, 3}}, corner),
               6.0);
  expect_equal("a point that is not below the corner adds nothing", hypervolume(Rows{{1, 4}, {5, 0}}, corner),
               0.0);
  expect_equal("nothing", hypervolume(Rows{}, corner), 0.0);
  for (size_t columns = 1; columns <= 3; ++columns) {
    const std::vector<double> reference(columns, 6.0);
    for (int round = 0; round < 8; ++round) {
      Rows points(static_cast<size_t>(1 + round), std::vector<double>(columns));
      for (auto& p : points)
        for (double& x : p) x = std::floor(uniform(0, 7.5));
      expect_equal("volume of " + shown(points) + " up to 6, in " + shown(columns) + " columns",
                   hypervolume(points, reference), cells_of(points, reference));
    }
  }
  expect_throws("TT-STAT-04", "hypervolume with a reference of another length", [] {
    hypervolume(Rows{{1}}, std::vector<double>{2, 2});
  });
}
