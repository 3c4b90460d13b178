// Matrix products at sizes around tiles and blocks, in every stride order, accumulating, and with any number
// of threads.
#include <doctest/doctest.h>
#include <array>

#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <tinytorch/backend/cpu/gemm.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/random.hpp>
#include <tuple>
#include <vector>

namespace tt = tinytorch;
using namespace tinytorch::backend;

namespace {

struct Problem {
  int64_t M, N, K;
  std::vector<float> a, b, c;
  Problem(int64_t m, int64_t n, int64_t k) : M(m), N(n), K(k) {
    tt::Generator g(static_cast<uint64_t>(m * 1000 + n * 10 + k));
    for (auto [v, size] : {std::pair{&a, m * k}, {&b, k * n}, {&c, m * n}}) {
      for (int64_t i = 0; i < size; ++i) v->push_back(static_cast<float>(g.uniform(-1, 1)));
    }
  }
};

// Largest error of c (strides c_row, c_col) against plain loops, relative to the rounding error bound.
double worst(const Problem& p, const float* got, int64_t c_row, int64_t c_col, bool left_t, bool right_t,
             bool accumulate) {
  double worst_error = 0;
  for (int64_t i = 0; i < p.M; ++i) {
    for (int64_t j = 0; j < p.N; ++j) {
      double sum = accumulate ? p.c[static_cast<size_t>(i * p.N + j)] : 0, size = std::abs(sum);
      for (int64_t k = 0; k < p.K; ++k) {
        const double x = p.a[static_cast<size_t>(left_t ? k * p.M + i : i * p.K + k)];
        const double y = p.b[static_cast<size_t>(right_t ? j * p.K + k : k * p.N + j)];
        sum += x * y;
        size += std::abs(x * y);
      }
      const double allowed = 8 * 0x1p-23 * size + 1e-30;
      worst_error = std::max(worst_error, std::abs(got[i * c_row + j * c_col] - sum) / allowed);
    }
  }
  return worst_error;
}

}  // namespace

TEST_CASE("sizes around tiles and blocks, both operands plain and transposed") {
  for (const auto& [M, N, K] : {std::tuple{1, 1, 1},
                                {1, 300, 70},
                                {300, 1, 70},
                                {5, 15, 3},
                                {6, 16, 255},
                                {7, 17, 256},
                                {13, 31, 257},
                                {14, 32, 513},
                                {15, 33, 2},
                                {64, 65, 66},
                                {97, 101, 103},
                                {530, 70, 40},
                                {1040, 130, 300}}) {
    for (const bool left_t : {false, true}) {
      for (const bool right_t : {false, true}) {
        for (const bool accumulate : {false, true}) {
          Problem p(M, N, K);
          std::vector<float> out = p.c;
          const View a{p.a.data(), tt::f32, {M, K}, left_t ? tt::Strides{1, M} : tt::Strides{K, 1}};
          const View b{p.b.data(), tt::f32, {K, N}, right_t ? tt::Strides{1, K} : tt::Strides{N, 1}};
          cpu::gemm({out.data(), tt::f32, {M, N}, {N, 1}}, a, b, accumulate);
          const std::array<int64_t, 3> sizes{M, N, K};
          INFO(sizes[0], " ", sizes[1], " ", sizes[2], " transposed ", left_t, right_t, " accumulate ",
               accumulate);
          CHECK(worst(p, out.data(), N, 1, left_t, right_t, accumulate) <= 1);
        }
      }
    }
  }
}

