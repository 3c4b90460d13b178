#include <tinytorch/backend/cpu/spmm_bsr_int8.hpp>

#include <algorithm>
#include <cmath>
#include <pruning/formats.hpp>
#include <random>
#include <support/product_oracle.hpp>
#include <support/random_function.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/pruning/bsr.hpp>

using namespace test;

namespace {

// Codes of a matrix [N, K] in blocks, of which about `density` are stored, and a scale for each of their
// rows.
struct CodedBlocks {
  tt::BsrMatrix codes;
  tt::Tensor scales;
  std::vector<double> dense;  // [N, K]

  CodedBlocks(int64_t N, int64_t K, int64_t B, double density, std::mt19937& random, bool extreme = false)
      : dense(static_cast<size_t>(N * K)) {
    const auto draw = [&](int low, int high) {
      return std::uniform_int_distribution<int>(low, high)(random);
    };
    tt::Tensor w = tt::zeros({N, K}, tt::i8, tt::cpu);
    for (int64_t r = 0; r * B < N; ++r) {
      for (int64_t c = 0; c * B < K; ++c) {
        if (draw(0, 999) >= static_cast<int>(density * 1000)) continue;
        for (int64_t n = r * B; n < std::min(N, (r + 1) * B); ++n)
          for (int64_t k = c * B; k < std::min(K, (c + 1) * B); ++k)
            w.data<int8_t>()[n * K + k] =
                static_cast<int8_t>(extreme ? 254 * draw(0, 1) - 127 : draw(-127, 127));
        w.data<int8_t>()[r * B * K + c * B] = 127;
      }
    }
    codes = tt::to_bsr(w, B);
    scales = tt::zeros({codes.blocks(), B}, tt::f32, tt::cpu);
    for (int64_t i = 0; i < scales.numel(); ++i)
      scales.data<float>()[i] = static_cast<float>(draw(1, 1000)) / 777.0f;
    const tt::backend::BsrView v = codes.view();
    for (int64_t r = 0; r < v.block_rows(); ++r) {
      for (int64_t i = v.offsets[r]; i < v.offsets[r + 1]; ++i) {
        for (int64_t e = 0; e < B * B; ++e) {
          const int64_t n = r * B + e / B, k = v.columns_of[i] * B + e % B;
          if (n >= N || k >= K) continue;
          dense[static_cast<size_t>(n * K + k)] = static_cast<double>(w.data<int8_t>()[n * K + k]) *
                                                  static_cast<double>(scales.data<float>()[i * B + e / B]);
        }
      }
    }
  }
};

// Rows of integers from -127 to 127, at least one of which is the largest, times a power of two: these are
// the codes of the row, so that the product has no error of rounding x.
tt::Tensor exact_rows(int64_t M, int64_t K, std::mt19937& random, tt::DType dtype = tt::f32,
                      bool extreme = false) {
  std::uniform_int_distribution<int> code(-127, 127), power(-4, 3), coin(0, 1);
  tt::Tensor x = tt::zeros({M, K}, tt::f32, tt::cpu);
  for (int64_t m = 0; m < M; ++m) {
    const float scale = std::ldexp(1.0f, power(random));
    for (int64_t k = 0; k < K; ++k) {
      const int c = extreme ? 254 * coin(random) - 127 : code(random);
      x.data<float>()[m * K + k] = static_cast<float>(k == m % K ? 127 : c) * scale;
    }
  }
  return x.to(dtype);
}

tt::Tensor product(const CodedBlocks& w, const tt::Tensor& x, tt::DType dtype = tt::f32) {
  tt::Tensor y = tt::full({x.size(0), w.codes.rows()}, 77, dtype, tt::cpu);
  tt::backend::cpu::spmm_bsr_int8(y.view_of(), x.view_of(), w.codes.view(), w.scales.view_of());
  return y;
}

double error_of(const tt::Tensor& y, const CodedBlocks& w, const tt::Tensor& x) {
  return worst_of_product(y.to_vector<double>(), x.to_vector<double>(), w.dense, x.size(0), w.codes.rows(),
                          x.size(1), {.of_terms = 1});
}

}  // namespace

TEST_CASE("blocks of 8-bit codes: products equal sums in double at every size, block and density") {
  const uint64_t seed = test::fresh_seed();
  INFO("seed ", seed);
  std::mt19937 random(static_cast<uint32_t>(seed));
  for (const int64_t B : {16, 32, 64}) {
    for (const double density : {0.0, 0.4, 1.0}) {
      for (const auto& [N, K] :
           {std::pair<int64_t, int64_t>{1, 1}, {17, 70}, {65, 33}, {128, 64}, {9, 200}}) {
        const CodedBlocks w(N, K, B, density, random);
        for (const int64_t M : {1, 3, 4, 9}) {
          INFO(B, " ", density, " ", M, " x ", N, " x ", K);
          const tt::Tensor x = exact_rows(M, K, random);
          CHECK(error_of(product(w, x), w, x) < 2e-6);
        }
      }
    }
  }
}

