#include <tinytorch/pruning/low_rank.hpp>

#include <pruning/formats.hpp>
#include <quantization/planted.hpp>

using namespace test;

namespace {

tt::InputStatistics observed(const tt::Tensor& x) {
  tt::InputStatistics s(x.size(-1));
  s.observe(x);
  return s;
}
double error_of_outputs(const tt::Tensor& x, const tt::Tensor& w, const tt::LowRank& f) {
  const tt::Tensor d = tt::matmul(x.to(tt::f64), (w.to(tt::f64) - tt::matmul(f.A, f.B)).t());
  return tt::sum(tt::square(d)).item<double>();
}

// Correlated inputs x [300, 40] and a weight [30, 40].
struct Case {
  tt::Tensor x, w;
  Case() {
    tt::Generator g(5);
    x = tt::matmul(tt::randn({300, 40}, tt::f32, tt::cpu, g),
                   tt::randn({40, 40}, tt::f32, tt::cpu, g) * tt::exp(tt::randn({40}, tt::f32, tt::cpu, g)));
    w = tt::randn({30, 40}, tt::f32, tt::cpu, g);
  }
};

}  // namespace

TEST_CASE("the error of the weight is the root of the squares of the singular values that went") {
  const Case c;
  for (const int64_t r : {1, 5, 16}) {
    const tt::LowRank f = tt::low_rank(c.w, r);
    CHECK(f.A.shape() == tt::Shape{30, r});
    CHECK(f.B.shape() == tt::Shape{r, 40});
    const double error = tt::sum(tt::square(c.w.to(tt::f64) - tt::matmul(f.A, f.B))).item<double>();
    CHECK(error == doctest::Approx(tt::sum(tt::square(f.s.slice(0, r))).item<double>()));
  }
}

TEST_CASE(
    "whitened factors have the least error of the outputs: better than plain by 1.5 dB, and no change "
    "helps") {
  const Case c;
  const tt::InputStatistics inputs = observed(c.x);
  for (const int64_t r : {4, 10}) {
    const tt::LowRank plain = tt::low_rank(c.w, r), white = tt::low_rank(c.w, r, inputs);
    const double before = error_of_outputs(c.x, c.w, plain), after = error_of_outputs(c.x, c.w, white);
    CHECK(10 * std::log10(before / after) >= 1.5);
    CHECK(after == doctest::Approx(tt::sum(tt::square(white.s.slice(0, r))).item<double>()).epsilon(1e-3));
    tt::Generator g(6);
    for (int trial = 0; trial < 10; ++trial) {
      tt::LowRank other = white;
      other.A = white.A + tt::randn(white.A.shape(), tt::f64, tt::cpu, g) * 0.01;
      other.B = white.B + tt::randn(white.B.shape(), tt::f64, tt::cpu, g) * 0.01;
      CHECK(error_of_outputs(c.x, c.w, other) > after * 0.999999);
    }
  }
}

TEST_CASE("ranks by budget and by energy") {
  CHECK(tt::break_even_rank(100, 100) == 50);
  CHECK(tt::break_even_rank(30, 40) == 18);
  for (const double budget : {0.1, 0.5, 0.9}) {
    const int64_t r = tt::rank_of_budget(300, 200, budget);
    CHECK(static_cast<double>(r * 500) <= budget * 60000);
    CHECK(static_cast<double>((r + 1) * 500) > budget * 60000);
  }
  const tt::Tensor s = tt::from_data(std::vector<double>{3, 2, 1, 0}, {4}, tt::cpu);  // squares 9, 4, 1, 0
  CHECK(tt::rank_of_energy(s, 0.6) == 1);
  CHECK(tt::rank_of_energy(s, 0.7) == 2);
  CHECK(tt::rank_of_energy(s, 1) == 3);
}

TEST_CASE("a factorized layer has fewer numbers and gradients, and equals the product of its factors") {
  Case c;
  tt::Generator g(1);
  tt::Linear layer(40, 30, true, g);
  const tt::Tensor bias = layer.bias.detach().clone();
  const tt::InputStatistics inputs = observed(c.x);
  const tt::LowRank f = tt::low_rank(layer.weight, 6, inputs);
  const auto factors = tt::factorize(layer, 6, &inputs);
  CHECK(layer.parameter_count() == 6 * 70 + 30);
  CHECK_FALSE(layer.weight.defined());
  const tt::Tensor y = layer(c.x.slice(0, 0, 5)),
                   expected =
                       tt::linear(c.x.slice(0, 0, 5).to(tt::f64), tt::matmul(f.A, f.B), bias.to(tt::f64));
  CHECK(tt::max(tt::abs(y.to(tt::f64) - expected)).item<double>() < 1e-3);
  tt::sum(tt::square(y)).backward();
  CHECK(factors->up.grad().defined());
  CHECK(factors->rank() == 6);
}

TEST_CASE("ranks that save nothing are refused") {
  const Case c;
  const auto code = [](auto&& f) { return errors::thrown_by(f).code; };
  CHECK(code([&] { tt::low_rank(c.w, 18); }) == "TT-PRUNE-07");
  CHECK(code([&] { tt::low_rank(c.w, 0); }) == "TT-PRUNE-07");
  CHECK(code([&] { tt::low_rank(c.w, 18, observed(c.x)); }) == "TT-PRUNE-07");
  CHECK(code([&] { tt::low_rank(c.w, 3, observed(c.x.slice(1, 0, 10))); }) == "TT-SHAPE-02");
  CHECK(code([&] { tt::low_rank(c.w.select(0, 0), 1); }) == "TT-SHAPE-02");
}
