#include <tinytorch/quantization/hadamard.hpp>

#include <bit>
#include <quantization/planted.hpp>
#include <support/errors.hpp>
#include <tinytorch/quantization/granularity.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace test;

namespace {

// x Q by the definition: blocks of n columns, signs, and H_ij = (-1)^popcount(i & j) / sqrt(n).
std::vector<double> rotated(const std::vector<double>& x, size_t K, size_t n, uint64_t seed) {
  std::vector<double> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t row = i / K * K, block = i % K / n * n, j = i % K % n;
    for (size_t k = 0; k < n; ++k) {
      const double sign = static_cast<double>(tt::hadamard_sign(seed, static_cast<int64_t>(block + k)));
      const double H = std::popcount(k & j) % 2 ? -1.0 : 1.0;
      y[i] += x[row + block + k] * sign * H / std::sqrt(static_cast<double>(n));
    }
  }
  return y;
}

double largest(const tt::Tensor& x) { return tt::max(tt::abs(x.to(tt::f64))).item<double>(); }

}  // namespace

TEST_CASE("a rotation equals the matrix of its definition, for powers of two and other even widths") {
  tt::Generator g(1);
  for (const auto& [K, n] :
       {std::pair<int64_t, int64_t>{2, 2}, {8, 8}, {64, 64}, {6, 2}, {12, 4}, {96, 32}, {260, 4}}) {
    const tt::Tensor x = tt::randn({K, 5}, tt::f32, tt::cpu, g).t();
    const std::vector<double> got = tt::hadamard_rotate(x, 9).to_vector<double>(),
                              wanted = rotated(x.to_vector<double>(), static_cast<size_t>(K),
                                               static_cast<size_t>(n), 9);
    for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(wanted[i]).epsilon(1e-5));
    CHECK(largest(tt::hadamard_unrotate(tt::hadamard_rotate(x, 9), 9) - x) < 1e-6);
    CHECK(largest(tt::hadamard_rotate(tt::hadamard_unrotate(x, 9), 9) - x) < 1e-6);
    CHECK(same_numbers(tt::hadamard_rotate(x, 9), tt::hadamard_rotate(x, 9)));
  }
}

TEST_CASE("about half of the signs are negative, and another seed has others") {
  int negative = 0, different = 0;
  for (int64_t j = 0; j < 4096; ++j) {
    negative += tt::hadamard_sign(1, j) < 0 ? 1 : 0;
    different += tt::hadamard_sign(1, j) != tt::hadamard_sign(2, j) ? 1 : 0;
  }
  CHECK(std::abs(negative - 2048) < 160);  // five standard deviations
  CHECK(std::abs(different - 2048) < 160);
}

TEST_CASE("rotated inputs and weights give the same outputs, and lengths stay") {
  const Layer layer = planted_layer(true);
  const tt::Tensor x = tt::hadamard_rotate(layer.x, 4), w = tt::hadamard_rotate(layer.w, 4);
  CHECK(output_sqnr(layer, x, w) > 120);
  CHECK(tt::sum(tt::square(x.to(tt::f64))).item<double>() ==
        doctest::Approx(tt::sum(tt::square(layer.x.to(tt::f64))).item<double>()).epsilon(1e-6));
}

TEST_CASE("an outlier spreads over its block, and 8-bit activations gain from it") {
  tt::Tensor spike = tt::zeros({1, 256});
  spike.select(1, 100).fill_(16);
  for (const double v : tt::hadamard_rotate(spike, 7).to_vector<double>())
    CHECK(std::abs(v) == doctest::Approx(1));
  const tt::Tensor constant = tt::ones({1, 256});  // the signs keep it from becoming an outlier of 16
  CHECK(largest(tt::hadamard_rotate(constant, 7)) < 5);
  const Layer layer = planted_layer(true);
  const auto eight_bits = [](const tt::Tensor& t) {
    return tt::dequantize(tt::scaled_codes(t, {.bits = 8, .granularity = tt::Granularity::tensor}));
  };
  const double plain = output_sqnr(layer, eight_bits(layer.x), layer.w),
               better = output_sqnr(layer, eight_bits(tt::hadamard_rotate(layer.x, 7)),
                                    tt::hadamard_rotate(layer.w, 7));
  CHECK(better >= plain + 6);
}

