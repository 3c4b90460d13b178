#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <set>
#include <support/fresh.hpp>
#include <tinytorch/backend/cpu/block_linear.hpp>
#include <tinytorch/backend/cpu/code_linear.hpp>
#include <tinytorch/backend/float8_e5m2.hpp>
#include <tinytorch/backend/kv_format.hpp>
#include <vector>

using namespace tinytorch;

namespace {

std::mt19937_64 generator() {
  static test::Fresh fresh;
  return std::mt19937_64(fresh.next());
}
std::vector<float> random_row(std::mt19937_64& g, int64_t n) {
  std::student_t_distribution<double> heavy(5);
  std::vector<float> x(static_cast<size_t>(n));
  for (float& v : x) v = static_cast<float>(heavy(g));
  return x;
}

// Any bytes that are no NaN or infinity, with random scales and zero points.
struct Codes {
  const BlockFormat* format;
  int64_t N, K;
  std::vector<uint8_t> bytes;
  std::vector<float> scales;
  std::vector<int32_t> zeros;

  Codes(const BlockFormat& f, int64_t n, int64_t k, std::mt19937_64& g) : format(&f), N(n), K(k) {
    bytes.resize(static_cast<size_t>(N * K));
    for (uint8_t& b : bytes) {
      do b = static_cast<uint8_t>(g());
      while (!std::isfinite(plain(b)));
    }
    const int64_t count = f.scales == Scales::of_tensor ? 1 : N;
    for (int64_t i = 0; i < count; ++i) {
      scales.push_back(0.01f * static_cast<float>(1 + g() % 100));
      if (f.zero_points) zeros.push_back(static_cast<int32_t>(g() % 256) - 128);
    }
  }
  float plain(uint8_t code) const {
    float x;
    format->unpack(&code, 1, &x);
    return x;
  }
  double value(int64_t n, int64_t k) const {
    const size_t at = scales.size() == 1 ? 0 : static_cast<size_t>(n);
    const double zero = zeros.empty() ? 0 : zeros[at];
    return double(scales[at]) * (double(plain(bytes[size_t(n * K + k)])) - zero);
  }
  void multiply(const backend::View& out, const backend::View& x, const backend::View& bias, Activations a) {
    const auto count = static_cast<int64_t>(scales.size());
    const backend::View zero{zeros.data(), DType::i32, {count}, {1}};
    backend::cpu::code_linear(out, x, {bytes.data(), DType::u8, {N, K}, {K, 1}},
                              {scales.data(), DType::f32, {count}, {1}},
                              zeros.empty() ? backend::View{} : zero, bias, *format, a);
  }
};

backend::View matrix(std::vector<float>& v, int64_t rows, int64_t columns) {
  return {v.data(), DType::f32, {rows, columns}, {columns, 1}};
}

// x in 8 bits by rows, in double precision. The kernel computes in f32, so a number within a rounding error
// of a halfway point may get the other code.
std::vector<double> rounded(const std::vector<float>& x, int64_t K) {
  std::vector<double> out(x.size());
  for (size_t row = 0; row < x.size(); row += size_t(K)) {
    float largest = 0;
    for (size_t i = row; i < row + size_t(K); ++i) largest = std::max(largest, std::fabs(x[i]));
    const float inverse = largest > 0 ? 127 / largest : 0;
    for (size_t i = row; i < row + size_t(K); ++i)
      out[i] = double(std::nearbyint(x[i] * inverse)) * double(largest / 127);
  }
  return out;
}

}  // namespace

TEST_CASE("the table has each format once, and no name of a block format") {
  std::set<std::string> names;
  for (const BlockFormat& f : code_formats()) {
    CHECK(names.insert(f.name).second);
    CHECK(find_code_format(f.name) == &f);
    CHECK(find_block_format(f.name) == nullptr);
    CHECK(f.scales != Scales::in_blocks);
    CHECK(f.row_bytes(77) == 77);
  }
  CHECK(names.count("I8") == 1);
  CHECK(find_code_format("i8") == nullptr);
}

TEST_CASE("all 256 codes keep their bits when they are unpacked and packed") {
  for (const BlockFormat& f : code_formats()) {
    CAPTURE(f.name);
    for (int b = 0; b < 256; ++b) {
      const auto code = static_cast<uint8_t>(b);
      float x = 0;
      uint8_t back = 0;
      f.unpack(&code, 1, &x);
      if (!std::isfinite(x)) continue;  // fp8 has codes for NaN, and e5m2 for infinities
      f.pack(&x, 1, &back);
      CHECK(back == code);
    }
  }
}