TEST_CASE("random sizes, orders and row lengths") {
  tt::Generator g(20261123);
  const auto pick = [&g](int64_t most) {
    return 1 + static_cast<int64_t>(g.uniform(0, 1) * static_cast<double>(most));
  };
  for (int round = 0; round < 120; ++round) {
    const int64_t M = pick(round % 3 == 0 ? 10 : 150), N = pick(round % 4 == 0 ? 10 : 150), K = pick(300);
    const bool left_t = g.uniform(0, 1) < 0.5, right_t = g.uniform(0, 1) < 0.5,
               accumulate = g.uniform(0, 1) < 0.5;
    const Problem p(M, N, K);
    std::vector<float> a = p.a, b = p.b, out = p.c;
    CAPTURE(M);
    CAPTURE(N);
    CAPTURE(K);
    cpu::gemm({out.data(), tt::f32, {M, N}, {N, 1}},
              {a.data(), tt::f32, {M, K}, left_t ? tt::Strides{1, M} : tt::Strides{K, 1}},
              {b.data(), tt::f32, {K, N}, right_t ? tt::Strides{1, K} : tt::Strides{N, 1}}, accumulate);
    CHECK(worst(p, out.data(), N, 1, left_t, right_t, accumulate) <= 1);
  }
}

TEST_CASE("the result may be strided, or wider than a block") {
  Problem p(9, 11, 40);
  std::vector<float> out(2 * 9 * 11 + 200, 7);
  cpu::gemm({out.data(), tt::f32, {9, 11}, {1, 9}}, {p.a.data(), tt::f32, {9, 40}, {40, 1}},
            {p.b.data(), tt::f32, {40, 11}, {11, 1}});
  CHECK(worst(p, out.data(), 1, 9, false, false, false) <= 1);
  std::fill(out.begin(), out.end(), 7.0f);
  cpu::gemm({out.data(), tt::f32, {9, 11}, {13, 1}}, {p.a.data(), tt::f32, {9, 40}, {40, 1}},
            {p.b.data(), tt::f32, {40, 11}, {11, 1}});
  CHECK(worst(p, out.data(), 13, 1, false, false, false) <= 1);
  for (int i = 0; i < 9; ++i) CHECK(out[static_cast<size_t>(13 * i + 12)] == 7);  // gaps are unchanged
  Problem wide(3, 3100, 5);
  std::vector<float> w(3 * 3100);
  cpu::gemm({w.data(), tt::f32, {3, 3100}, {3100, 1}}, {wide.a.data(), tt::f32, {3, 5}, {5, 1}},
            {wide.b.data(), tt::f32, {5, 3100}, {3100, 1}});
  CHECK(worst(wide, w.data(), 3100, 1, false, false, false) <= 1);
}

