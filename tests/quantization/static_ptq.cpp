#include <tinytorch/quantization/static_ptq.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <support/device.hpp>
#include <support/errors.hpp>
#include <support/few.hpp>
#include <tinytorch/layers/dropout.hpp>
#include <tinytorch/quantization/model.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinytorch;

namespace {

// 16 -> 32 -> [norm] -> 24 -> head of 5.
struct Net : Module {
  Linear in{16, 32}, middle{32, 24, false}, head{24, 5};
  LayerNorm norm{32};
  Dropout dropout{0.5};
  Net() {
    add("in", in), add("norm", norm), add("dropout", dropout), add("middle", middle), add("head", head);
  }
  Tensor forward(const Tensor& x) override { return head(relu(middle(dropout(norm(relu(in(x))))))); }
};

struct Names : OpObserver {
  std::vector<std::string> names;
  void after(const PrimitiveBase& op, const Tensors&, const Tensors&, Cost) override {
    names.emplace_back(op.name());
  }
  int64_t count(const std::string& name) const { return std::count(names.begin(), names.end(), name); }
};

double relative_error(const Tensor& got, const Tensor& want) {
  const Tensor d = got.to(DType::f64) - want.to(DType::f64), w = want.to(DType::f64);
  return std::sqrt(sum(d * d).item<double>() / sum(w * w).item<double>());
}

// The layer by its definition, in double, from its own codes and scales.
std::vector<double> by_definition(const StaticLinear& layer, const Tensor& x) {
  const std::vector<double> X = x.to_vector<double>(), W = layer.weight.to_vector<double>(),
                            S = layer.weight_scale.to_vector<double>();
  const std::vector<double> bias =
      layer.bias.defined() ? layer.bias.to_vector<double>() : std::vector<double>();
  const auto scale = static_cast<float>(layer.input_scale.item<double>());
  const size_t K = static_cast<size_t>(layer.weight.size(1)), N = S.size(), M = X.size() / K;
  std::vector<double> y(M * N);
  for (size_t m = 0; m < M; ++m) {
    for (size_t n = 0; n < N; ++n) {
      int64_t sum = 0;
      for (size_t k = 0; k < K; ++k) {
        const float code = std::nearbyint(static_cast<float>(X[m * K + k]) / scale);
        sum += static_cast<int64_t>(std::clamp(code, -127.0f, 127.0f)) * static_cast<int64_t>(W[n * K + k]);
      }
      y[m * N + n] =
          static_cast<double>(sum) * static_cast<double>(scale) * S[n] + (bias.empty() ? 0 : bias[n]);
    }
  }
  return y;
}

}  // namespace

TEST_CASE("a static layer is its definition, for any dtype, rank and number of rows") {
  manual_seed(5);
  for (const bool has_bias : {true, false}) {
    Linear trained(19, 7, has_bias);
    StaticLinear layer(trained, {-1.5f, 2.0f});
    CHECK(layer.input_scale.item<double>() == doctest::Approx(2.0 / 127).epsilon(1e-6));
    CHECK(layer.weight.dtype() == DType::i8);
    CHECK(layer.state_dict().size() == (has_bias ? 4 : 3));
    CHECK(layer.parameters().empty());
    for (const Shape& shape : {Shape{19}, Shape{1, 19}, Shape{5, 19}, Shape{2, 3, 19}, Shape{0, 19}}) {
      const Tensor x = randn(shape) * 1.5;  // some values saturate
      const Tensor y = layer(x);
      Shape want = shape;
      want.back() = 7;
      CHECK(y.shape() == want);
      const std::vector<double> got = y.to_vector<double>(), expected = by_definition(layer, x);
      for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-5));
    }
    const Tensor x = randn({4, 19}).to(DType::bf16);
    CHECK(layer(x).dtype() == DType::bf16);
    CHECK(relative_error(layer(x), layer(x.to(DType::f32))) < 0.01);
    test::expect_error("TT-DTYPE-02", "the result is f64", [&] { (void)layer(x.to(DType::f64)); });
    test::expect_error("TT-SHAPE-02", "x [M, K]", [&] { (void)layer(randn({4, 18})); });
  }
}