TEST_CASE("a product of codes is that of the numbers, for every format") {
  std::mt19937_64 g = generator();
  for (const BlockFormat& f : code_formats()) {
    for (const auto& [M, N, K] :
         {std::array<int64_t, 3>{1, 1, 1}, {1, 37, 130}, {3, 130, 67}, {12, 9, 256}}) {
      CAPTURE(f.name);
      CAPTURE(M);
      CAPTURE(K);
      Codes w(f, N, K, g);
      std::vector<float> x = random_row(g, M * K), bias = random_row(g, N), y(static_cast<size_t>(M * N));
      for (const Activations a : {Activations::floats, Activations::int8}) {
        w.multiply(matrix(y, M, N), matrix(x, M, K), {bias.data(), DType::f32, {N}, {1}}, a);
        const bool coded = a == Activations::int8 && f.codes == CodeType::int8;
        const std::vector<double> exact = coded ? rounded(x, K) : std::vector<double>(x.begin(), x.end());
        double worst = 0;
        for (int64_t m = 0; m < M; ++m) {
          for (int64_t n = 0; n < N; ++n) {
            const double scale = double(w.scales[w.scales.size() == 1 ? 0 : size_t(n)]);
            double sum = bias[size_t(n)], magnitude = std::fabs(sum);
            for (int64_t k = 0; k < K; ++k) {
              const double v = exact[size_t(m * K + k)];
              sum += v * w.value(n, k);
              magnitude += std::fabs(v) * (std::fabs(w.value(n, k)) + 128 * scale);
            }
            worst = std::max(worst, std::fabs(sum - double(y[size_t(m * N + n)])) / magnitude);
          }
        }
        CHECK(worst < 1e-6);
      }
    }
  }
}

TEST_CASE("a row of the result has the same bits alone and in a batch, and with any number of threads") {
  std::mt19937_64 g = generator();
  for (const BlockFormat& f : code_formats()) {
    CAPTURE(f.name);
    const int64_t M = 11, N = 203, K = 777;
    Codes w(f, N, K, g);
    std::vector<float> x = random_row(g, M * K), y(static_cast<size_t>(M * N)), one(static_cast<size_t>(N));
    for (const Activations a : {Activations::floats, Activations::int8}) {
      for (const int threads : {1, 2, 3}) {
        const int before = thread_count();
        set_thread_count(threads);
        w.multiply(matrix(y, M, N), matrix(x, M, K), {}, a);
        set_thread_count(before);
        for (int64_t m = 0; m < M; ++m) {
          w.multiply(matrix(one, 1, N), {x.data() + m * K, DType::f32, {1, K}, {K, 1}}, {}, a);
          CHECK(std::memcmp(one.data(), y.data() + m * N, size_t(N) * 4) == 0);
        }
      }
    }
  }
}

TEST_CASE("sums of integers are exact up to the longest row, and a longer one keeps float activations") {
  const BlockFormat& f = *find_code_format("I8");
  for (const int64_t K : {backend::kExactInt8Terms, backend::kExactInt8Terms + 5}) {
    for (const int64_t M : {1, 9}) {
      std::mt19937_64 g = generator();
      Codes w(f, 1, K, g);
      std::fill(w.bytes.begin(), w.bytes.end(), uint8_t{0x80});  // -128
      w.scales = {1};
      std::vector<float> x(static_cast<size_t>(M * K), 1.0f), y(static_cast<size_t>(M));
      w.multiply(matrix(y, M, 1), matrix(x, M, K), {}, Activations::int8);
      for (const float v : y) CHECK(double(v) == doctest::Approx(-128.0 * double(K)).epsilon(1e-5));
    }
  }
}

TEST_CASE("a row of activations with a NaN gives a row of NaN, and an empty product does nothing") {
  std::mt19937_64 g = generator();
  for (const BlockFormat& f : code_formats()) {
    Codes w(f, 5, 40, g);
    std::vector<float> x = random_row(g, 80), y(10);
    x[45] = NAN;
    for (const Activations a : {Activations::floats, Activations::int8}) {
      w.multiply(matrix(y, 2, 5), matrix(x, 2, 40), {}, a);
      for (size_t i = 0; i < 5; ++i) {
        CHECK(std::isfinite(y[i]));
        CHECK(std::isnan(y[5 + i]));
      }
      w.multiply({nullptr, DType::f32, {0, 5}, {5, 1}}, {nullptr, DType::f32, {0, 40}, {40, 1}}, {}, a);
      Codes none(f, 5, 0, g);
      std::vector<float> bias = random_row(g, 5);
      none.multiply(matrix(y, 2, 5), {nullptr, DType::f32, {2, 0}, {0, 1}},
                    {bias.data(), DType::f32, {5}, {1}}, a);
      for (size_t i = 0; i < 10; ++i) CHECK(y[i] == bias[i % 5]);
    }
  }
}
