#include <tinytorch/quantization/awq.hpp>

#include <quantization/planted.hpp>
#include <support/errors.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace test;

namespace {

const tt::ScaleOptions kFourBits{.bits = 4, .granularity = tt::Granularity::group, .group = 64};

tt::InputStatistics observed(const tt::Tensor& x) {
  tt::InputStatistics s(x.size(-1));
  s.observe(x);
  return s;
}

}  // namespace

TEST_CASE("scales of the channels by the formula, with their geometric middle at 1") {
  const std::vector<double> s = tt::awq_scales(tt::from_data({0.25, 4.0, 0.0, 1.0}), 0.5).to_vector<double>();
  CHECK(s[0] == doctest::Approx(0.5));  // the roots are 0.5, 2 and 1; their middle is sqrt(0.5 * 2) = 1
  CHECK(s[1] == doctest::Approx(2));
  CHECK(s[2] == 1);
  CHECK(s[3] == doctest::Approx(1));
  for (const double x : tt::awq_scales(tt::from_data({0.3, 7.0}), 0).to_vector<double>()) CHECK(x == 1);
}

TEST_CASE("the reported error is that of the outputs, and no exponent of the grid has a smaller one") {
  const Layer layer = planted_layer(true);
  const tt::InputStatistics inputs = observed(layer.x);
  const tt::AwqWeight q = tt::awq(layer.w, inputs, kFourBits);
  const auto error_of = [&](const tt::Tensor& w) {
    return tt::sum(tt::square(tt::matmul(layer.x.to(tt::f64), (layer.w - w).to(tt::f64).t()))).item<double>();
  };
  CHECK(q.output_error == doctest::Approx(error_of(tt::dequantize(q))).epsilon(1e-6));
  for (const double a : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    const tt::Tensor s = tt::awq_scales(inputs.abs_mean(), a);
    const tt::Tensor w = tt::dequantize(tt::scaled_codes(layer.w * s, kFourBits)) / s;
    CHECK(q.output_error <= error_of(w) * (1 + 1e-6));
  }
  CHECK(q.exponent > 0);
  // A kernel divides the input instead: the outputs are the same.
  const tt::Tensor direct = tt::matmul(layer.x, tt::dequantize(q).t()),
                   divided = tt::matmul(layer.x / q.channel_scales, tt::dequantize(q.weight).t());
  CHECK(tt::sqnr_db(direct, divided) > 100);
}

TEST_CASE("equal channels leave rounding to nearest; dead channels give no NaN") {
  tt::Generator g(3);
  const tt::Tensor w = tt::randn({8, 64}, tt::f32, tt::cpu, g);
  const tt::AwqWeight equal = tt::awq(w, observed(tt::ones({4, 64})), kFourBits);
  CHECK(same_numbers(tt::dequantize(equal), tt::dequantize(tt::scaled_codes(w, kFourBits))));
  tt::Tensor x = tt::randn({50, 64}, tt::f32, tt::cpu, g);
  x.slice(1, 10, 13).zero_();
  for (const tt::Tensor& input : {x, tt::zeros({50, 64})}) {
    for (const double v : tt::dequantize(tt::awq(w, observed(input), kFourBits)).to_vector<double>())
      CHECK(std::isfinite(v));
  }
}

TEST_CASE("the same bits again, and for batches; other dtypes and layouts; no rows") {
  const Layer layer = planted_layer(true);
  tt::InputStatistics halves(256);
  halves.observe(layer.x.slice(0, 0, 77));
  halves.observe(layer.x.slice(0, 77));
  const tt::Tensor w = layer.w.slice(0, 0, 16);
  const tt::AwqWeight once = tt::awq(w, observed(layer.x), kFourBits), again = tt::awq(w, halves, kFourBits);
  CHECK(same_numbers(once.weight.codes, again.weight.codes));
  CHECK(same_numbers(once.weight.scales, again.weight.scales));
  CHECK(same_numbers(once.channel_scales, again.channel_scales));
  const tt::Tensor turned = layer.w.to(tt::bf16).t().slice(0, 0, 16);
  CHECK(same_numbers(tt::awq(turned, halves).weight.codes,
                     tt::awq(turned.to(tt::f32).contiguous(), halves).weight.codes));
  CHECK(tt::awq(tt::empty({0, 256}), halves).weight.codes.shape() == tt::Shape{0, 256});
}

TEST_CASE("bad calibration, weights and settings are refused") {
  tt::InputStatistics none(3), some(3);
  some.observe(tt::ones({4, 3}));
  test::expect_error("TT-CALIB-02", "awq: no inputs", [&] { (void)tt::awq(tt::ones({2, 3}), none); });
  test::expect_error("TT-SHAPE-02", "awq", [&] { (void)tt::awq(tt::ones({2, 4}), some); });
  test::expect_error("TT-CALIB-01", "a NaN", [&] { (void)tt::awq(tt::full({2, 3}, std::nan("")), some); });
  test::expect_error("TT-CALIB-03", "2 to 8 bits", [&] {
    (void)tt::awq(tt::ones({2, 3}), some, {.bits = 1});
  });
}
