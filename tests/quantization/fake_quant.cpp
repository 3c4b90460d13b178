#include <tinytorch/quantization/fake_quant.hpp>

#include <quantization/planted.hpp>
#include <support/errors.hpp>
#include <tinytorch/autograd/gradcheck.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/sgd.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace test;

namespace {

std::vector<double> gradient_of(const tt::Tensor& leaf) { return leaf.grad().to_vector<double>(); }

}  // namespace

TEST_CASE("values are those of quantize and dequantize, for every dtype and layout") {
  tt::Generator g(1);
  for (const bool symmetric : {true, false}) {
    const tt::AffineScale s = tt::choose_scale(-1, 2, 4, symmetric);
    for (const tt::DType dtype : {tt::f32, tt::bf16, tt::f16, tt::f64}) {
      // Numbers of few bits, which all dtypes hold, and a scale that they hold too.
      const tt::AffineScale exact{0.125f, s.zero_point, s.low, s.high};
      const tt::Tensor x =
          (tt::round(tt::randn({9, 7}, tt::f32, tt::cpu, g) * 24) / 32).to(dtype).t().slice(1, 0, 9, 2);
      const tt::Tensor y = tt::fake_quantize(x, exact);
      CHECK(y.dtype() == dtype);
      CHECK(y.to_vector<double>() == tt::dequantize(tt::quantize(x, exact), exact).to_vector<double>());
    }
    const tt::Tensor x = tt::randn({100}, tt::f32, tt::cpu, g) * 2;
    const tt::Tensor y = tt::fake_quantize(x, s), z = tt::dequantize(tt::quantize(x, s), s);
    CHECK(tt::max(tt::abs(y - z)).item<double>() <= 1e-6);
  }
  CHECK(tt::fake_quantize(tt::empty({0, 3}), tt::AffineScale{}).shape() == tt::Shape{0, 3});
  const std::vector<double> odd = tt::fake_quantize(tt::from_data({std::nanf(""), HUGE_VALF, -HUGE_VALF}),
                                                    tt::AffineScale{0.5f, 0, -7, 7})
                                      .to_vector<double>();
  CHECK(std::isnan(odd[0]));  // a training run that diverged shows it
  CHECK(odd[1] == 3.5);
  CHECK(odd[2] == -3.5);
}

TEST_CASE("the gradient is 1 inside the clip range and 0 outside") {
  for (const tt::DType dtype : {tt::f32, tt::f64, tt::bf16}) {
    tt::Tensor x = tt::from_data({-9.0, -3.6, -3.5, -1.2, 0.0, 0.26, 3.5, 3.6, 9.0}).to(dtype).detach();
    x.requires_grad_();
    const tt::Tensor weight = tt::from_data({1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0}).to(dtype);
    tt::sum(tt::fake_quantize(x, tt::AffineScale{0.5f, 0, -7, 7}) * weight).backward();
    CHECK(gradient_of(x) == std::vector<double>{0, 0, 3, 4, 5, 6, 7, 0, 0});
  }
  tt::Tensor x = tt::from_data({-1.1, -0.9, 0.0, 1.9, 2.1});  // codes 0 to 15 with the zero point 5: [-1, 2]
  x.requires_grad_();
  tt::sum(tt::fake_quantize(x, tt::AffineScale{0.2f, 5, 0, 15})).backward();
  CHECK(gradient_of(x) == std::vector<double>{0, 1, 1, 1, 0});
}

