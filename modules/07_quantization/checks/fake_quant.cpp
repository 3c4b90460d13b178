#include <tinytorch/quantization/fake_quant.hpp>

#include "planted_layer.hpp"

using namespace course;

namespace {

Numbers numbers(const Tensor& t) { return t.to_vector<double>(); }
Tensor of_numbers(const Numbers& x, const Shape& shape, DType dtype = f32) {
  return Tensor(from_data(x, shape)).to(dtype);
}
Tensor leaf(const Numbers& x, const Shape& shape, DType dtype = f32) {
  Tensor t = of_numbers(x, shape, dtype).detach();
  t.requires_grad_();
  return t;
}
// The sum of y times these numbers, whose gradient is passed to the derivative of y.
void backward_with(const Tensor& y, const Numbers& dy) {
  sum(y * of_numbers(dy, y.shape(), y.dtype())).backward();
}

double quantized(double x, double s, double low, double high) {
  return s * std::clamp(std::nearbyint(x / s), low, high);
}

}  // namespace

TEST_CASE("7.11 values of the codes, in floating point") {
  const Numbers x = {-9, -3.6, -1.3, -0.25, 0, 0.24, 0.26, 0.75, 1.25, 3.4, 3.6, 9};
  Numbers want;
  for (const double v : x) want.push_back(quantized(v, 0.5, -7, 7));
  expect_close("fake_quantize with scale 0.5 and codes -7 to 7",
               numbers(fake_quantize(of_numbers(x, {12}), AffineScale{0.5f, 0, -7, 7})), want, {12});
  for (const DType dtype : {f64, bf16, f16}) {
    const Tensor y = fake_quantize(of_numbers(x, {3, 4}, dtype), AffineScale{0.5f, 0, -7, 7});
    expect_equal("dtype of the result for " + std::string(name_of(dtype)), std::string(name_of(y.dtype())),
                 std::string(name_of(dtype)));
    Numbers of_stored;
    for (const double v : numbers(of_numbers(x, {3, 4}, dtype)))
      of_stored.push_back(quantized(v, 0.5, -7, 7));
    expect_close("the same for " + std::string(name_of(dtype)), numbers(y), of_stored, {3, 4},
                 {.dtype = dtype});
  }
  expect_close("codes 0 to 15 with zero point 5 and scale 0.2: values -1 to 2",
               numbers(fake_quantize(of_numbers({-3, -1, -0.52, 0, 0.31, 1.9, 2.5}, {7}),
                                     AffineScale{0.2f, 5, 0, 15})),
               {-1, -1, -0.6, 0, 0.4, 2, 2}, {7});
  const Numbers odd =
      numbers(fake_quantize(of_numbers({NAN, INFINITY, -INFINITY}, {3}), AffineScale{0.5f, 0, -7, 7}));
  expect("a NaN stays NaN, so that a training run that diverged shows it", std::isnan(odd[0]));
  expect_close("infinity and -infinity", {odd[1], odd[2]}, {3.5, -3.5}, {2});
}

TEST_CASE("7.11 scales by row, and quotients of 16-bit numbers in f32") {
  const Numbers x = Values::random(f32, {3, 5}, Layout::contiguous, -2, 2).numbers(), s = {0.5, 0.25, 1};
  Numbers want;
  for (size_t i = 0; i < 15; ++i) want.push_back(quantized(x[i], s[i / 5], -4, 3));
  expect_close("scales [3, 1] for x [3, 5]",
               numbers(fake_quantize(of_numbers(x, {3, 5}), of_numbers(s, {3, 1}), -4, 3)), want, {3, 5});
  // Codes near 100 need seven digits of the quotient; bf16 has eight binary ones.
  Numbers wide, codes;
  const double scale = numbers(of_numbers({0.03}, {1}, bf16))[0];
  for (int i = 90; i < 120; ++i) wide.push_back((i + (i % 2 == 0 ? 0.3 : -0.3)) * scale);
  for (const double v : numbers(of_numbers(wide, {30}, bf16)))
    codes.push_back(quantized(v, scale, -127, 127));
  expect_close("bf16 with a scale of 0.03 and codes from 90 to 120",
               numbers(fake_quantize(of_numbers(wide, {30}, bf16), of_numbers({0.03}, {1}, bf16), -127, 127)),
               codes, {30}, {.dtype = bf16, .roundings = 1});
}

TEST_CASE("7.11 the gradient is 1 inside the clip range and 0 outside") {
  for (const DType dtype : {f32, f64, bf16}) {
    Tensor x = leaf({-9, -3.6, -3.5, -1.2, 0, 0.26, 3.5, 3.6, 9}, {9}, dtype);
    backward_with(fake_quantize(x, AffineScale{0.5f, 0, -7, 7}), {1, 2, 3, 4, 5, 6, 7, 8, 9});
    expect_close(
        "dx for dy = {1, ..., 9} at {-9, -3.6, -3.5, -1.2, 0, 0.26, 3.5, 3.6, 9}; values lie in [-3.5, 3.5] "
        "(" +
            std::string(name_of(dtype)) + ")",
        numbers(x.grad()), {0, 0, 3, 4, 5, 6, 7, 0, 0}, {9});
  }
  Tensor x = leaf({-1.1, -0.9, 0, 1.9, 2.1}, {5});
  backward_with(fake_quantize(x, AffineScale{0.2f, 5, 0, 15}), {1, 2, 3, 4, 5});
  expect_close("dx with zero point 5: values lie in [-1, 2]", numbers(x.grad()), {0, 2, 3, 4, 0}, {5});
}

