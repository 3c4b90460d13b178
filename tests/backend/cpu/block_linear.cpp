#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <support/coded_activations.hpp>
#include <support/fresh.hpp>
#include <tinytorch/backend/cpu/block_linear.hpp>
#include <vector>

using namespace tinytorch;

namespace {

std::vector<float> random_row(std::mt19937_64& g, int64_t n) {
  std::student_t_distribution<double> heavy(5);
  std::vector<float> x(static_cast<size_t>(n));
  for (float& v : x) v = static_cast<float>(heavy(g));
  return x;
}

struct Packed {
  const BlockFormat* format;
  int64_t N, K;
  std::vector<uint8_t> bytes;
  std::vector<float> decoded;

  Packed(const BlockFormat& f, int64_t n, int64_t k, std::mt19937_64& g) : format(&f), N(n), K(k) {
    const std::vector<float> w = random_row(g, N * K);
    bytes.resize(static_cast<size_t>(N * f.row_bytes(K)));
    decoded.resize(w.size());
    f.pack(w.data(), N * K / f.block, bytes.data());
    f.unpack(bytes.data(), N * K / f.block, decoded.data());
  }
  backend::View view() {
    return {bytes.data(), DType::u8, {N, format->row_bytes(K)}, {format->row_bytes(K), 1}};
  }
};

std::mt19937_64 generator() {
  static test::Fresh fresh;
  return std::mt19937_64(fresh.next());
}

}  // namespace

TEST_CASE("a product with packed weights is that with the decoded ones, for every format") {
  std::mt19937_64 g = generator();
  for (const BlockFormat& f : block_formats()) {
    for (const auto& [M, N, K] : {std::array<int64_t, 3>{1, 1, f.block},
                                  {1, 37, 4 * f.block},
                                  {3, 130, 7 * f.block},
                                  {9, 5, f.block}}) {
      CAPTURE(f.name);
      CAPTURE(M);
      CAPTURE(N);
      CAPTURE(K);
      Packed w(f, N, K, g);
      std::vector<float> x = random_row(g, M * K), bias = random_row(g, N);
      std::vector<float> y(static_cast<size_t>(M * N));
      const backend::View out{y.data(), DType::f32, {M, N}, {N, 1}}, in{x.data(), DType::f32, {M, K}, {K, 1}};
      for (const Activations a : {Activations::floats, Activations::int8}) {
        backend::cpu::block_linear(out, in, w.view(), {bias.data(), DType::f32, {N}, {1}}, f, a);
        const bool coded = a == Activations::int8 && f.product_int8;
        const std::vector<double> plain(x.begin(), x.end());
        const test::Coded exact = coded ? test::coded_by_groups(plain) : test::uncoded(plain);
        double worst = 0;
        for (int64_t m = 0; m < M; ++m) {
          for (int64_t n = 0; n < N; ++n) {
            double sum = bias[size_t(n)], magnitude = std::fabs(sum), either = 0;
            for (int64_t k = 0; k < K; ++k) {
              const double weight = w.decoded[size_t(n * K + k)];
              const double p = exact.values[size_t(m * K + k)] * weight;
              sum += p, magnitude += std::fabs(p);
              either += exact.either[size_t(m * K + k)] * std::fabs(weight);
            }
            const double apart = std::fabs(sum - double(y[size_t(m * N + n)]));
            worst = std::max(worst, (apart - either) / magnitude);
          }
        }
        CHECK(worst < 2e-6);
      }
    }
  }
}

TEST_CASE("a row of the result has the same bits alone and in a batch, and with any number of threads") {
  std::mt19937_64 g = generator();
  for (const BlockFormat& f : block_formats()) {
    CAPTURE(f.name);
    const int64_t M = 11, N = 203, K = 6 * f.block;
    Packed w(f, N, K, g);
    std::vector<float> x = random_row(g, M * K), y(static_cast<size_t>(M * N)), one(static_cast<size_t>(N));
    for (const Activations a : {Activations::floats, Activations::int8}) {
      for (const int threads : {1, 2, 3}) {
        const int before = thread_count();
        set_thread_count(threads);
        backend::cpu::block_linear({y.data(), DType::f32, {M, N}, {N, 1}},
                                   {x.data(), DType::f32, {M, K}, {K, 1}}, w.view(), {}, f, a);
        set_thread_count(before);
        for (int64_t m = 0; m < M; ++m) {
          backend::cpu::block_linear({one.data(), DType::f32, {1, N}, {N, 1}},
                                     {x.data() + m * K, DType::f32, {1, K}, {K, 1}}, w.view(), {}, f, a);
          CHECK(std::memcmp(one.data(), y.data() + m * N, size_t(N) * 4) == 0);
        }
      }
    }
  }
}

TEST_CASE("decoding gives back what was packed: packing it again gives the same bytes") {
  std::mt19937_64 g = generator();
  for (const BlockFormat& f : block_formats()) {
    CAPTURE(f.name);
    Packed w(f, 50, 4 * f.block, g);
    std::vector<float> zero(static_cast<size_t>(f.block)), back(static_cast<size_t>(f.block), 1.0f);
    std::vector<uint8_t> bytes(static_cast<size_t>(f.bytes));
    f.pack(zero.data(), 1, bytes.data());
    f.unpack(bytes.data(), 1, back.data());
    CHECK(back == zero);
    for (float& v : zero) v = 1e-30f;  // the scale rounds to 0
    f.pack(zero.data(), 1, bytes.data());
    f.unpack(bytes.data(), 1, back.data());
    for (const float v : back) CHECK(std::fabs(v) < 1e-7f);
  }
}

TEST_CASE("NaN and infinities of activations reach the result, and those of other rows do not") {
  std::mt19937_64 g = generator();
  for (const BlockFormat& f : block_formats()) {
    CAPTURE(f.name);
    const int64_t K = 2 * f.block;
    Packed w(f, 8, K, g);
    for (const float bad : {NAN, INFINITY}) {
      std::vector<float> x = random_row(g, 2 * K), y(16);
      x[size_t(K + 3)] = bad;
      for (const Activations a : {Activations::floats, Activations::int8}) {
        backend::cpu::block_linear({y.data(), DType::f32, {2, 8}, {8, 1}},
                                   {x.data(), DType::f32, {2, K}, {K, 1}}, w.view(), {}, f, a);
        for (size_t n = 0; n < 8; ++n) CHECK(std::isfinite(y[n]));
        for (size_t n = 8; n < 16; ++n) CHECK(!std::isfinite(y[n]));
      }
    }
  }
}
