// Random kernels: each element is the same for any length, offset and number of threads; distributions.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <tinytorch/backend/cpu/random.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/random.hpp>
#include <vector>

namespace tt = tinytorch;
using namespace tinytorch::backend;

namespace {
template <class T>
std::vector<T> draw(Distribution kind, int64_t n, uint64_t seed, uint64_t first, double a, double b) {
  std::vector<T> v(static_cast<size_t>(n));
  cpu::random(kind, {v.data(), tt::dtype_of<T>, {n}, {1}}, seed, first, a, b);
  return v;
}
double normal_cdf(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }
}  // namespace

TEST_CASE("element i is word i % 4 of block i / 4, or two words for f64") {
  const auto f = draw<float>(Distribution::uniform, 11, 9, 5, 0, 1);
  for (size_t i = 0; i < f.size(); ++i)
    CHECK(f[i] == tt::uniform_from_bits(tt::philox(9, 5 + i / 4).v[i % 4]));
  const auto d = draw<double>(Distribution::uniform, 7, 9, 5, 0, 1);
  for (size_t i = 0; i < d.size(); ++i) {
    const auto block = tt::philox(9, 5 + i / 2);
    CHECK(d[i] == tt::uniform_from_bits(block.v[2 * (i % 2)], block.v[2 * (i % 2) + 1]));
  }
  // So a longer tensor starts like a shorter one, and a later start continues it.
  const auto longer = draw<float>(Distribution::normal, 1003, 9, 5, 0, 1),
             shorter = draw<float>(Distribution::normal, 6, 9, 5, 0, 1);
  CHECK(std::equal(shorter.begin(), shorter.end(), longer.begin()));
  for (int64_t n = 1; n < 600; n += 7) {
    const auto part = draw<float>(Distribution::normal, n, 9, 5, 0, 1);
    CHECK(std::equal(part.begin(), part.end(), longer.begin()));
  }
  const auto later = draw<float>(Distribution::normal, 8, 9, 6, 0, 1);
  CHECK(std::equal(later.begin(), later.end(), longer.begin() + 4));
}

TEST_CASE("the same bits at any number of threads") {
  for (const auto kind : {Distribution::uniform, Distribution::normal, Distribution::bernoulli}) {
    tt::set_thread_count(1);
    const auto one = draw<float>(kind, 100'001, 3, 0, 0.25, 1);
    const auto wide = draw<double>(kind, 50'001, 3, 0, 0.25, 1);
    for (const int threads : {2, 3}) {
      tt::set_thread_count(threads);
      CHECK(draw<float>(kind, 100'001, 3, 0, 0.25, 1) == one);
      CHECK(draw<double>(kind, 50'001, 3, 0, 0.25, 1) == wide);
    }
  }
}

TEST_CASE("normal numbers: moments and Kolmogorov-Smirnov distance, both precisions") {
  const auto check = []<class T>(T) {
    const int64_t n = 400'000;
    auto v = draw<T>(Distribution::normal, n, 77, 0, 2, 3);
    double sum = 0, square = 0, cube = 0, fourth = 0;
    for (T x : v) {
      const double z = (static_cast<double>(x) - 2) / 3;
      sum += z, square += z * z, cube += z * z * z, fourth += z * z * z * z;
    }
    const double root = std::sqrt(static_cast<double>(n));
    CHECK(std::abs(sum / n) < 3.3 / root);
    CHECK(std::abs(square / n - 1) < 3.3 * std::sqrt(2.0) / root);
    CHECK(std::abs(cube / n) < 3.3 * std::sqrt(15.0) / root);
    CHECK(std::abs(fourth / n - 3) < 3.3 * std::sqrt(96.0) / root);
    std::sort(v.begin(), v.end());
    double distance = 0;
    for (size_t i = 0; i < v.size(); ++i)
      distance = std::max(distance, std::abs(normal_cdf((static_cast<double>(v[i]) - 2) / 3) -
                                             (static_cast<double>(i) + 0.5) / n));
    CHECK(distance < 1.95 / root);
    // Adjacent numbers are not correlated, although Box-Muller makes them in pairs.
    const auto w = draw<T>(Distribution::normal, n, 78, 0, 0, 1);
    double product = 0;
    for (size_t i = 0; i + 1 < w.size(); i += 2) product += static_cast<double>(w[i]) * w[i + 1];
    CHECK(std::abs(product / (n / 2)) < 3.3 / std::sqrt(n / 2.0));
  };
  check(float{});
  check(double{});
}

TEST_CASE("integers are uniform in [low, high); bernoulli has its probability") {
  std::vector<int64_t> v(60'000);
  cpu::random_integers({v.data(), tt::i64, {60'000}, {1}}, 5, 0, -3, 6);
  std::vector<int> count(6);
  for (int64_t x : v) {
    REQUIRE(x >= -3);
    REQUIRE(x < 3);
    ++count[static_cast<size_t>(x + 3)];
  }
  double chi = 0;
  for (int c : count) chi += (c - 10'000.0) * (c - 10'000.0) / 10'000;
  CHECK(chi < 20.5);  // 5 degrees of freedom, 0.1 %
  const auto b = draw<float>(Distribution::bernoulli, 100'000, 6, 0, 0.3, 0);
  double ones = 0;
  for (float x : b) {
    REQUIRE((x == 0 || x == 1));
    ones += x;
  }
  CHECK(std::abs(ones / 100'000 - 0.3) < 3.3 * std::sqrt(0.21 / 100'000));
  for (float x : draw<float>(Distribution::bernoulli, 1000, 6, 0, 0, 0)) CHECK(x == 0);
  for (float x : draw<float>(Distribution::bernoulli, 1000, 6, 0, 1, 0)) CHECK(x == 1);
}
