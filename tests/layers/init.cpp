#include <tinytorch/layers/init.hpp>

#include <algorithm>
#include <support/errors.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

namespace {

struct Moments {
  double mean = 0, variance = 0, low = 1e9, high = -1e9;
};
Moments moments(const tt::Tensor& t) {
  Moments m;
  const auto values = t.to_vector<double>();
  for (double v : values) {
    m.mean += v / static_cast<double>(values.size());
    m.low = std::min(m.low, v), m.high = std::max(m.high, v);
  }
  for (double v : values) m.variance += (v - m.mean) * (v - m.mean) / static_cast<double>(values.size());
  return m;
}
constexpr double kSampling = 0.02;  // 3 standard deviations of a variance over 50,000 samples

}  // namespace

TEST_CASE("fan_in and fan_out include the receptive field") {
  const tt::init::Fans fans = tt::init::fans_of(tt::empty({8, 3, 5, 2}));
  CHECK(fans.in == 30);
  CHECK(fans.out == 80);
  CHECK(message_of([] { tt::init::fans_of(tt::empty({8})); }).rfind("TT-NN-10", 0) == 0);
}

TEST_CASE("uniform and normal have the stated moments and bounds") {
  tt::Tensor t = tt::empty({50000});
  tt::Generator g(5);
  tt::init::uniform(t, -1, 3, g);
  Moments m = moments(t);
  CHECK(m.mean == doctest::Approx(1).epsilon(0.02));
  CHECK(m.variance == doctest::Approx(16.0 / 12).epsilon(kSampling));
  CHECK((m.low >= -1 && m.low < -0.99 && m.high <= 3 && m.high > 2.99));
  tt::init::normal(t, 2, 0.5, g);
  m = moments(t);
  CHECK(m.mean == doctest::Approx(2).epsilon(0.01));
  CHECK(m.variance == doctest::Approx(0.25).epsilon(kSampling));
  CHECK(m.high > 2 + 3.5 * 0.5);
  tt::init::constant(t, 4);
  m = moments(t);
  CHECK((m.low == 4 && m.high == 4));
}

TEST_CASE("Xavier and Kaiming scale by fan_in, fan_out and the gain") {
  tt::Tensor t = tt::empty({100, 20, 5, 5});  // fan_in 500, fan_out 2500
  tt::Generator g(6);
  tt::init::xavier_normal(t, 3, g);
  CHECK(moments(t).variance == doctest::Approx(9 * 2.0 / 3000).epsilon(kSampling));
  tt::init::xavier_uniform(t, 1, g);
  Moments m = moments(t);
  CHECK(m.variance == doctest::Approx(2.0 / 3000).epsilon(kSampling));
  CHECK(m.high <= std::sqrt(6.0 / 3000) * 1.000001);
  CHECK(m.high > std::sqrt(6.0 / 3000) * 0.999);
  tt::init::kaiming_normal(t, tt::init::relu_gain(), g);
  CHECK(moments(t).variance == doctest::Approx(2.0 / 500).epsilon(kSampling));
  tt::init::kaiming_uniform(t, tt::init::leaky_relu_gain(2), g);
  m = moments(t);
  CHECK(m.variance == doctest::Approx(2.0 / 5 / 500).epsilon(kSampling));
  CHECK(m.low >= -std::sqrt(3 * 0.4 / 500) * 1.000001);
}

TEST_CASE("the normal quantile inverts the distribution function") {
  for (double x : {-7.0, -3.0, -1.0, -1e-3, 0.0, 0.3, 1.0, 2.5, 5.0}) {
    const double p = 0.5 * std::erfc(-x / std::sqrt(2.0));
    CHECK(tt::init::normal_quantile(p) == doctest::Approx(x).epsilon(1e-7));
  }
}

TEST_CASE("truncated_normal stays in its bounds and has the closed-form moments") {
  tt::Tensor t = tt::empty({50000});
  tt::Generator g(7);
  tt::init::truncated_normal(t, 1, 2, 0, 6, g);
  // Mean and variance of N(mu, s^2) on [a, b]; alpha = (a - mu) / s, beta = (b - mu) / s.
  const auto pdf = [](double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0)); };
  const auto cdf = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); };
  const double alpha = -0.5, beta = 2.5, z = cdf(beta) - cdf(alpha), shift = (pdf(alpha) - pdf(beta)) / z;
  const Moments m = moments(t);
  CHECK(m.mean == doctest::Approx(1 + 2 * shift).epsilon(0.01));
  CHECK(m.variance == doctest::Approx(4 * (1 + (alpha * pdf(alpha) - beta * pdf(beta)) / z - shift * shift))
                          .epsilon(kSampling));
  CHECK((m.low >= 0 && m.low < 0.01 && m.high <= 6 && m.high > 5.5));
  CHECK(message_of([&] { tt::init::truncated_normal(t, 0, 1, 2, 2, g); }).rfind("TT-NN-11", 0) == 0);
}

TEST_CASE("equal generator states give equal weights, which still require a gradient") {
  tt::Tensor a = tt::empty({7, 3}), b = tt::empty({7, 3});
  a.requires_grad_();
  tt::Generator g(9), h(9);
  tt::init::kaiming_normal(a, 1, g);
  tt::init::kaiming_normal(b, 1, h);
  CHECK(a.to_vector() == b.to_vector());
  CHECK(a.requires_grad());
  tt::init::kaiming_normal(b, 1, h);
  CHECK(a.to_vector() != b.to_vector());
}
