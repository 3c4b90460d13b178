// Products of bytes are exact for every pair of types, layout and size around quads, tiles and blocks; scales
// and bias.
#include <doctest/doctest.h>

#include <cmath>
#include <tinytorch/backend/cpu/gemm.hpp>
#include <tinytorch/backend/cpu/gemm/int8.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/random.hpp>
#include <tuple>
#include <vector>

namespace tt = tinytorch;
using namespace tinytorch::backend;

namespace {

struct Bytes {
  tt::DType dtype;
  std::vector<uint8_t> data;
  Bytes(tt::DType type, int64_t n, tt::Generator& g) : dtype(type), data(static_cast<size_t>(n)) {
    for (uint8_t& x : data) x = static_cast<uint8_t>(g.uniform(0, type == tt::boolean ? 2 : 256));
  }
  int32_t at(int64_t i) const {
    const uint8_t byte = data[static_cast<size_t>(i)];
    return dtype == tt::i8 ? static_cast<int8_t>(byte) : byte;
  }
};

// Element (i, j) of the exact product.
int32_t dot(const Bytes& a, tt::Strides a_strides, const Bytes& b, tt::Strides b_strides, int64_t i,
            int64_t j, int64_t K) {
  int64_t sum = 0;
  for (int64_t k = 0; k < K; ++k)
    sum += int64_t{a.at(i * a_strides[0] + k * a_strides[1])} * b.at(k * b_strides[0] + j * b_strides[1]);
  return static_cast<int32_t>(sum);
}

}  // namespace

// gemm_int8, and both implementations, of which it uses one on this processor.
TEST_CASE("all pairs of types and stride orders") {
  tt::Generator g(8);
  for (const auto& [M, N, K] : {std::tuple{1, 1, 1},
                                {3, 5, 2},
                                {6, 64, 4},
                                {7, 65, 5},
                                {13, 33, 1027},
                                {41, 130, 300},
                                {1030, 9, 70},
                                {1030, 3100, 6}}) {
    for (const tt::DType of_a : {tt::i8, tt::u8, tt::boolean}) {
      for (const tt::DType of_b : {tt::i8, tt::u8}) {
        const Bytes a(of_a, M * K, g), b(of_b, K * N, g);
        const bool a_t = g.uniform(0, 1) < 0.5, b_t = g.uniform(0, 1) < 0.5,
                   accumulate = g.uniform(0, 1) < 0.5;
        const tt::Strides a_strides = a_t ? tt::Strides{1, M} : tt::Strides{K, 1};
        const tt::Strides b_strides = b_t ? tt::Strides{1, K} : tt::Strides{N, 1};
        const View left{const_cast<uint8_t*>(a.data.data()), of_a, {M, K}, a_strides};
        const View right{const_cast<uint8_t*>(b.data.data()), of_b, {K, N}, b_strides};
        int64_t wrong = 0;
        for (const auto product : {cpu::gemm_int8, cpu::gemm_int8_quads, cpu::gemm_int8_pairs}) {
          std::vector<int32_t> c(static_cast<size_t>(M * (N + 1)), 1000);
          product({c.data(), tt::i32, {M, N}, {N + 1, 1}}, left, right, accumulate, true, {});
          for (int64_t i = 0; i < M; ++i) {
            for (int64_t j = 0; j < N; ++j)
              wrong += c[static_cast<size_t>(i * (N + 1) + j)] !=
                       dot(a, a_strides, b, b_strides, i, j, K) + (accumulate ? 1000 : 0);
            wrong += c[static_cast<size_t>(i * (N + 1) + N)] != 1000;
          }
        }
        const int64_t sizes[] = {M, N, K};
        CAPTURE(sizes[0]);
        CAPTURE(sizes[1]);
        CAPTURE(sizes[2]);
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("the smallest and largest values: nothing saturates") {
  for (const auto& [x, y] : {std::pair{-128, -128}, {-128, 127}, {127, -128}, {127, 127}}) {
    constexpr int64_t kK = 100;
    const std::vector<int8_t> a(kK, static_cast<int8_t>(x)), b(kK, static_cast<int8_t>(y));
    int32_t c = 0;
    cpu::gemm_int8({&c, tt::i32, {1, 1}, {1, 1}}, {const_cast<int8_t*>(a.data()), tt::i8, {1, kK}, {kK, 1}},
                   {const_cast<int8_t*>(b.data()), tt::i8, {kK, 1}, {1, 1}});
    CHECK(c == 100 * x * y);
  }
}

TEST_CASE("depth 0, and products through gemm") {
  int32_t c[] = {5, 6};
  int8_t none = 0;
  cpu::gemm_int8({c, tt::i32, {1, 2}, {2, 1}}, {&none, tt::i8, {1, 0}, {0, 1}},
                 {&none, tt::i8, {0, 2}, {2, 1}}, true);
  CHECK(c[1] == 6);
  cpu::gemm({c, tt::i32, {1, 2}, {2, 1}}, {&none, tt::i8, {1, 0}, {0, 1}}, {&none, tt::i8, {0, 2}, {2, 1}});
  CHECK(c[0] == 0);
  CHECK(c[1] == 0);
}

TEST_CASE("scales and bias, at one and two threads") {
  tt::Generator g(9);
  constexpr int64_t kM = 70, kN = 150, kK = 333;
  const Bytes a(tt::i8, kM * kK, g), b(tt::i8, kK * kN, g);
  std::vector<float> by_row(kM), by_col(kN), bias(kN);
  for (auto* v : {&by_row, &by_col, &bias})
    for (float& x : *v) x = static_cast<float>(g.uniform(0.001, 0.01));
  const View left{const_cast<uint8_t*>(a.data.data()), tt::i8, {kM, kK}, {kK, 1}};
  const View right{const_cast<uint8_t*>(b.data.data()), tt::i8, {kK, kN}, {1, kK}};
  for (const bool whole : {false, true}) {  // one scale for all rows, or one for each
    for (const int threads : {1, 2}) {
      tt::set_thread_count(threads);
      std::vector<float> out(kM * kN);
      cpu::scaled_gemm_int8({out.data(), tt::f32, {kM, kN}, {kN, 1}}, left, right,
                            {by_row.data(), tt::f32, {whole ? 1 : kM}, {1}},
                            {by_col.data(), tt::f32, {kN}, {1}},
                            {whole ? nullptr : bias.data(), tt::f32, {kN}, {1}});
      for (int64_t i = 0; i < kM; ++i) {
        for (int64_t j = 0; j < kN; ++j) {
          const double scale =
              double{by_row[static_cast<size_t>(whole ? 0 : i)]} * by_col[static_cast<size_t>(j)];
          const double exact = scale * dot(a, {kK, 1}, b, {1, kK}, i, j, kK) +
                               (whole ? 0.0 : double{bias[static_cast<size_t>(j)]});
          REQUIRE(std::abs(out[static_cast<size_t>(i * kN + j)] - exact) <= 1e-6 * (std::abs(exact) + 1));
        }
      }
    }
  }
}
