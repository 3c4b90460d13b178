#include <tinytorch/quantization/smooth.hpp>

#include <quantization/planted.hpp>
#include <support/errors.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace test;

namespace {

tt::Tensor eight_bits(const tt::Tensor& x, tt::Granularity granularity) {
  return tt::dequantize(tt::scaled_codes(x, {.bits = 8, .granularity = granularity}));
}

// Output of 8-bit weights by row and 8-bit activations: {one activation scale, one for each token}.
struct W8A8 {
  double tensor, token;
};
W8A8 w8a8(const Layer& layer, const tt::Tensor& x, const tt::Tensor& w) {
  const tt::Tensor rounded = eight_bits(w, tt::Granularity::row);
  return {output_sqnr(layer, eight_bits(x, tt::Granularity::tensor), rounded),
          output_sqnr(layer, eight_bits(x, tt::Granularity::token), rounded)};
}

double largest_difference(const tt::Tensor& a, const tt::Tensor& b) {
  return tt::max(tt::abs(a.to(tt::f64) - b.to(tt::f64))).item<double>();
}
void randomize(tt::Tensor t, tt::Generator& g) {
  const tt::NoGrad no_grad;
  t.copy_((tt::randn(t.shape(), tt::f32, t.device(), g) + 0.2).to(t.dtype()));
}

}  // namespace

TEST_CASE(
    "planted outliers: smoothing lifts 8-bit outputs from 23 to 38 dB, and keeps them without outliers") {
  const auto near = [](double got, double expected) {
    INFO(got, " dB");
    CHECK(std::abs(got - expected) <= 1);
  };
  for (const bool outliers : {true, false}) {
    const Layer layer = planted_layer(outliers);
    const tt::Tensor s = tt::smoothing_scales(tt::channel_max(layer.x), tt::channel_max(layer.w));
    const W8A8 plain = w8a8(layer, layer.x, layer.w), smooth = w8a8(layer, layer.x / s, layer.w * s);
    near(plain.tensor, outliers ? 23.0 : 32.1);
    near(plain.token, outliers ? 30.3 : 37.3);
    near(smooth.tensor, outliers ? 37.5 : 36.7);
    near(smooth.token, outliers ? 43.0 : 39.6);
    if (outliers) CHECK(smooth.tensor >= 35);
  }
}

TEST_CASE("scales by the formula; channels without inputs or weights keep 1") {
  const tt::Tensor x = tt::from_data({4.0f, 100.0f, 0.0f, 3.0f}),
                   w = tt::from_data({1.0f, 0.25f, 2.0f, 0.0f});
  const std::vector<double> half = tt::smoothing_scales(x, w).to_vector<double>(),
                            most = tt::smoothing_scales(x, w, 0.75).to_vector<double>();
  CHECK(half[0] == doctest::Approx(2));
  CHECK(half[1] == doctest::Approx(20));
  CHECK(most[0] == doctest::Approx(std::pow(4, 0.75)));
  CHECK(most[1] == doctest::Approx(std::pow(100, 0.75) / std::pow(0.25, 0.25)));
  for (const std::vector<double>& s : {half, most}) {
    CHECK(s[2] == 1);
    CHECK(s[3] == 1);
  }
  // With alpha = 0.5 the maxima of a channel become equal.
  CHECK(100 / half[1] == doctest::Approx(0.25 * half[1]));
}

TEST_CASE("the maxima of channels, for more dimensions and other dtypes") {
  tt::Generator g(4);
  const tt::Tensor x = tt::randn({5, 3, 4}, tt::f32, tt::cpu, g).to(tt::bf16).permute({2, 1, 0});
  const std::vector<double> values = x.to_vector<double>(), most = tt::channel_max(x).to_vector<double>();
  for (size_t k = 0; k < 5; ++k) {
    double expected = 0;
    for (size_t r = 0; r < 12; ++r) expected = std::max(expected, std::abs(values[r * 5 + k]));
    CHECK(most[k] == expected);
  }
  CHECK(same_numbers(tt::channel_max(tt::empty({0, 3})), tt::zeros({3})));
}

