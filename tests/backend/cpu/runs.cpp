#include <support/array.hpp>

#include <tinytorch/backend/cpu/runs.hpp>

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

TEST_CASE("folds over runs of any length") {
  check_lengths<float>();
  check_lengths<double>();
}

TEST_CASE_TEMPLATE("what is not finite is found at every position", T, float, double) {
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

TEST_CASE("the maximum is found at every position, NaN too") {
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
