// Products on AMX, or by its loops without AMX: exact for bytes at every edge.
#include <doctest/doctest.h>

#include <limits>
#include <tinytorch/backend/cpu/gemm/amx.hpp>
#include <tinytorch/core/random.hpp>
#include <tuple>
#include <vector>

namespace tt = tinytorch;
using namespace tinytorch::backend;

TEST_CASE("bytes: exact at edges of tiles and of the depth, for both stride orders, and accumulating") {
  for (const auto& [m, n, depth] :
       {std::tuple{1, 1, 1}, {32, 32, 64}, {33, 31, 65}, {5, 70, 3}, {100, 40, 1100}, {1100, 33, 130}}) {
    for (const bool across : {false, true}) {
      for (const bool accumulate : {false, true}) {
        const int64_t M = m, N = n, K = depth;
        CAPTURE(M);
        CAPTURE(N);
        CAPTURE(K);
        CAPTURE(across);
        CAPTURE(accumulate);
        tt::Generator g(static_cast<uint64_t>(M + 3 * N + 5 * K));
        std::vector<uint8_t> a(static_cast<size_t>(M * K)), b(static_cast<size_t>(K * N));
        for (auto* v : {&a, &b})
          for (uint8_t& x : *v) x = static_cast<uint8_t>(g.below(256));
        const cpu::Matrix<uint8_t> left{a.data(), across ? 1 : K, across ? M : 1},
            right{b.data(), across ? K : 1, across ? 1 : N};  // row: stride between columns of B
        // pack sums the rows of A, each once.
        std::vector<int32_t> sums(static_cast<size_t>(M)), c(static_cast<size_t>(M * N), 7);
        cpu::gemm_amx(c.data(), N, cpu::Int8QuadOperand{left, 0, sums.data(), false},
                      cpu::Int8QuadOperand{right}, M, N, K, accumulate, true, {});
        int64_t wrong = 0;
        for (int64_t i = 0; i < M; ++i) {
          int32_t row = 0;
          for (int64_t k = 0; k < K; ++k) row += left.data[i * left.row + k * left.col];
          wrong += row != sums[static_cast<size_t>(i)];
          for (int64_t j = 0; j < N; ++j) {
            int32_t sum = accumulate ? 7 : 0;
            for (int64_t k = 0; k < K; ++k)
              sum += int32_t{left.data[i * left.row + k * left.col]} *
                     int32_t{static_cast<int8_t>(right.data[j * right.row + k * right.col])};
            wrong += sum != c[static_cast<size_t>(i * N + j)];
          }
        }
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE(
    "bf16: an infinity or NaN reaches its row and column alone, and not by the zero padding of a tile") {
  const int64_t M = 40, N = 37, K = 45;
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<tt::BFloat16> a(static_cast<size_t>(M * K), tt::BFloat16(1.0f)),
      b(static_cast<size_t>(K * N), tt::BFloat16(0.5f));
  a[static_cast<size_t>(33 * K + 44)] = tt::BFloat16(inf);
  b[static_cast<size_t>(7 * N + 36)] = tt::BFloat16(std::numeric_limits<float>::quiet_NaN());
  std::vector<float> c(static_cast<size_t>(M * N));
  cpu::gemm_amx(c.data(), N, cpu::Bf16PairOperand{{a.data(), K, 1}}, cpu::Bf16PairOperand{{b.data(), 1, N}},
                M, N, K, false, true, {});
  for (int64_t i = 0; i < M; ++i) {
    for (int64_t j = 0; j < N; ++j) {
      const float x = c[static_cast<size_t>(i * N + j)];
      if (j == 36)
        CHECK(x != x);
      else
        CHECK(x == (i == 33 ? inf : 22.5f));
    }
  }
}
