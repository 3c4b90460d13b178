#include <tinytorch/layers/embedding.hpp>

#include <doctest/doctest.h>

#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

TEST_CASE("rows are gathered, and the gradients of repeated tokens are summed") {
  tt::Embedding layer(4, 2);
  const auto w = layer.weight.to_vector();
  const tt::Tensor y = layer(tt::from_data({int64_t{3}, int64_t{0}, int64_t{3}, int64_t{3}}, {2, 2}));
  CHECK(y.shape() == tt::Shape{2, 2, 2});
  CHECK(y.to_vector() == std::vector<float>{w[6], w[7], w[0], w[1], w[6], w[7], w[6], w[7]});
  tt::sum(y).backward();
  CHECK(layer.weight.grad().to_vector() == std::vector<float>{1, 1, 0, 0, 0, 0, 3, 3});
}

TEST_CASE("the weight is initialized by a standard normal distribution") {
  tt::Generator g(1);
  tt::Embedding layer(500, 100, g);
  double sum = 0, squares = 0;
  for (double v : layer.weight.to_vector<double>()) sum += v, squares += v * v;
  CHECK(std::abs(sum / 50000) < 0.02);
  CHECK(squares / 50000 == doctest::Approx(1).epsilon(0.02));
}