TEST_CASE("larger than a macro block") {
  for (const auto& [M, N, K] : {std::tuple{3600, 3, 1030}, {3, 5, 91'200}}) {
    for (const bool accumulate : {false, true}) {
      Problem p(M, N, K);
      std::vector<float> out = p.c;
      cpu::gemm({out.data(), tt::f32, {M, N}, {N, 1}}, {p.a.data(), tt::f32, {M, K}, {K, 1}},
                {p.b.data(), tt::f32, {K, N}, {N, 1}}, accumulate);
      CHECK(worst(p, out.data(), N, 1, false, false, accumulate) <= 1);
    }
  }
}

TEST_CASE("depth 0 gives zeros, or leaves C unchanged if accumulating") {
  float c[] = {1, 2, 3, 4}, none = 0;
  const View a{&none, tt::f32, {2, 0}, {0, 1}}, b{&none, tt::f32, {0, 2}, {2, 1}},
      out{c, tt::f32, {2, 2}, {2, 1}};
  cpu::gemm(out, a, b, true);
  CHECK(c[3] == 4);
  cpu::gemm(out, a, b);
  for (float v : c) CHECK(v == 0);
}

TEST_CASE("integers are exact and wrap") {
  std::vector<int32_t> a(3 * 5, 1'000'000), b(5 * 2, 1'000), c(6);
  cpu::gemm({c.data(), tt::i32, {3, 2}, {2, 1}}, {a.data(), tt::i32, {3, 5}, {5, 1}},
            {b.data(), tt::i32, {5, 2}, {2, 1}});
  for (int32_t v : c) CHECK(v == static_cast<int32_t>(uint32_t{5'000'000'000u & 0xffffffffu}));
  std::vector<int64_t> x(7, 3'000'000'000), y(7, 2), z(1);
  cpu::gemm({z.data(), tt::i64, {1, 1}, {1, 1}}, {x.data(), tt::i64, {1, 7}, {7, 1}},
            {y.data(), tt::i64, {7, 1}, {1, 1}});
  CHECK(z[0] == 42'000'000'000);
  std::vector<int8_t> s(200, 100), out(1);
  cpu::gemm({out.data(), tt::i8, {1, 1}, {1, 1}}, {s.data(), tt::i8, {1, 200}, {200, 1}},
            {s.data(), tt::i8, {200, 1}, {1, 1}});
  CHECK(out[0] == static_cast<int8_t>(2'000'000 & 0xff));
  int32_t wide = 0;  // the product of i8 into i32 does not wrap
  cpu::gemm({&wide, tt::i32, {1, 1}, {1, 1}}, {s.data(), tt::i8, {1, 200}, {200, 1}},
            {s.data(), tt::i8, {200, 1}, {1, 1}});
  CHECK(wide == 2'000'000);
}

TEST_CASE("the same bits at one, two and three threads") {
  for (const auto& [M, N, K] : {std::tuple{150, 170, 300}, {1, 4000, 333}, {400, 3, 200}, {3600, 40, 1030}}) {
    Problem p(M, N, K);
    std::vector<float> reference;
    for (const int threads : {1, 2, 3}) {
      tt::set_thread_count(threads);
      std::vector<float> out(static_cast<size_t>(M * N));
      cpu::gemm({out.data(), tt::f32, {M, N}, {N, 1}}, {p.a.data(), tt::f32, {M, K}, {K, 1}},
                {p.b.data(), tt::f32, {K, N}, {N, 1}});
      if (threads == 1) reference = out;
      CHECK(std::memcmp(out.data(), reference.data(), out.size() * sizeof(float)) == 0);
    }
  }
}

// The promise of products_by_rows(), for weights of a linear layer and for any other strides.
TEST_CASE_TEMPLATE("by rows, the bits of a row do not depend on the rows beside it", T, float, double,
                   tt::BFloat16, tt::Half) {
  using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const cpu::ProductsByRows by_rows;
  tt::Generator g(11);
  for (const auto& sizes : {std::pair{1, 1}, {5, 7}, {33, 64}, {130, 129}, {64, 1100}, {1000, 96}}) {
    const int64_t M = 203, N = sizes.first, K = sizes.second;
    std::vector<T> a(static_cast<size_t>(M * K)), b(static_cast<size_t>(K * N));
    for (auto* v : {&a, &b})
      for (T& x : *v) x = T(g.uniform(-1, 1));
    for (const bool weights : {true, false}) {
      for (const bool accumulate : {false, true}) {
        const View right{b.data(), tt::dtype_of<T>, {K, N}, {weights ? 1 : N, weights ? K : 1}};
        const auto rows = [&](int64_t first, int64_t count, int threads) {
          tt::set_thread_count(threads);
          std::vector<Sum> out(static_cast<size_t>(count * N), Sum(0.5));
          cpu::gemm({out.data(), tt::dtype_of<Sum>, {count, N}, {N, 1}},
                    {a.data() + first * K, tt::dtype_of<T>, {count, K}, {K, 1}}, right, accumulate);
          return out;
        };
        const std::vector<Sum> all = rows(0, M, 2);
        for (const auto& [first, count] :
             {std::pair{0, 1}, {7, 1}, {100, 2}, {3, 5}, {50, 8}, {60, 9}, {90, 64}, {202, 1}}) {
          const std::vector<Sum> some = rows(first, count, 1);
          CHECK(std::memcmp(some.data(), all.data() + first * N, some.size() * sizeof(Sum)) == 0);
        }
        double worst = 0;
        for (int64_t i = 0; i < M; ++i) {
          for (int64_t j = 0; j < N; ++j) {
            double sum = accumulate ? 0.5 : 0, size = std::abs(sum);
            for (int64_t k = 0; k < K; ++k) {
              const double x = static_cast<double>(a[static_cast<size_t>(i * K + k)]);
              const double y = static_cast<double>(b[static_cast<size_t>(weights ? j * K + k : k * N + j)]);
              sum += x * y, size += std::abs(x * y);
            }
            const double error = std::abs(static_cast<double>(all[static_cast<size_t>(i * N + j)]) - sum);
            worst = std::max(worst, error / (size * std::numeric_limits<Sum>::epsilon()));
          }
        }
        CHECK(worst < 8 + std::sqrt(static_cast<double>(K)));
      }
    }
  }
  tt::set_thread_count(2);
}
TEST_CASE("products_by_rows() is set until the end of the scope") {
  CHECK(!cpu::products_by_rows());
  {
    const cpu::ProductsByRows on;
    CHECK(cpu::products_by_rows());
    const cpu::ProductsByRows off(false);
    CHECK(!cpu::products_by_rows());
  }
  CHECK(!cpu::products_by_rows());
}

TEST_CASE("the epilogue gets each sum once, before it is rounded to c, for any dtype and strides of c") {
  constexpr int64_t kM = 7, kN = 40, kK = 9;
  tt::Generator g(3);
  std::vector<tt::BFloat16> a(kM * kK), b(kK * kN);
  for (auto* v : {&a, &b})
    for (tt::BFloat16& x : *v) x = tt::BFloat16(g.uniform(-1, 1));
  const View left{a.data(), tt::bf16, {kM, kK}, {kK, 1}}, right{b.data(), tt::bf16, {kK, kN}, {kN, 1}};
  for (const tt::DType type : {tt::f32, tt::bf16}) {
    for (const bool across : {false, true}) {  // columns contiguous, or rows
      std::vector<float> storage(kM * kN, 99);
      const View c{storage.data(), type, {kM, kN}, {across ? int64_t{1} : kN, across ? kM : int64_t{1}}};
      std::vector<int> times(kM * kN);
      std::vector<double> found(kM * kN);
      const auto value = [&](int64_t i, int64_t j) {
        const int64_t at = i * c.strides[0] + j * c.strides[1];
        return type == tt::f32 ? static_cast<double>(c.as<const float>()[at])
                               : static_cast<double>(c.as<const tt::BFloat16>()[at]);
      };
      const auto epilogue = [&](const cpu::SumBlock& s) {
        for (int64_t r = 0; r < s.rows; ++r) {
          for (int64_t k = 0; k < s.cols; ++k) {
            const auto at = static_cast<size_t>((s.i + r) * kN + s.j + k);
            ++times[at];
            found[at] = double{*s.at<float>(r, k)};
            *s.at<float>(r, k) += 3;
          }
        }
      };
      cpu::gemm(c, left, right, false, true, cpu::Epilogue(epilogue));
      for (int64_t i = 0; i < kM; ++i) {
        for (int64_t j = 0; j < kN; ++j) {
          double sum = 0;
          for (int64_t k = 0; k < kK; ++k)
            sum += static_cast<double>(a[static_cast<size_t>(i * kK + k)]) *
                   static_cast<double>(b[static_cast<size_t>(k * kN + j)]);
          REQUIRE(times[static_cast<size_t>(i * kN + j)] == 1);
          REQUIRE(std::abs(found[static_cast<size_t>(i * kN + j)] - sum) <= 1e-5);
          REQUIRE(std::abs(value(i, j) - (sum + 3)) <= (type == tt::f32 ? 1e-5 : 0.02));
        }
      }
    }
  }
}
