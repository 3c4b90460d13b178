#include <tinytorch/quantization/awq.hpp>

#include "planted_layer.hpp"

using namespace course;

namespace {

const ScaleOptions kFourBits{.bits = 4, .granularity = Granularity::group, .group = 64};

Numbers numbers(const Tensor& t) { return t.to_vector<double>(); }
Tensor of_numbers(const Numbers& x, size_t columns, DType dtype = f32) {
  const auto K = static_cast<int64_t>(columns);
  return Tensor(from_data(x, {static_cast<int64_t>(x.size()) / K, K})).to(dtype);
}
InputStatistics observed(const Numbers& x, size_t K) {
  InputStatistics s(static_cast<int64_t>(K));
  s.observe(of_numbers(x, K));
  return s;
}
// The squared error of the outputs if the layer has this weight instead.
double squared_error(const PlantedLayer& layer, const Numbers& weights) {
  const Numbers y = product(layer.x, weights, layer.K);
  double error = 0;
  for (size_t i = 0; i < y.size(); ++i) error += (y[i] - layer.y[i]) * (y[i] - layer.y[i]);
  return error;
}
// The weight with scales of exponent a: multiplied by s, rounded, divided by s.
Numbers with_exponent(const PlantedLayer& layer, double a) {
  Numbers s(layer.K), w = layer.w;
  for (size_t i = 0; i < layer.x.size(); ++i)
    s[i % layer.K] += std::abs(layer.x[i]) / static_cast<double>(layer.M);
  for (double& v : s) v = std::pow(v, a);
  for (size_t i = 0; i < w.size(); ++i) w[i] *= s[i % layer.K];
  w = rounded(w, 64, 7);
  for (size_t i = 0; i < w.size(); ++i) w[i] /= s[i % layer.K];
  return w;
}

}  // namespace

TEST_CASE("7.15 s = mean|X|^a, with the geometric middle of the largest and the smallest at 1") {
  const Tensor mean = Tensor(from_data(Numbers{0.25, 4, 0, 1}));
  expect_close("awq_scales of the means {0.25, 4, 0, 1}, a = 0.5", numbers(awq_scales(mean, 0.5)),
               {0.5, 2, 1, 1}, {4});
  expect_close("awq_scales of the means {2, 8}, a = 1",
               numbers(awq_scales(Tensor(from_data(Numbers{2, 8})), 1)), {0.5, 2}, {2});
  expect_close("a = 0 changes nothing", numbers(awq_scales(mean, 0)), {1, 1, 1, 1}, {4});
  expect_close("without any inputs", numbers(awq_scales(Tensor(from_data(Numbers{0, 0})), 0.5)), {1, 1}, {2});
}

TEST_CASE("7.15 the error of the outputs, from X^T X alone") {
  const PlantedLayer layer(true, 40, 6, 8);
  Numbers changed = layer.w;
  for (double& v : changed) v = static_cast<double>(static_cast<float>(v * 1.25));
  const double want = squared_error(layer, changed),
               got =
                   output_error(of_numbers(layer.w, 8), of_numbers(changed, 8), observed(layer.x, 8).gram());
  expect("squared error of the outputs of a weight that is 1.25 times as large: " + shown(want) + "; got " +
             shown(got),
         std::abs(got - want) <= 1e-4 * want);
}

TEST_CASE("7.15 the best of the exponents 0, 1/20, ..., 1") {
  const PlantedLayer layer(true, 96, 16, 128);
  const AwqWeight q = awq(of_numbers(layer.w, 128), observed(layer.x, 128), kFourBits);
  const double reported = squared_error(layer, numbers(dequantize(q)));
  expect("the reported error of the outputs is that of the weight: " + shown(reported) + "; got " +
             shown(q.output_error),
         std::abs(reported - q.output_error) <= 1e-3 * reported);
  expect_close("the exponent is one of 0, 1/20, ..., 1", {q.exponent * 20}, {std::nearbyint(q.exponent * 20)},
               {1});
  for (int i = 0; i <= 20; i += 2) {
    const double other = squared_error(layer, with_exponent(layer, i / 20.0));
    expect("no exponent is better: " + shown(i / 20.0) + " has the error " + shown(other) + ", the chosen " +
               shown(q.exponent) + " has " + shown(reported),
           reported <= 1.02 * other);
  }
}

TEST_CASE("7.15 codes are those of W s, so the input divided by s gives the same outputs") {
  const PlantedLayer layer(true, 32, 8, 128);
  const AwqWeight q = awq(of_numbers(layer.w, 128), observed(layer.x, 128), kFourBits);
  const Numbers s = numbers(q.channel_scales), coded = numbers(dequantize(q.weight));
  Numbers scaled = layer.w, divided = layer.x;
  for (size_t i = 0; i < scaled.size(); ++i) scaled[i] *= s[i % 128];
  for (size_t i = 0; i < divided.size(); ++i) divided[i] /= s[i % 128];
  expect_close("values of the codes: W s, rounded in groups of 64", coded, rounded(scaled, 64, 7), {8, 128},
               {.roundings = 100, .scale = 4});
  expect("outputs of X / s with the codes, and of X with the decoded weight, in dB of agreement: at least 80",
         decibels(product(layer.x, numbers(dequantize(q)), 128), product(divided, coded, 128)) >= 80);
}

TEST_CASE("7.15 equal inputs leave rounding to nearest, and channels without inputs give no NaN") {
  const Numbers w = numbers(of_numbers(normal(8 * 64), 64));
  expect_close("inputs that are all 1",
               numbers(dequantize(awq(of_numbers(w, 64), observed(Numbers(4 * 64, 1.0), 64), kFourBits))),
               rounded(w, 64, 7), {8, 64}, {.roundings = 16});
  Numbers x = normal(50 * 64);
  for (size_t m = 0; m < 50; ++m) x[m * 64 + 10] = 0;
  for (const double v : numbers(dequantize(awq(of_numbers(w, 64), observed(x, 64), kFourBits))))
    expect("a channel is always 0: every value is finite", std::isfinite(v));
}

TEST_CASE("7.15 planted outliers: at least 8 dB better than rounding to nearest") {
  const PlantedLayer layer(true, 160, 32, 256);
  const double nearest = layer.with(layer.x, rounded(layer.w, 64, 7));
  const double got = layer.with(
      layer.x, numbers(dequantize(awq(of_numbers(layer.w, 256), observed(layer.x, 256), kFourBits))));
  expect(
      "outputs of 4-bit weights with groups of 64, four channels 30 times as large: at least 8 dB above "
      "rounding to nearest (" +
          shown(nearest) + " dB); got " + shown(got),
      got >= nearest + 8);
}
