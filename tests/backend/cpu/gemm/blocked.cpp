// Epilogues of blocked products: each complete element once, on the thread that computed it.
#include <doctest/doctest.h>

#include <cmath>
#include <tinytorch/backend/cpu/gemm/amx.hpp>
#include <tinytorch/core/random.hpp>
#include <tuple>
#include <vector>

namespace tt = tinytorch;
using namespace tinytorch::backend;

TEST_CASE("the epilogue gets complete sums once, in blocks that cover C or by rows") {
  // Private and shared packing of B, more than a macro block, one thread and several.
  for (const auto& [M, N, K] :
       {std::tuple{20, 70, 5}, {300, 200, 520}, {1100, 66, 20}, {4000, 10, 6}, {7, 64, 4'194'304 / 30}}) {
    for (const auto& [threads, by_rows] : {std::pair{1, false}, {3, false}, {1, true}, {3, true}}) {
      tt::set_thread_count(threads);
      tt::Generator g(static_cast<uint64_t>(M + N + K));
      std::vector<float> a(static_cast<size_t>(M * K)), b(static_cast<size_t>(K * N));
      for (auto* v : {&a, &b})
        for (float& x : *v) x = static_cast<float>(g.uniform(-1, 1));
      std::vector<float> c(static_cast<size_t>(M * N)), finished(c.size());
      std::vector<int> times(c.size());
      const auto epilogue = [&, n = N](const cpu::SumBlock& s) {
        for (int64_t i = s.i; i < s.i + s.rows; ++i) {
          for (int64_t j = s.j; j < s.j + s.cols; ++j) {
            ++times[static_cast<size_t>(i * n + j)];
            finished[static_cast<size_t>(i * n + j)] = *s.at<float>(i - s.i, j - s.j);
          }
        }
      };
      cpu::gemm_blocked<float, float>(c.data(), N, {a.data(), K, 1}, {b.data(), N, 1}, M, N, K, false, true,
                                      cpu::Epilogue(epilogue, by_rows));
      int64_t wrong = 0;
      for (size_t i = 0; i < c.size(); ++i) wrong += times[i] != 1 || finished[i] != c[i];
      CHECK(wrong == 0);
      for (const auto& [i, j] : {std::pair{0, 0}, {M - 1, N - 1}, {M / 2, N / 3}}) {
        double sum = 0, size = 0;
        for (int64_t k = 0; k < K; ++k) {
          const double product =
              double{a[static_cast<size_t>(i * K + k)]} * b[static_cast<size_t>(k * N + j)];
          sum += product;
          size += std::abs(product);
        }
        CHECK(std::abs(c[static_cast<size_t>(i * N + j)] - sum) <= 1e-6 * size);
      }
    }
  }
}

TEST_CASE("bf16 in pairs, widened and on AMX: every stride order, odd depths, edges and accumulation") {
  // gemm uses one of the three on a processor; all three are correct on every processor.
  for (const auto& [M, N, K] :
       {std::tuple{1, 1, 1}, {5, 33, 7}, {40, 70, 515}, {300, 65, 64}, {1100, 70, 9}}) {
    for (const bool across : {false, true}) {
      for (const bool accumulate : {false, true}) {
        tt::Generator g(static_cast<uint64_t>(M + N + K));
        std::vector<tt::BFloat16> a(static_cast<size_t>(M * K)), b(static_cast<size_t>(K * N));
        for (auto* v : {&a, &b})
          for (tt::BFloat16& x : *v) x = tt::BFloat16(g.uniform(-1, 1));
        std::vector<float> c(static_cast<size_t>(M * N), 2.0f);
        const cpu::Matrix<tt::BFloat16> left{a.data(), across ? 1 : K, across ? M : 1},
            right{b.data(), across ? 1 : N, across ? K : 1};
        std::vector<float> widened = c;
        std::vector<float> by_unit = c;
        cpu::gemm_blocked_pairs(c.data(), N, left, right, M, N, K, accumulate, true, {});
        cpu::gemm_amx(by_unit.data(), N, cpu::Bf16PairOperand{left},
                      cpu::Bf16PairOperand{{right.data, right.col, right.row}}, M, N, K, accumulate, true,
                      {});
        cpu::gemm_blocked(widened.data(), N, left, right, M, N, K, accumulate, true, {});
        double worst = 0;
        for (int64_t i = 0; i < M; ++i) {
          for (int64_t j = 0; j < N; ++j) {
            double sum = accumulate ? 2 : 0, size = sum;
            for (int64_t k = 0; k < K; ++k) {
              const double product = static_cast<double>(left.data[i * left.row + k * left.col]) *
                                     static_cast<double>(right.data[k * right.row + j * right.col]);
              sum += product;
              size += std::abs(product);
            }
            for (const std::vector<float>* got : {&c, &widened, &by_unit})
              worst = std::max(worst, std::abs(double{(*got)[static_cast<size_t>(i * N + j)]} - sum) /
                                          std::max(size, 1e-30));
          }
        }
        CHECK(worst <= 2e-6);
      }
    }
  }
}
