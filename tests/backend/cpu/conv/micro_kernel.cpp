// Micro-kernels of convolution against sums in f64, at every height, width and remainder.
#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <tinytorch/backend/cpu/conv/micro_kernel.hpp>
#include <vector>

using namespace tinytorch;
using namespace tinytorch::backend::cpu;

namespace {

template <class T>
std::vector<T> uniform_values(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<T> out(n);
  for (T& x : out) x = static_cast<T>(uniform(random));
  return out;
}

template <class T>
void check_rows() {
  const std::vector<T> x = uniform_values<T>(900, 1);
  const std::vector<int64_t> shift{40, 7, 0, 333, 41, 12, 90, 8, 39};
  const auto depth = static_cast<int64_t>(shift.size());
  const std::vector<T> panel = uniform_values<T>(static_cast<size_t>(depth * kMR), 2);
  for (int64_t rows = 1; rows <= kMR; ++rows) {
    for (int64_t n : {int64_t{1}, kLanes<T>, kLanes<T> + 1, kNR<T> - 1, kNR<T>, 3 * kNR<T> + 5}) {
      const int64_t width = ceil_div(n, kNR<T>) * kNR<T> + 3;
      std::vector<T> c(static_cast<size_t>(kMR * width), T(-9));
      shifted_rows<T>(rows, n, depth, panel.data(), x.data(), shift.data(), c.data(), width);
      double worst = 0;
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t q = 0; q < n; ++q) {
          double sum = 0;
          for (int64_t k = 0; k < depth; ++k)
            sum += double{panel[static_cast<size_t>(k * kMR + i)]} *
                   x[static_cast<size_t>(q + shift[static_cast<size_t>(k)])];
          worst = std::max(worst, std::abs(sum - c[static_cast<size_t>(i * width + q)]));
        }
      }
      CHECK(worst < 20 * std::numeric_limits<T>::epsilon());
      for (int64_t i = rows <= 2 ? 2 : rows <= 4 ? 4 : 6; i < kMR; ++i)
        CHECK(c[static_cast<size_t>(i * width)] == T(-9));  // no row outside the tile is written
    }
  }
}

template <class T, int64_t kRows>
void check_dots() {
  constexpr int64_t kPositions = 5 * kLanes<T>, kRow = kPositions + 3, kMost = 64;
  const std::vector<T> dy = uniform_values<T>(kRows * kRow, 3);
  const std::vector<int64_t> shift{17, 0, 3, kMost};
  for (const bool guarded : {false, true}) {
    std::vector<T> x = uniform_values<T>(kPositions + kMost, 4), c(kRows * 7, T(2));
    std::vector<Bits<T>> valid(kPositions, Bits<T>(-1));
    if (guarded) {
      valid[2] = valid[kLanes<T>] = 0;
      for (int k = 0; k < kNRVectors; ++k) {
        x[static_cast<size_t>(2 + shift[static_cast<size_t>(k)])] = INFINITY;
        x[static_cast<size_t>(kLanes<T> + shift[static_cast<size_t>(k)])] = NAN;
      }
    }
    const auto dots = guarded ? &shifted_dots<T, kRows, true> : &shifted_dots<T, kRows, false>;
    for (const bool accumulate : {false, true})
      dots(kPositions, dy.data(), kRow, x.data(), shift.data(), valid.data(), c.data(), 7, accumulate);
    for (int64_t i = 0; i < kRows; ++i) {
      for (int64_t k = 0; k < kNRVectors; ++k) {
        double sum = 0;
        for (int64_t q = 0; q < kPositions; ++q)
          if (valid[static_cast<size_t>(q)])
            sum += double{dy[static_cast<size_t>(i * kRow + q)]} *
                   x[static_cast<size_t>(q + shift[static_cast<size_t>(k)])];
        const double found = c[static_cast<size_t>(i * 7 + k)];
        if (std::isfinite(sum)) {
          CHECK(std::abs(found - 2 * sum) < 200 * std::numeric_limits<T>::epsilon());
        } else {
          CHECK_FALSE(std::isfinite(found));
        }
      }
      CHECK(c[static_cast<size_t>(i * 7 + kNRVectors)] == T(2));
    }
  }
}

}  // namespace

TEST_CASE("shifted_rows equals sums in f64") {
  check_rows<float>();
  check_rows<double>();
}

TEST_CASE("shifted_dots equals sums in f64, and masked positions have no effect") {
  check_dots<float, 2>();
  check_dots<float, kMR>();
  check_dots<double, 2>();
  check_dots<double, kMR>();
}

TEST_CASE("horizontal sums of two and of four vectors") {
  const std::vector<float> x = uniform_values<float>(4 * kLanes<float>, 5);
  const auto sum_of = [&](int v) {
    double sum = 0;
    for (int64_t i = 0; i < kLanes<float>; ++i) sum += x[static_cast<size_t>(v * kLanes<float> + i)];
    return sum;
  };
  Simd<float> four[4];
  for (int v = 0; v < 4; ++v) four[v] = simd_load(x.data() + v * kLanes<float>);
  const Simd<float> two[2] = {four[0], four[1]};
  const Simd<float> a = horizontal_sums<float>(two), b = horizontal_sums<float>(four);
  for (int v = 0; v < 2; ++v) CHECK(std::abs(a[v] - sum_of(v)) < 1e-5);
  for (int v = 0; v < 4; ++v) CHECK(std::abs(b[v] - sum_of(v)) < 1e-5);
}