TEST_CASE("norm and linear layers compute the same function before and after") {
  tt::Generator g(2);
  for (const tt::DType dtype : {tt::f32, tt::f64, tt::bf16}) {
    tt::LayerNorm norm(24);
    tt::RMSNorm rms(24);
    tt::Linear before(10, 24), query(24, 8), key(24, 12, false);
    for (tt::Module* const m : std::initializer_list<tt::Module*>{&norm, &rms, &before, &query, &key}) {
      m->to(dtype);
      for (const tt::Tensor& p : m->parameters()) randomize(p, g);
    }
    const tt::NoGrad no_grad;
    const tt::Tensor x = tt::randn({30, 24}, tt::f32, tt::default_device(), g).to(dtype),
                     narrow = tt::randn({30, 10}, tt::f32, tt::default_device(), g).to(dtype);
    // Rounding of 16-bit weights and of the intermediate channels stays; a wrong formula is off by factors.
    const double tolerance = dtype == tt::bf16 ? 0.05 : 1e-5;
    const auto check = [&](tt::Module& maker, const tt::Tensor& input, const auto& smooth,
                           const auto& between) {
      const tt::Tensor channels = between(maker(input)), q = query(channels), k = key(channels);
      const tt::Tensor s = smooth(tt::channel_max(channels));
      const tt::Tensor divided = between(maker(input));
      CHECK(largest_difference(divided, channels / s.to(dtype)) <=
            tolerance * tt::max(tt::abs(channels)).item<double>());
      CHECK(largest_difference(query(divided), q) <= tolerance * tt::max(tt::abs(q)).item<double>());
      CHECK(largest_difference(key(divided), k) <= tolerance * tt::max(tt::abs(k)).item<double>());
      CHECK(largest_difference(s, tt::ones_like(s)) > 0.1);  // something moved
    };
    const auto same = [](const tt::Tensor& t) { return t; };
    const auto to_cpu = [](const tt::Tensor& t) { return t.to(tt::default_device()); };
    check(
        norm, x,
        [&](const tt::Tensor& m) {
          return to_cpu(tt::smooth_(norm, {&query, &key}, m));
        },
        same);
    check(
        rms, x,
        [&](const tt::Tensor& m) {
          return to_cpu(tt::smooth_(rms, {&query, &key}, m, 0.7));
        },
        same);
    check(
        before, narrow,
        [&](const tt::Tensor& m) {
          return to_cpu(tt::smooth_(before, {&query, &key}, m, 0.3));
        },
        [](const tt::Tensor& t) { return tt::relu(t); });
  }
}

TEST_CASE("shapes, alpha and maxima are checked before anything is changed") {
  tt::LayerNorm norm(4);
  tt::Linear fits(4, 2), other(5, 2);
  const tt::Tensor most = tt::full({4}, 3), before = norm.weight.detach().clone();
  test::expect_error("TT-CALIB-03", "alpha is from 0 to 1",
                     [&] { (void)tt::smoothing_scales(most, most, 1.5); });
  test::expect_error("TT-CALIB-03", "alpha is from 0 to 1",
                     [&] { (void)tt::smoothing_scales(most, most, std::nan("")); });
  test::expect_error("TT-SHAPE-02", "two vectors", [&] { (void)tt::smoothing_scales(most, tt::ones({3})); });
  test::expect_error("TT-CALIB-01", "channel 1", [&] {
    (void)tt::smoothing_scales(tt::from_data({1.0f, HUGE_VALF}), tt::ones({2}));
  });
  test::expect_error("TT-SHAPE-02", "does not read 4",
                     [&] { tt::fold_scales_({norm.weight}, {other.weight}, most); });
  test::expect_error("TT-SHAPE-02", "does not make 4",
                     [&] { tt::fold_scales_({other.weight}, {fits.weight}, most); });
  test::expect_error("TT-SHAPE-02", "two vectors", [&] { (void)tt::smooth_(norm, {&other}, most); });
  CHECK(same_numbers(norm.weight.detach(), before));
}