TEST_CASE("dtype, device and shape stay; empty tensors; odd widths and integers are refused") {
  tt::Generator g(5);
  const tt::Tensor x = tt::randn({2, 3, 8}, tt::f32, tt::cpu, g);
  for (const tt::DType dtype : {tt::bf16, tt::f16, tt::f64}) {
    const tt::Tensor y = tt::hadamard_rotate(x.to(dtype), 1);
    CHECK(y.dtype() == dtype);
    CHECK(y.shape() == x.shape());
    CHECK(largest(y.to(tt::f64) - tt::hadamard_rotate(x, 1).to(tt::f64)) < 0.03);
  }
  CHECK(tt::hadamard_rotate(tt::empty({0, 8}), 1).shape() == tt::Shape{0, 8});
  CHECK(tt::hadamard_rotate(tt::empty({3, 0}), 1).shape() == tt::Shape{3, 0});
  for (const int64_t K : {1, 3, 255})
    test::expect_error("TT-CALIB-03", "hadamard_rotate", [=] {
      (void)tt::hadamard_rotate(tt::ones({2, K}), 1);
    });
  test::expect_error("TT-CALIB-03", "hadamard_unrotate",
                     [] { (void)tt::hadamard_unrotate(tt::full({}, 1), 1); });
  test::expect_error("TT-DTYPE-02", "hadamard_rotate",
                     [] { (void)tt::hadamard_rotate(tt::arange(0, 8), 1); });
}

// Keys [512, 64] of which three channels have a mean of 8, as some have in real models, and queries. The
// error of a logit q k / sqrt(D), if the keys have 4 bits.
TEST_CASE("planted cases: keys of 4 bits, by token, by channel (KIVI), and rotated") {
  constexpr int64_t T = 512, D = 64;
  tt::Generator g(17);
  const tt::Tensor q = tt::randn({256, D}, tt::f32, tt::cpu, g);
  tt::Tensor k = tt::randn({T, D}, tt::f32, tt::cpu, g);
  for (const int64_t channel : {5, 20, 43}) {
    tt::Tensor column = k.slice(1, channel, channel + 1);
    column.copy_(column + 8);
  }
  const auto four_bits = [](const tt::Tensor& x, tt::Fit fit) {
    return tt::dequantize(tt::scaled_codes(
        x.contiguous(), {.bits = 4, .granularity = tt::Granularity::group, .group = 32, .fit = fit}));
  };
  const auto error = [](const tt::Tensor& queries, const tt::Tensor& keys, const tt::Tensor& stored) {
    const tt::Tensor wrong = tt::matmul(queries.to(tt::f64), (keys - stored).to(tt::f64).t());
    return std::sqrt(tt::mean(tt::square(wrong)).item<double>() / static_cast<double>(D));
  };
  const auto near = [](double got, double expected) {
    INFO(got, ", expected ", expected);
    CHECK(std::abs(20 * std::log10(got / expected)) <= 1);  // dB
  };
  const tt::Fit symmetric = tt::Fit::absmax, affine = tt::Fit::minmax;
  const tt::Tensor turned_q = tt::hadamard_rotate(q, 7), turned_k = tt::hadamard_rotate(k, 7);
  near(error(q, k, four_bits(k, symmetric)), 0.346);
  near(error(q, k, four_bits(k, affine)), 0.197);
  near(error(q, k, four_bits(k.t(), affine).t()), 0.081);
  near(error(turned_q, turned_k, four_bits(turned_k, symmetric)), 0.182);
  near(error(turned_q, turned_k, four_bits(turned_k, affine)), 0.153);
  // Keys that are rotated without the queries give other logits.
  CHECK(error(q, k, four_bits(turned_k, symmetric)) > 1);
}