TEST_CASE("inputs beyond the range saturate, and a NaN has code 0") {
  Linear trained(1, 1, false);
  trained.weight.detach().copy_(full({1, 1}, 1));
  StaticLinear layer(trained, {-1, 1});
  const Tensor x =
      from_data({0.5f, 1.0f, 7.0f, -90.0f, HUGE_VALF, std::nanf("")}, {6, 1}).to(default_device());
  const std::vector<double> y = layer(x).to_vector<double>();
  CHECK(y[0] == doctest::Approx(64.0 / 127));
  CHECK(y[1] == doctest::Approx(1));
  CHECK(y[2] == y[1]);
  CHECK(y[3] == -y[1]);
  CHECK(y[4] == y[1]);
  CHECK(y[5] == 0);
}

TEST_CASE("calibration sees the inputs of each layer, in eval mode, and leaves the model as it was") {
  manual_seed(6);
  Net net;
  net.norm.eval();  // a mode of its own, which must come back
  std::vector<Tensor> batches;
  for (int i = 0; i < 3; ++i) batches.push_back(randn({20, 16}) * (i + 1.0));
  const Tensor before = net.in.weight.detach().clone();
  const InputRanges ranges = calibrate(net, batches);
  CHECK(net.training());
  CHECK(net.dropout.training());
  CHECK_FALSE(net.norm.training());
  CHECK(ranges.size() == 2);
  net.eval();
  const NoGrad no_grad;
  const Tensor all = cat(batches, 0), second = net.norm(relu(net.in(all)));
  const auto same = [&](const char* path, const Tensor& inputs) {
    CAPTURE(path);
    CHECK(ranges.at(path).min == doctest::Approx(min(inputs).item<double>()).epsilon(1e-6));
    CHECK(ranges.at(path).max == doctest::Approx(max(inputs).item<double>()).epsilon(1e-6));
  };
  same("in", all), same("middle", second);
  CHECK(sum(abs(net.in.weight.detach() - before)).item<double>() == 0);
  // No observer is left: a call changes nothing, and the same calibration gives the same ranges.
  (void)net(randn({4, 16}) * 100);
  CHECK(calibrate(net, batches).at("in").max == ranges.at("in").max);
  // Another observer, and another choice of layers.
  const InputRanges clipped = calibrate(net, batches,
                                        {.observer = [] { return std::make_unique<PercentileObserver>(50); },
                                         .keep = [](const std::string& path) { return path != "head"; }});
  CHECK(clipped.size() == 1);
  CHECK(clipped.at("head").max < 1000);
}

TEST_CASE("a converted model multiplies integers, with frozen scales, and its norms and head are untouched") {
  manual_seed(7);
  Net net;
  std::vector<Tensor> batches{randn({50, 16}), randn({50, 16})};
  const InputRanges ranges = calibrate(net, batches);
  net.eval();
  const NoGrad no_grad;
  const Tensor x = randn({30, 16}), want = net(x);
  const StateDict old = net.state_dict();
  std::map<std::string, Tensor> kept;
  for (const auto& [name, t] : old) kept.emplace(name, t.clone());
  CHECK(convert(net, ranges) == 2);
  Names names;
  Tensor got;
  {
    const Observing observing(names);
    got = net(x);
  }
  CHECK(names.count("linear_int8") == 2);
  CHECK(names.count("linear") == 1);  // the head
  CHECK(relative_error(got, want) < 0.03);
  CHECK(relative_error(got, want) > 1e-5);  // it is not the float model
  const StateDict state = net.state_dict();
  for (const char* const name : {"norm.weight", "norm.bias", "head.weight", "head.bias"}) {
    CAPTURE(name);
    CHECK(sum(abs(state.at(name) - kept.at(name))).item<double>() == 0);
  }
  CHECK(state.at("in.weight").dtype() == DType::i8);
  CHECK(
      state.at("in.input_scale").item<double>() ==
      doctest::Approx(
          std::max(-static_cast<double>(ranges.at("in").min), static_cast<double>(ranges.at("in").max)) / 127)
          .epsilon(1e-6));
  CHECK_FALSE(net.in.weight.defined());  // the float weight is gone
  const double scale = state.at("in.input_scale").item<double>();
  (void)net(randn({9, 16}) * 50);
  CHECK(net.state_dict().at("in.input_scale").item<double>() == scale);
  // A row has the same bits alone and among others.
  const std::vector<double> rows = got.to_vector<double>(), one = net(x.slice(0, 4, 5)).to_vector<double>();
  for (size_t k = 0; k < 5; ++k) CHECK(std::abs(rows[4 * 5 + k] - one[k]) < 1e-5);
  // A converted layer is left alone.
  CHECK(convert(net, {}) == 0);
}