TEST_CASE("the gradient of the step by the formula, summed over the values that share it") {
  tt::Generator g(2);
  for (const tt::Shape& shape : {tt::Shape{}, tt::Shape{1, 1}, tt::Shape{4, 1}, tt::Shape{1, 6}}) {
    tt::Tensor x = tt::randn({4, 6}, tt::f64, tt::cpu, g),
               step = tt::rand(shape, tt::f64, tt::cpu, g) * 0.2 + 0.2;
    const tt::Tensor weight = tt::randn({4, 6}, tt::f64, tt::cpu, g);
    for (const bool learned : {false, true}) {
      tt::Tensor a = x.detach().clone(), s = step.detach().clone();
      a.requires_grad_(), s.requires_grad_();
      const tt::Tensor y = learned ? tt::learned_step_quantize(a, s, -4, 3) : tt::fake_quantize(a, s, -4, 3);
      tt::sum(y * weight).backward();
      const std::vector<double> X = x.to_vector<double>(), S = step.expand({4, 6}).to_vector<double>(),
                                W = weight.to_vector<double>(), got = gradient_of(s);
      std::vector<double> expected(got.size());
      for (size_t i = 0; i < 24; ++i) {
        const double v = X[i] / S[i], slope = v < -4 ? -4 : v > 3 ? 3 : std::nearbyint(v) - v;
        const size_t at = got.size() == 1 ? 0 : got.size() == 4 ? i / 6 : i % 6;
        expected[at] += W[i] * slope;
      }
      const double shared = 24.0 / static_cast<double>(got.size()),
                   factor = learned ? 1 / std::sqrt(shared * 3) : 1;
      for (size_t k = 0; k < got.size(); ++k)
        CHECK(got[k] == doctest::Approx(expected[k] * factor).epsilon(1e-9));
    }
  }
}

TEST_CASE("outside of the clip range the derivatives are true ones, so finite differences confirm them") {
  // y = s * high does not depend on x. A step that reaches no halfway point changes no code, so that
  // dy/ds = code, while the estimator gives round(v) - v inside: only saturated values can be compared.
  tt::Tensor x = tt::from_data({9.0, -8.0, 30.0, -5.5}).to(tt::f64), s = tt::full({}, 0.5, tt::f64, tt::cpu);
  x = x.detach(), x.requires_grad_(), s.requires_grad_();
  const tt::GradcheckResult check =
      tt::gradcheck([](const tt::Tensors& in) { return tt::fake_quantize(in[0], in[1], -8, 7); }, {x, s});
  INFO(check.message);
  CHECK(check.passed);
}

TEST_CASE("a profiler sees one operation; shapes and dtypes are checked") {
  struct Counting : tt::OpObserver {
    int count = 0;
    void after(const tt::PrimitiveBase&, const tt::Tensors&, const tt::Tensors&, tt::Cost) override {
      ++count;
    }
  } counting;
  const tt::Tensor x = tt::ones({3, 4}), s = tt::full({3, 1}, 0.5);
  {
    const tt::Observing observing(counting);
    (void)tt::fake_quantize(x, s, -8, 7);
  }
  CHECK(counting.count == 1);
  test::expect_error("TT-SHAPE-02", "fake_quantize", [&] {
    (void)tt::fake_quantize(x, tt::ones({2, 1}), -8, 7);
  });
  test::expect_error("TT-SHAPE-02", "broadcasts to x", [&] {
    (void)tt::fake_quantize(tt::ones({4}), tt::ones({3, 4}), -8, 7);
  });
  test::expect_error("TT-DTYPE-03", "fake_quantize",
                     [&] { (void)tt::fake_quantize(x, s.to(tt::f64), -8, 7); });
  test::expect_error("TT-DTYPE-02", "fake_quantize",
                     [] { (void)tt::fake_quantize(tt::arange(0, 3), tt::arange(0, 3), -8, 7); });
}

