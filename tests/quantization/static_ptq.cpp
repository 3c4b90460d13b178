#include <tinytorch/quantization/static_ptq.hpp>

#include <quantization/planted.hpp>
#include <support/errors.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace test;

namespace {

struct Net : tt::Module {
  tt::Linear first{40, 33}, second{33, 7, false};
  tt::LayerNorm norm{33};
  Net() { add("first", first), add("norm", norm), add("second", second); }
  tt::Tensor forward(const tt::Tensor& x) override { return second(norm(tt::relu(first(x)))); }
};
tt::Tensor rows(int64_t count, uint64_t seed) {
  tt::Generator g(seed);
  return tt::randn({count, 40}, tt::f32, tt::cpu, g);
}

}  // namespace

TEST_CASE("a converted layer computes the products of the codes, in double") {
  const tt::NoGrad no_grad;
  tt::manual_seed(1);
  for (const bool with_bias : {true, false}) {
    tt::Linear layer(37, 5, with_bias);
    const tt::AffineScale s = tt::choose_scale(-2, 2);
    tt::StaticLinear converted(layer, s);
    tt::Tensor x = tt::randn({3, 2, 37}, tt::f32, tt::cpu);
    x.data<float>()[5] = 100, x.data<float>()[60] = -100;  // beyond the range: clipped
    const auto w = layer.weight.to_vector<double>(), v = x.to_vector<double>();
    const auto y = converted(x).to_vector<double>();
    for (size_t m = 0; m < 6; ++m) {
      for (size_t n = 0; n < 5; ++n) {
        double largest = 0, sum = 0;
        for (size_t k = 0; k < 37; ++k) largest = std::max(largest, std::abs(w[n * 37 + k]));
        const float step = static_cast<float>(largest / 127);
        for (size_t k = 0; k < 37; ++k) {
          const float a = std::nearbyint(static_cast<float>(v[m * 37 + k]) / s.scale);
          const float b = std::nearbyint(static_cast<float>(w[n * 37 + k]) / step);
          sum += static_cast<double>(std::clamp(a, -127.0f, 127.0f)) * static_cast<double>(b);
        }
        sum *= static_cast<double>(s.scale) * static_cast<double>(step);
        if (with_bias) sum += layer.bias.to_vector<double>()[n];
        CHECK(y[m * 5 + n] == doctest::Approx(sum).epsilon(1e-5));
      }
    }
    CHECK(converted(x.to(tt::bf16)).dtype() == tt::bf16);
    CHECK(converted(x.slice(0, 0, 0)).shape() == tt::Shape{0, 2, 5});
    CHECK(same_bits(converted(x.transpose(0, 1).contiguous().transpose(0, 1)), converted(x)));
    CHECK(errors::thrown_by([&] { converted(tt::ones({2, 36})); }).code == "TT-SHAPE-02");
  }
}

TEST_CASE("scales are those of the observed inputs, and stay frozen") {
  const tt::NoGrad no_grad;
  tt::manual_seed(2);
  Net net;
  const tt::Tensor a = rows(50, 1), b = rows(30, 2), exact = net(a);
  const tt::StaticScales scales = tt::calibrate(net, {a, b});
  CHECK(scales.size() == 2);
  CHECK(same_bits(net(a), exact));  // calibration changes nothing
  const double largest = std::max(tt::max(tt::abs(a)).item<double>(), tt::max(tt::abs(b)).item<double>());
  CHECK(static_cast<double>(scales.at("first").scale) == doctest::Approx(largest / 127));
  const tt::Tensor norm = net.norm.weight;
  tt::convert(net, scales);
  CHECK(same_bits(net.norm.weight, norm));
  net.eval();
  const auto before = net.state_dict();
  const tt::Tensor y = net(a);
  (void)net(a * 1000.0);
  CHECK(same_bits(net(a), y));
  for (const auto& [name, t] : net.state_dict()) CHECK(same_bits(t, before.at(name)));
  CHECK(before.at("first.weight").dtype() == tt::i8);
  CHECK(before.at("norm.weight").dtype() == tt::f32);
  CHECK(tt::sqnr_db(exact, y) > 30);
  // Rows do not depend on one another.
  CHECK(same_bits(net(a.slice(0, 7, 8)), y.slice(0, 7, 8)));
}

TEST_CASE("each way to choose ranges keeps the outputs, and an outlier moves only those that follow it") {
  const tt::NoGrad no_grad;
  for (const tt::Ranges ranges : {tt::Ranges::minmax, tt::Ranges::moving_average, tt::Ranges::percentile,
                                  tt::Ranges::mse, tt::Ranges::divergence}) {
    CAPTURE(static_cast<int>(ranges));
    tt::manual_seed(2);
    Net net;
    const tt::Tensor x = rows(400, 3), exact = net(x);
    tt::Tensor spoiled = x.clone();
    spoiled.data<float>()[123] = 300;
    const float clean = tt::calibrate(net, {x}, ranges).at("first").scale,
                moved = tt::calibrate(net, {spoiled}, ranges).at("first").scale;
    // One value of 300 costs 300^2 if it is clipped, which is more than coarse steps for 16,000 others.
    const bool follows = ranges != tt::Ranges::percentile && ranges != tt::Ranges::divergence;
    CHECK((moved > 20 * clean) == follows);
    tt::convert(net, tt::calibrate(net, {x}, ranges));
    CHECK(tt::sqnr_db(exact, net(x)) > 20);
  }
}

TEST_CASE("a language model keeps norms, embeddings and head") {
  const tt::NoGrad no_grad;
  tt::manual_seed(5);
  tt::Gpt2 model({.vocabulary = 64,
                  .context = 16,
                  .features = 32,
                  .layers = 2,
                  .heads = 4,
                  .deviation = 0.2,
                  .tied = false});
  model.eval();
  const tt::Tensor ids = tt::randint(0, 64, {4, 16}, tt::i64, tt::cpu), exact = model(ids);
  const tt::StaticScales scales = tt::calibrate(model, {ids});
  CHECK(scales.size() == 8);
  CHECK(scales.count("head") == 0);
  tt::convert(model, scales);
  CHECK(model.state_dict().at("head.weight").dtype() == tt::f32);
  CHECK(model.state_dict().at("blocks.1.mlp.down.weight").dtype() == tt::i8);
  CHECK(tt::sqnr_db(exact, model(ids)) > 25);
  CHECK(errors::thrown_by([&] { tt::convert(model, scales); }).code == "TT-CALIB-03");
}

TEST_CASE("calibration without data, with a NaN, and with a layer that is never called") {
  Net net;
  const auto code = [&](const tt::Calibration& c) {
    return errors::thrown_by([&] { tt::calibrate(net, c); }).code;
  };
  CHECK(code({}) == "TT-CALIB-02");
  CHECK(code(std::vector<tt::Tensor>{}) == "TT-CALIB-02");
  CHECK(code({tt::zeros({0, 40})}) == "TT-CALIB-02");
  CHECK(code({tt::full({2, 40}, NAN)}) == "TT-CALIB-01");
  CHECK(net.training());
  CHECK(errors::thrown_by([&] { tt::convert(net, {{"third", {}}}); }).code == "TT-CALIB-03");
}