TEST_CASE("7.11 the gradient of the scale, summed over the values that share it") {
  for (const Shape& shape : {Shape{}, Shape{4, 1}, Shape{1, 6}}) {
    const Numbers X = normal(24), W = normal(24),
                  S = Values::random(f64, shape, Layout::contiguous, 0.2, 0.4).numbers();
    for (const bool learned : {false, true}) {
      Tensor x = leaf(X, {4, 6}, f64), s = leaf(S, shape, f64);
      backward_with(learned ? learned_step_quantize(x, s, -4, 3) : fake_quantize(x, s, -4, 3), W);
      Numbers want(S.size()), dx(24);
      for (size_t i = 0; i < 24; ++i) {
        const size_t at = S.size() == 1 ? 0 : S.size() == 4 ? i / 6 : i % 6;
        const double v = X[i] / S[at];
        want[at] += W[i] * (v < -4 ? -4 : v > 3 ? 3 : std::nearbyint(v) - v);
        dx[i] = v < -4 || v > 3 ? 0 : W[i];
      }
      for (double& v : want) v *= learned ? 1 / std::sqrt(24.0 / static_cast<double>(S.size()) * 3) : 1;
      const std::string what =
          std::string(learned ? "learned_step_quantize" : "fake_quantize") + ", scales " + shape.str();
      expect_close("ds of " + what + ": round(v) - v inside, low or high outside, v = x / s" +
                       (learned ? ", divided by sqrt(n high)" : ""),
                   numbers(s.grad()), want, shape, {.dtype = f64, .roundings = 100, .scale = 10});
      expect_close("dx of " + what, numbers(x.grad()), dx, {4, 6}, {.dtype = f64});
    }
  }
}

TEST_CASE("7.11 a layer computes with rounded weights: few values in each row or group") {
  Linear trained(12, 5);
  const Numbers W = numbers(trained.weight);
  for (const auto& [granularity, together] : {std::pair{Granularity::tensor, size_t{60}},
                                              {Granularity::row, size_t{12}},
                                              {Granularity::group, size_t{4}}}) {
    for (const bool learn : {true, false}) {
      QatLinear layer(trained, {.bits = 3, .granularity = granularity, .group = 4}, learn);
      const std::string what =
          "3 bits, " + std::to_string(together) + " weights to a scale" + (learn ? ", learned" : "");
      const Numbers want = rounded(W, together, 3);
      expect_close("quantized_weight(): " + what, numbers(layer.quantized_weight()), want, {5, 12},
                   {.roundings = 16});
      const Numbers x = normal(36), bias = numbers(trained.bias);
      Numbers y = product(numbers(of_numbers(x, {3, 12})), want, 12);
      for (size_t i = 0; i < y.size(); ++i) y[i] += bias[i % 5];
      expect_close("forward: " + what, numbers(layer(of_numbers(x, {3, 12}))), y, {3, 5},
                   {.roundings = 100, .scale = 2});
    }
  }
}

TEST_CASE("7.11 the float weights behind it move, by steps that are far smaller than the grid's") {
  Linear trained(12, 5);
  QatLinear layer(trained, {.bits = 3, .granularity = Granularity::row}, false);
  const Numbers before = numbers(layer.weight);
  mean(square(layer(of_numbers(normal(96), {8, 12})))).backward();
  expect("the weight has a gradient", layer.weight.grad().defined());
  const Numbers gradient = numbers(layer.weight.grad());
  expect("and it is not 0 everywhere",
         std::any_of(gradient.begin(), gradient.end(), [](double g) { return g != 0; }));
  const NoGrad no_grad;
  layer.weight.detach().copy_(layer.weight.detach() - layer.weight.grad() * 1e-4);
  Numbers want = before;
  for (size_t i = 0; i < want.size(); ++i) want[i] -= 1e-4 * gradient[i];
  (void)layer.quantized_weight();
  expect_close("the weights after a step of 1e-4 and another look at the rounded ones", numbers(layer.weight),
               want, {5, 12});
  expect("the trained layer is not touched", numbers(trained.weight) == before);
}

TEST_CASE("7.11 3 bits: training with rounded weights halves the loss that rounding adds") {
  // Outputs of a layer of 128 inputs, for 16 samples: many weights give the same outputs, and some are near
  // the grid.
  Linear exact(128, 4, false);
  {
    const NoGrad no_grad;
    exact.weight.detach().copy_(of_numbers(normal(512), {4, 128}));
  }
  const Tensor x = of_numbers(normal(16 * 128), {16, 128}), y = linear(x, exact.weight).detach();
  QatLinear layer(exact, {.bits = 3, .granularity = Granularity::row}, false);
  const auto loss = [&] { return mean(square(layer(x) - y)); };
  const double afterwards = loss().item<double>();
  for (int step = 0; step < 80; ++step) {
    layer.zero_grad();
    loss().backward();
    const NoGrad no_grad;
    layer.weight.detach().copy_(layer.weight.detach() - layer.weight.grad() * (0.04 * (80 - step) / 80));
  }
  const double trained = loss().item<double>();
  expect("loss after 80 steps: at most half of " + shown(afterwards) +
             ", which rounding without training adds; got " + shown(trained),
         trained <= 0.5 * afterwards);
}

TEST_CASE("7.11 a profiler sees one operation") {
  struct Operations : OpObserver {
    std::string names;
    void after(const PrimitiveBase& op, const Tensors&, const Tensors&, Cost) override {
      names += op.name() + std::string(" ");
    }
  } seen;
  const Tensor x = of_numbers(normal(12), {3, 4}), s = of_numbers({0.5}, {1});
  {
    const Observing observing(seen);
    (void)fake_quantize(x, s, -8, 7);
  }
  expect_equal("operations of fake_quantize", seen.names, std::string("fake_quantize "));
}
