#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <tinytorch/benchmarking/ranking.hpp>
#include <tinytorch/core/random.hpp>

namespace st = tinytorch::statistics;
using tinytorch::Generator;
using Rows = std::vector<std::vector<double>>;

namespace {
// The volume by inclusion and exclusion over the boxes of every subset of points.
double by_inclusion_exclusion(const Rows& points, const std::vector<double>& reference) {
  double total = 0;
  for (size_t subset = 1; subset < (size_t{1} << points.size()); ++subset) {
    double volume = -1;
    for (size_t i = 0; i < points.size(); ++i)
      if (subset >> i & 1) volume = -volume;
    for (size_t k = 0; k < reference.size(); ++k) {
      double side = std::numeric_limits<double>::infinity();
      for (size_t i = 0; i < points.size(); ++i)
        if (subset >> i & 1) side = std::min(side, std::max(0.0, reference[k] - points[i][k]));
      volume *= side;
    }
    total += volume;
  }
  return total;
}
}  // namespace

TEST_CASE("ranks: sorted by lower bound, shared by overlapping intervals, the next rank counts all above") {
  const auto ranks = [](std::vector<st::Interval> v) {
    std::vector<std::pair<size_t, int64_t>> out;
    for (const auto& r : st::rank_with_ties(v)) out.emplace_back(r.index, r.rank);
    return out;
  };
  using Pairs = std::vector<std::pair<size_t, int64_t>>;
  CHECK(ranks({{100, 99, 101}, {200, 190, 210}, {195, 185, 205}}) == Pairs{{1, 1}, {2, 1}, {0, 3}});
  CHECK(ranks({{1, 1, 1}, {2, 2, 2}, {3, 3, 3}}) == Pairs{{2, 1}, {1, 2}, {0, 3}});
  CHECK(ranks({{5, 4, 6}, {7, 6, 8}}) == Pairs{{1, 1}, {0, 1}});  // touching intervals overlap
  CHECK(ranks({{5, 4, 6}, {5, 4, 6}}) == Pairs{{0, 1}, {1, 1}});  // equal: input order
  CHECK(ranks({{10, 9, 11}, {8, 7, 9.5}, {6, 5, 7.5}}) ==
        Pairs{{0, 1}, {1, 1}, {2, 3}});                                // ties do not chain
  CHECK(ranks({{50, 1, 99}, {40, 39, 41}}) == Pairs{{1, 1}, {0, 1}});  // a wide interval gives no advantage
  CHECK(ranks({}).empty());
}

TEST_CASE("Pareto front: dominated points are removed, equal and incomparable ones are kept") {
  CHECK(st::pareto_front(Rows{{1, 4}, {2, 2}, {3, 3}, {4, 1}, {2, 2}, {1, 5}}) ==
        std::vector<size_t>{0, 1, 3, 4});
  CHECK(st::pareto_front(Rows{{1, 1, 9}, {2, 2, 1}, {2, 2, 2}}) == std::vector<size_t>{0, 1});
  CHECK(st::pareto_front(Rows{{3}, {1}, {2}}) == std::vector<size_t>{1});
  CHECK(st::pareto_front(Rows{}).empty());
}

TEST_CASE("hypervolume matches values computed by hand") {
  const std::vector<double> corner{4, 4};
  // Steps under (1,3), (2,2), (3,1): columns of width 1 and heights 1, 2, 3.
  CHECK(st::hypervolume(Rows{{1, 3}, {2, 2}, {3, 1}}, corner) == 6);
  CHECK(st::hypervolume(Rows{{2, 2}, {3, 1}, {1, 3}, {3, 3}, {2, 2}}, corner) ==
        6);  // dominated and equal points
  CHECK(st::hypervolume(Rows{{1, 3}, {3, 1}}, corner) == 5);
  CHECK(st::hypervolume(Rows{{1, 4}, {5, 0}}, corner) == 0);  // not better than the reference in every column
  CHECK(st::hypervolume(Rows{}, corner) == 0);
  CHECK(st::hypervolume(Rows{{2}, {7}, {3}}, std::vector<double>{10}) == 8);
  CHECK(st::hypervolume(Rows{{0, 0, 0}}, std::vector<double>{2, 3, 4}) == 24);
  // Two boxes 1 x 2 x 2 and 2 x 2 x 1 that share 1 x 2 x 1.
  CHECK(st::hypervolume(Rows{{1, 0, 0}, {0, 0, 1}}, std::vector<double>{2, 2, 2}) == 6);
}

TEST_CASE("hypervolume agrees with inclusion and exclusion in 1 to 4 objectives") {
  Generator random(21);
  for (size_t columns = 1; columns <= 4; ++columns) {
    for (int round = 0; round < 25; ++round) {
      Rows points(1 + random.below(8), std::vector<double>(columns));
      for (auto& p : points)
        for (double& x : p)
          x = round % 2 == 0 ? random.uniform(-1, 1.2) : static_cast<double>(random.below(4)) / 2;
      const std::vector<double> reference(columns, 1.0);
      CAPTURE(columns);
      CHECK(st::hypervolume(points, reference) ==
            doctest::Approx(by_inclusion_exclusion(points, reference)).epsilon(1e-11));
    }
  }
}

TEST_CASE("rows of different lengths throw") {
  const auto code = [](const std::function<void()>& f) { return message_of(f).substr(0, 10); };
  CHECK(code([&] { st::pareto_front(Rows{{1}, {1, 2}}); }) == "TT-STAT-04");
  CHECK(code([&] { st::hypervolume(Rows{{1}}, std::vector<double>{2, 2}); }) == "TT-STAT-04");
  CHECK(code([&] { st::hypervolume(Rows{{1}}, {}); }) == "TT-STAT-01");
}