TEST_CASE("the weights are in a file as they are in the model") {
  manual_seed(8);
  Net first, second;
  const std::vector<Tensor> batches{randn({40, 16})};
  convert(first, calibrate(first, batches)), convert(second, calibrate(second, batches));
  first.eval(), second.eval();
  const NoGrad no_grad;
  second.load_state_dict(first.state_dict());
  const Tensor x = randn({6, 16});
  CHECK(second(x).to_vector<double>() == first(x).to_vector<double>());
}

TEST_CASE("a transformer: fused MLPs are converted, too, and calibration puts them back" *
          test::long_on_emulator()) {
  manual_seed(9);
  Gpt2 model({.vocabulary = 40, .context = 16, .features = 32, .layers = 2, .heads = 4, .deviation = 0.2});
  model.eval();
  const NoGrad no_grad;
  std::vector<Tensor> batches;
  for (int i = 0; i < 4; ++i) batches.push_back(randint(0, 40, {4, 16}, DType::i64));
  const Tensor tokens = randint(0, 40, {2, 12}, DType::i64), want = model(tokens);
  const InputRanges ranges = calibrate(model, batches);
  CHECK(ranges.size() == 8);
  Names fused;
  {
    const Observing observing(fused);
    CHECK(model(tokens).to_vector<double>() == want.to_vector<double>());
  }
  CHECK(fused.count("mlp") == 2);
  CHECK(convert(model, ranges) == 8);
  Names integers;
  {
    const Observing observing(integers);
    CHECK(relative_error(model(tokens), want) < 0.05);
  }
  CHECK(integers.count("linear_int8") == 8);
  CHECK(integers.count("mlp") == 0);
}

TEST_CASE("what cannot be calibrated is named, and nothing is changed") {
  manual_seed(10);
  Net net;
  struct Unused : Module {
    Linear used{4, 4}, unused{4, 4};
    Unused() { add("used", used), add("unused", unused); }
    Tensor forward(const Tensor& x) override { return used(x); }
  } half;
  test::expect_error("TT-CALIB-02", "the layer 'unused' had no input", [&] {
    (void)calibrate(half, {randn({3, 4})});
  });
  test::expect_error("TT-CALIB-02", "had no input", [&] { (void)calibrate(net, {}); });
  test::expect_error("TT-CALIB-01", "observe", [&] {
    (void)calibrate(net, {full({2, 16}, std::numeric_limits<double>::quiet_NaN())});
  });
  CHECK(net.training());
  CHECK(net(randn({2, 16})).shape() == Shape{2, 5});  // its layers have no observer that would refuse
  test::expect_error("TT-CALIB-02", "the layer 'middle' has no range", [&] {
    (void)convert(net, {{"in", {-1, 1}}});
  });
  CHECK(net.in.weight.defined());
  CHECK(net(randn({2, 16})).shape() == Shape{2, 5});
}
