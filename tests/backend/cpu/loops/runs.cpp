#include <support/array.hpp>

#include <algorithm>
#include <tinytorch/backend/cpu/loops/runs.hpp>
#include <utility>

using namespace test;
namespace kernels = tinytorch::backend::cpu;

template <class T>
void check_lengths() {
  Generator generator(5);
  for (int64_t n = 0; n < 150; ++n) {
    std::vector<T> x, y;
    double sum = 0, dot = 0, square = 0, centered = 0, top = -INFINITY;
    for (int64_t i = 0; i < n; ++i) {
      x.push_back(static_cast<T>(generator.uniform(-1, 1)));
      y.push_back(static_cast<T>(generator.uniform(-1, 1)));
      const double a = static_cast<double>(x.back()), b = static_cast<double>(y.back());
      sum += a, dot += a * b, square += (a - 0.25) * (a - 0.25), centered += b * (a - 0.25);
      top = std::max(top, a);
    }
    const std::vector<double> got = {
        static_cast<double>(kernels::sum_run(x.data(), n)),
        static_cast<double>(kernels::dot_run(x.data(), y.data(), n)),
        static_cast<double>(kernels::square_run(x.data(), T(0.25), n)),
        static_cast<double>(kernels::centered_dot_run(x.data(), T(0.25), y.data(), n))};
    check_close(got, {sum, dot, square, centered}, dtype_of<T>, 20);
    if (n == 0) continue;
    CHECK(static_cast<double>(kernels::max_run(x.data(), n)) == top);
    x[static_cast<size_t>(n * 7 % n)] = std::numeric_limits<T>::quiet_NaN();
    CHECK(std::isnan(kernels::max_run(x.data(), n)));
  }
}

TEST_CASE("reductions of runs of any length") {
  check_lengths<float>();
  check_lengths<double>();
}

TEST_CASE("sums and maxima of rows that threads share") {
  constexpr int64_t kPart = kernels::kSharedRun;
  Generator generator(11);
  for (const int64_t n : {kPart - 1, kPart, kPart + 1, 5 * kPart + 7}) {
    std::vector<float> x(static_cast<size_t>(n));
    double want = 0, size = 0;
    for (float& v : x) {
      v = static_cast<float>(generator.uniform(-1, 1));
      want += static_cast<double>(v), size += std::abs(static_cast<double>(v));
    }
    const double sum =
        kernels::sum_pieces(n, [&](int64_t i, int64_t m) { return kernels::sum_run(x.data() + i, m); });
    CHECK(std::abs(sum - want) <= 1e-7 * size);
    for (const int64_t i : {int64_t{0}, n / 2, n - 1}) {
      const float kept = std::exchange(x[static_cast<size_t>(i)], 2.0F);
      CHECK(kernels::max_of_row(x.data(), n) == 2.0F);
      x[static_cast<size_t>(i)] = NAN;
      CHECK(std::isnan(kernels::max_of_row(x.data(), n)));
      x[static_cast<size_t>(i)] = kept;
    }
  }
}

TEST_CASE("every row, and every value of a shared row, is processed once") {
  for (const auto& shape :
       {std::pair<int64_t, int64_t>{0, 5}, {3, 0}, {700, 3}, {1, 100'000}, {2, 200'000}}) {
    const int64_t rows = shape.first, n = shape.second;
    std::vector<int> row_visits(static_cast<size_t>(rows)), visits(static_cast<size_t>(rows * n));
    kernels::for_each_row(rows, n, [&](int64_t r) {
      row_visits[static_cast<size_t>(r)] += 1;
      kernels::parallel_over_row(n, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) visits[static_cast<size_t>(r * n + i)] += 1;
      });
    });
    CHECK(std::ranges::count(row_visits, 1) == rows);
    CHECK(std::ranges::count(visits, 1) == rows * n);
  }
}

TEST_CASE_TEMPLATE("infinities and NaN are found at every position", T, float, double) {
  constexpr T kLargest = std::numeric_limits<T>::max(), kInfinity = std::numeric_limits<T>::infinity();
  for (size_t n : {0u, 1u, 15u, 33u, 70u}) {
    CHECK(kernels::all_finite(std::vector<T>(n, -kLargest).data(), static_cast<int64_t>(n)));
    for (size_t i = 0; i < n; ++i) {
      for (const T bad : {kInfinity, -kInfinity, std::numeric_limits<T>::quiet_NaN()}) {
        std::vector<T> x(n, -kLargest);
        x[i] = bad;
        CHECK(!kernels::all_finite(x.data(), static_cast<int64_t>(n)));
      }
    }
  }
}

TEST_CASE("the maximum is found at every position, and so is NaN") {
  for (size_t n : {1u, 15u, 16u, 31u, 32u, 33u, 64u, 70u}) {
    for (size_t i = 0; i < n; ++i) {
      std::vector<float> x(n, -2.0F);
      x[i] = -1.0F;
      CHECK(kernels::max_run(x.data(), static_cast<int64_t>(n)) == -1.0F);
      x[i] = NAN;
      CHECK(std::isnan(kernels::max_run(x.data(), static_cast<int64_t>(n))));
    }
  }
}
