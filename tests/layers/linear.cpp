#include <tinytorch/layers/linear.hpp>

#include <tinytorch/tinytorch.hpp>

#include <support/values.hpp>

namespace tt = tinytorch;

TEST_CASE("Linear matches plain loops, for any leading dimensions") {
  tt::Generator generator(3);
  tt::Linear layer(5, 3, true, generator);
  const tt::Tensor x = tt::randn({2, 4, 5}, tt::f32, tt::default_device(), generator);
  const auto w = layer.weight.to_vector<double>(), b = layer.bias.to_vector<double>(),
             in = x.to_vector<double>();
  std::vector<double> expected;
  for (size_t row = 0; row < 8; ++row) {
    for (size_t n = 0; n < 3; ++n) {
      double sum = b[n];
      for (size_t k = 0; k < 5; ++k) sum += in[row * 5 + k] * w[n * 5 + k];
      expected.push_back(sum);
    }
  }
  const tt::Tensor y = layer(x);
  CHECK(y.shape() == tt::Shape{2, 4, 3});
  check_values(y.to_vector<double>(), expected, 1e-6);
}

TEST_CASE("Linear initializes uniformly within 1/sqrt(K), from its generator alone") {
  tt::Generator a(1), b(1), c(2);
  tt::Linear first(100, 200, true, a), same(100, 200, true, b), other(100, 200, true, c);
  CHECK(first.weight.to_vector() == same.weight.to_vector());
  CHECK(first.weight.to_vector() != other.weight.to_vector());
  double largest = 0, squares = 0;
  for (double w : first.weight.to_vector<double>())
    largest = std::max(largest, std::abs(w)), squares += w * w;
  CHECK(largest <= 0.1);
  CHECK(largest > 0.099);
  CHECK(squares / 20000 == doctest::Approx(0.01 / 3).epsilon(0.03));
  for (double v : first.bias.to_vector<double>()) CHECK(std::abs(v) <= 0.1);
}

TEST_CASE("Linear without a bias has one parameter") {
  tt::Linear layer(4, 2, false);
  CHECK(layer.named_parameters().size() == 1);
  CHECK_FALSE(layer.bias.defined());
  CHECK(tt::sum(tt::abs(layer(tt::zeros({1, 4})))).item() == 0);
}