TEST_CASE("blocks of 8-bit codes: the largest codes do not overflow") {
  std::mt19937 random(3);
  for (const int64_t B : {16, 64}) {
    CodedBlocks w(2 * B, 8 * B, B, 1, random, true);
    const tt::Tensor x = exact_rows(5, 8 * B, random, tt::f32, true);
    CHECK(error_of(product(w, x), w, x) < 2e-6);
    const tt::Tensor same = tt::full({4, 8 * B}, 127, tt::f32, tt::cpu);  // all sums of one sign
    for (double& v : w.dense) v = std::abs(v);
    w.codes = tt::BsrMatrix(tt::full(w.codes.values().shape(), 127, tt::i8, tt::cpu), w.codes.indices(),
                            w.codes.offsets(), 2 * B, 8 * B);
    CHECK(error_of(product(w, same), w, same) < 2e-6);
  }
}

TEST_CASE("blocks of 8-bit codes: x of any numbers has the error of its rounding") {
  const uint64_t seed = test::fresh_seed();
  INFO("seed ", seed);
  std::mt19937 random(static_cast<uint32_t>(seed));
  const CodedBlocks w(70, 150, 32, 0.5, random);
  const tt::Tensor x = sparse_matrix(6, 150, 1, random());
  const tt::Tensor y = product(w, x);
  for (int64_t m = 0; m < 6; ++m) {
    double most = 0;
    for (int64_t k = 0; k < 150; ++k)
      most = std::max(most, std::abs(static_cast<double>(x.data<float>()[m * 150 + k])));
    for (int64_t n = 0; n < 70; ++n) {
      double sum = 0, weights = 0;
      for (int64_t k = 0; k < 150; ++k) {
        const double v = w.dense[static_cast<size_t>(n * 150 + k)];
        sum += v * static_cast<double>(x.data<float>()[m * 150 + k]), weights += std::abs(v);
      }
      CHECK(std::abs(static_cast<double>(y.data<float>()[m * 70 + n]) - sum) <=
            weights * (most / 254 + most * 1e-5));
    }
  }
}

TEST_CASE("blocks of 8-bit codes: strides, dtypes, threads and the company of a row change no bit") {
  const uint64_t seed = test::fresh_seed();
  INFO("seed ", seed);
  std::mt19937 random(static_cast<uint32_t>(seed));
  const CodedBlocks w(75, 150, 16, 0.5, random);
  const tt::Tensor x = sparse_matrix(11, 150, 1, random()), expected = product(w, x);
  CHECK(same_values(product(w, x.t().contiguous().t()), expected));
  CHECK(same_values(product(w, x.to(tt::bf16)), product(w, x.to(tt::bf16).to(tt::f32))));
  CHECK(same_values(product(w, x.to(tt::f16), tt::f16), product(w, x.to(tt::f16).to(tt::f32)).to(tt::f16)));
  CHECK(same_values(product(w, x, tt::f64), expected.to(tt::f64)));
  const tt::Tensor turned = tt::zeros({75, 11}), y = turned.t();
  tt::backend::cpu::spmm_bsr_int8(y.view_of(), x.view_of(), w.codes.view(), w.scales.view_of());
  CHECK(same_values(y.contiguous(), expected));
  for (int64_t m = 0; m < 11; ++m)
    CHECK(same_values(product(w, x.slice(0, m, m + 1)), expected.slice(0, m, m + 1)));
  const int threads = tt::thread_count();
  tt::set_thread_count(1);
  CHECK(same_values(product(w, x), expected));
  tt::set_thread_count(threads);
}

TEST_CASE("blocks of 8-bit codes: empty sizes, rows that are not finite, other dtypes") {
  std::mt19937 random(5);
  const CodedBlocks w(20, 40, 16, 1, random), none(20, 0, 16, 1, random), flat(0, 40, 16, 1, random);
  CHECK(product(w, tt::zeros({0, 40})).numel() == 0);
  CHECK(product(flat, tt::ones({3, 40})).numel() == 0);
  CHECK(same_values(product(none, tt::zeros({2, 0})), tt::zeros({2, 20})));
  tt::Tensor x = sparse_matrix(6, 40, 1, 9);
  const tt::Tensor whole = product(w, x).clone();
  x.data<float>()[2 * 40 + 7] = std::nanf(""), x.data<float>()[4 * 40 + 39] = INFINITY;
  const tt::Tensor y = product(w, x);
  for (int64_t i = 0; i < y.numel(); ++i) {
    const bool spoiled = i / 20 == 2 || i / 20 == 4;
    CHECK(std::isnan(y.data<float>()[i]) == spoiled);
    if (!spoiled) CHECK(y.data<float>()[i] == whole.data<float>()[i]);
  }
  const tt::BsrMatrix floats = tt::to_bsr(tt::ones({16, 16}), 16);
  const tt::Tensor out = tt::zeros({1, 16}), scales = tt::ones({1, 16});
  CHECK(errors::thrown_by([&] {
          tt::backend::cpu::spmm_bsr_int8(out.view_of(), scales.view_of(), floats.view(), scales.view_of());
        }).code == "TT-DTYPE-02");
}
