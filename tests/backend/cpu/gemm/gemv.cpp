// Matrix-vector products for every dtype of weights, against double, at sizes around vectors and groups of
// rows.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <tinytorch/backend/cpu/gemm.hpp>
#include <tinytorch/backend/cpu/gemm/gemv.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/random.hpp>
#include <vector>

namespace tt = tinytorch;
using namespace tinytorch::backend;

namespace {

std::vector<float> random_floats(int64_t n, tt::Generator& g) {
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) x = static_cast<float>(g.uniform(-1, 1));
  return v;
}

template <class S>
S weight_of(double x) {
  if constexpr (std::is_same_v<S, int8_t>) return static_cast<int8_t>(std::lround(127 * x));
  if constexpr (!std::is_same_v<S, int8_t>) return S(static_cast<float>(x));
}

}  // namespace

TEST_CASE_TEMPLATE("gemv equals sums in double, for every dtype of weights", S, float, tt::BFloat16, int8_t) {
  tt::Generator g(3);
  for (const int64_t N : {1, 3, 4, 5, 130}) {
    for (const int64_t K : {0, 1, 15, 16, 33, 300}) {
      CAPTURE(N);
      CAPTURE(K);
      const int64_t row = K + 3;
      std::vector<S> w(static_cast<size_t>(N * row + 1));
      for (S& v : w) v = weight_of<S>(g.uniform(-1, 1));
      const std::vector<float> x = random_floats(K + 1, g), scale = random_floats(N, g);
      for (const bool scaled : {false, true}) {
        std::vector<float> y(static_cast<size_t>(2 * N), 9);
        cpu::gemv({y.data(), tt::f32, {N}, {2}}, {const_cast<float*>(x.data()), tt::f32, {K}, {1}},
                  {w.data(), tt::dtype_of<S>, {N, K}, {row, 1}},
                  {scaled ? const_cast<float*>(scale.data()) : nullptr, tt::f32, {N}, {1}});
        for (int64_t n = 0; n < N; ++n) {
          double sum = 0, size = 0;
          for (int64_t k = 0; k < K; ++k) {
            const double product =
                static_cast<double>(static_cast<float>(w[static_cast<size_t>(n * row + k)])) *
                static_cast<double>(x[static_cast<size_t>(k)]);
            sum += product;
            size += std::abs(product);
          }
          const double s = scaled ? static_cast<double>(scale[static_cast<size_t>(n)]) : 1.0;
          REQUIRE(std::abs(y[static_cast<size_t>(2 * n)] - s * sum) <= 1e-6 * size * std::abs(s) + 1e-12);
          REQUIRE(y[static_cast<size_t>(2 * n + 1)] == 9);
        }
      }
    }
  }
}

TEST_CASE("the same bits at any number of threads; NaN propagates; other dtypes of weights are rejected") {
  tt::Generator g(5);
  constexpr int64_t kN = 1003, kK = 257;
  std::vector<float> x = random_floats(kK, g), w = random_floats(kN * kK, g), reference;
  const View weight{w.data(), tt::f32, {kN, kK}, {kK, 1}}, vector{x.data(), tt::f32, {kK}, {1}};
  for (const int threads : {1, 2, 3}) {
    tt::set_thread_count(threads);
    std::vector<float> y(kN);
    cpu::gemv({y.data(), tt::f32, {kN}, {1}}, vector, weight);
    if (threads == 1) reference = y;
    CHECK(std::memcmp(y.data(), reference.data(), sizeof(float) * kN) == 0);
  }
  x[200] = std::nanf("");
  std::vector<float> y(kN);
  cpu::gemv({y.data(), tt::f32, {kN}, {1}}, vector, weight);
  for (const float v : y) REQUIRE(std::isnan(v));
  CHECK_THROWS_WITH_AS(
      cpu::gemv({y.data(), tt::f32, {kN}, {1}}, vector, {w.data(), tt::i32, {kN, kK}, {kK, 1}}),
      doctest::Contains("TT-DTYPE-02"), tt::Error);
}

TEST_CASE("gemm of one row of bf16 uses gemv") {
  tt::Generator g(6);
  constexpr int64_t kN = 70, kK = 100;
  std::vector<tt::BFloat16> a(kK), w(kN * kK);
  for (auto* v : {&a, &w})
    for (tt::BFloat16& e : *v) e = tt::BFloat16(static_cast<float>(g.uniform(-1, 1)));
  for (const bool accumulate : {false, true}) {
    std::vector<float> c(kN, 2);
    cpu::gemm({c.data(), tt::f32, {1, kN}, {kN, 1}}, {a.data(), tt::bf16, {1, kK}, {kK, 1}},
              {w.data(), tt::bf16, {kK, kN}, {1, kK}}, accumulate);
    for (int64_t n = 0; n < kN; ++n) {
      double sum = accumulate ? 2 : 0;
      for (int64_t k = 0; k < kK; ++k)
        sum += static_cast<double>(static_cast<float>(a[static_cast<size_t>(k)])) *
               static_cast<double>(static_cast<float>(w[static_cast<size_t>(n * kK + k)]));
      CHECK(std::abs(c[static_cast<size_t>(n)] - sum) <= 1e-4);
    }
  }
}
