// Closed forms computed by hand, and SciPy's values (tests/golden/make_statistics.py).
#include <doctest/doctest.h>

#include <numbers>
#include <support/golden_file.hpp>
#include <tinytorch/benchmarking/distributions.hpp>

namespace st = tinytorch::statistics;

namespace {
// Relative tolerance, also for very small tails.
bool agrees(double got, double want, double relative) { return std::abs(got - want) <= relative * want; }
}  // namespace

TEST_CASE("tails match values computed by hand") {
  CHECK(st::normal_tail(0) == 0.5);
  CHECK(st::student_t_tail(0, 3) == 0.5);
  CHECK(st::student_t_tail(1, 1) == doctest::Approx(0.25).epsilon(1e-13));  // Cauchy: 1/2 - atan(t) / pi
  CHECK(st::student_t_tail(-1, 1) == doctest::Approx(0.75).epsilon(1e-13));
  CHECK(st::student_t_tail(2, 2) == doctest::Approx(0.5 - 1 / std::sqrt(6.0)).epsilon(1e-13));
  CHECK(st::student_t_tail(std::numeric_limits<double>::infinity(), 4) == 0);
  CHECK(st::student_t_tail(-std::numeric_limits<double>::infinity(), 4) == 1);
  CHECK(st::binomial_cdf(1, 3, 0.5) == doctest::Approx(0.5).epsilon(1e-13));
  CHECK(st::binomial_cdf(0, 4, 0.1) == doctest::Approx(0.6561).epsilon(1e-13));
  CHECK(st::binomial_cdf(-1, 4, 0.1) == 0);
  CHECK(st::binomial_cdf(4, 4, 0.1) == 1);
  CHECK(st::binomial_cdf(3, 4, 1) == 0);
  CHECK(st::binomial_cdf(0, 4, 0) == 1);
  CHECK(st::incomplete_beta(0.3, 0.7, 1, 1) == doctest::Approx(0.3).epsilon(1e-13));  // uniform
  CHECK(st::incomplete_beta(0.5, 0.5, 0.5, 0.5) == doctest::Approx(0.5).epsilon(1e-13));
}

TEST_CASE("the normal quantile is the inverse of the tail") {
  CHECK(std::abs(st::normal_quantile(0.5)) < 1e-15);
  CHECK(st::normal_quantile(0.975) == doctest::Approx(1.959963984540054).epsilon(1e-14));
  CHECK(st::normal_quantile(0.95) == doctest::Approx(1.6448536269514722).epsilon(1e-14));
  for (const double p : {1e-300, 1e-12, 0.01, 0.3, 0.8, 0.999})
    CHECK(agrees(st::normal_tail(-st::normal_quantile(p)), p, 1e-10));
}

TEST_CASE("tails agree with SciPy, including very small ones") {
  const auto tails = read_golden("statistics").at("tails");
  for (const auto& c : tails.at("normal")) {
    CAPTURE(c.dump());
    CHECK(agrees(st::normal_tail(c[0]), c[1], 1e-12));
  }
  REQUIRE(tails.at("student_t").size() == 40);
  for (const auto& c : tails.at("student_t")) {
    CAPTURE(c.dump());
    CHECK(agrees(st::student_t_tail(c[0], c[1]), c[2], 1e-10));
  }
  REQUIRE(tails.at("binomial").size() == 65);
  for (const auto& c : tails.at("binomial")) {
    CAPTURE(c.dump());
    CHECK(std::abs(st::binomial_cdf(c[0], c[1], c[2]) - c[3].get<double>()) <=
          1e-15 + 1e-9 * c[3].get<double>());
  }
  for (const auto& c : tails.at("beta")) {
    CAPTURE(c.dump());
    const double x = c[0];
    CHECK(std::abs(st::incomplete_beta(x, 1 - x, c[1], c[2]) - c[3].get<double>()) <=
          1e-15 + 1e-11 * c[3].get<double>());
  }
}