TEST_CASE("a layer with rounded weights has few values in each row or group, and trains the float weight") {
  tt::Generator g(3);
  const tt::Linear trained(12, 5, true, g);
  for (const bool learn : {true, false}) {
    for (const tt::Fit fit : {tt::Fit::absmax, tt::Fit::signed_max, tt::Fit::mse}) {
      for (const tt::Granularity granularity :
           {tt::Granularity::tensor, tt::Granularity::row, tt::Granularity::group}) {
        const tt::ScaleOptions o{.bits = 3, .granularity = granularity, .group = 4, .fit = fit};
        tt::QatLinear layer(trained, o, learn);
        CHECK(layer.parameters().size() == (learn ? 3 : 2));
        const tt::Tensor rounded = layer.quantized_weight().detach(),
                         expected = tt::dequantize(tt::scaled_codes(trained.weight, o));
        CHECK(tt::max(tt::abs(rounded - expected)).item<double>() < 1e-6);
        const tt::Tensor x = tt::randn({6, 12}, tt::f32, tt::default_device(), g),
                         before = layer.weight.detach().clone();
        CHECK(tt::max(tt::abs(layer(x) - tt::linear(x, rounded, trained.bias))).item<double>() < 1e-5);
        tt::SGD optimizer(layer.named_parameters(), {.lr = 1e-4});
        tt::mean(tt::square(layer(x))).backward();
        optimizer.step();
        const double moved = tt::max(tt::abs(layer.weight.detach() - before)).item<double>();
        CHECK(moved > 0);
        CHECK(moved < 1e-3);  // far below a step of the grid: the float weight moves, its codes may stay
        CHECK(same_numbers(trained.weight.detach(), before));
      }
    }
  }
  test::expect_error("TT-CALIB-03", "a multiple of the group", [&] {
    (void)tt::QatLinear(trained, {.bits = 3, .granularity = tt::Granularity::group, .group = 5});
  });
  test::expect_error("TT-CALIB-03", "without a zero point",
                     [&] { (void)tt::QatLinear(trained, {.fit = tt::Fit::minmax}); });
}

namespace {

// y = tanh(x A^T) B^T is learned by a network of two layers: Linear, or QatLinear in their place.
template <class Layer>
struct TwoLayers : tt::Module {
  Layer hidden, out;
  TwoLayers(Layer&& a, Layer&& b) : hidden(std::move(a)), out(std::move(b)) {
    add("hidden", hidden), add("out", out);
  }
  tt::Tensor forward(const tt::Tensor& x) override { return out(tt::relu(hidden(x))); }
};

}  // namespace

TEST_CASE("3-bit weights: training with rounded weights at least halves the loss that rounding adds") {
  const tt::Device device = tt::default_device();
  tt::Generator g(4);
  const tt::Tensor x = tt::randn({256, 8}, tt::f32, device, g),
                   A = tt::randn({16, 8}, tt::f32, device, g) * 0.7,
                   B = tt::randn({3, 16}, tt::f32, device, g) * 0.25,
                   y = tt::matmul(tt::tanh(tt::matmul(x, A.t())), B.t());
  const auto loss = [&](tt::Module& m) { return tt::mean(tt::square(m(x) - y)); };
  const auto train = [&](tt::Module& m, double rate) {
    constexpr int kSteps = 300;
    tt::Adam optimizer(m.named_parameters(), {.lr = rate});
    for (int i = 0; i < kSteps; ++i) {
      optimizer.set_lr(rate * (kSteps - i) / kSteps);
      m.zero_grad();
      loss(m).backward();
      optimizer.step();
    }
    const tt::NoGrad no_grad;
    return loss(m).item<double>();
  };
  TwoLayers network(tt::Linear(8, 64, true, g), tt::Linear(64, 3, true, g));
  const double full = train(network, 0.02);
  const tt::ScaleOptions three_bits{.bits = 3, .granularity = tt::Granularity::row};
  for (const bool learn_step : {true, false}) {
    TwoLayers rounded(tt::QatLinear(network.hidden, three_bits, learn_step),
                      tt::QatLinear(network.out, three_bits, learn_step));
    const double afterwards = tt::no_grad([&] { return loss(rounded).item<double>(); });
    const double trained = train(rounded, 0.01);
    INFO("float ", full, ", rounded afterwards ", afterwards, ", trained with rounding ", trained);
    CHECK(afterwards > 2 * full);
    CHECK(trained - full <= 0.5 * (afterwards - full));
  }
}
