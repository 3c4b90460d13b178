// tensor/ops.hpp alone includes the definitions of every family.
#include <doctest/doctest.h>

#include <tinytorch/tensor/ops.hpp>

namespace tt = tinytorch;
using tt::Tensor;
using Values = std::vector<float>;

TEST_CASE("one call of each family") {
  const tt::Tensor x = tt::arange(0, 4, 1, tt::f32).reshape({2, 2});       // creation, shape
  CHECK(tt::sum(tt::square(x)).item() == 14);                              // elementwise, reduce
  CHECK(tt::matmul(x, x).to_vector() == std::vector<float>{2, 3, 6, 11});  // matmul
  CHECK(tt::flip(x, {0}).to_vector() == std::vector<float>{2, 3, 0, 1});   // index
}

TEST_CASE("default arguments have the documented meaning") {
  const Tensor x = tt::from_data({1.0f, -2.0f, 3.0f, -4.0f}, {2, 2});
  CHECK(tt::sum(x).shape() == tt::Shape{});
  CHECK(tt::arange(2, 5).dtype() == tt::i64);
  CHECK(tt::linspace(0, 1, 3).to_vector() == Values{0, 0.5, 1});
  CHECK(tt::leaky_relu(x).to_vector() == Values{1, -0.02f, 3, -0.04f});
  CHECK(tt::var(x, {1}).to_vector() == Values{4.5, 24.5});
  CHECK(tt::var(x, {1}, 0).to_vector() == Values{2.25, 12.25});
  CHECK(tt::flatten(x).shape() == tt::Shape{4});
  CHECK(tt::slice(x, 1, 1).to_vector() == Values{-2, -4});
  CHECK(tt::cat({x, x}).shape() == tt::Shape{4, 2});
  CHECK(tt::stack({x, x}).shape() == tt::Shape{2, 2, 2});
  CHECK(tt::split(x, 1).size() == 2);
  CHECK(tt::sort(x).values.to_vector() == Values{-2, 1, -4, 3});
  CHECK(tt::topk(x, 1).indices.to_vector<int>() == std::vector<int>{0, 0});
  CHECK(tt::tril(x).to_vector() == Values{1, 0, 3, -4});
  CHECK(tt::triu(x).to_vector() == Values{1, -2, 0, -4});
  CHECK(tt::pad(x, {{0, 0}, {1, 0}}).to_vector() == Values{0, 1, -2, 0, 3, -4});
}

TEST_CASE("functions and members of the same name agree") {
  const Tensor x = tt::arange(0, 24, 1, tt::f32).reshape({2, 3, 4});
  const auto same = [](const Tensor& a, const Tensor& b) {
    CHECK(a.shape() == b.shape());
    CHECK(a.to_vector() == b.to_vector());
  };
  same(tt::reshape(x, {4, 6}), x.reshape({4, 6}));
  same(tt::flatten(x, 1, 2), x.flatten(1, 2));
  same(tt::transpose(x, 0, 2), x.transpose(0, 2));
  same(tt::transpose(x, -1, -2), x.t());
  same(tt::permute(x, {1, 2, 0}), x.permute({1, 2, 0}));
  same(tt::expand(x, {5, -1, -1, -1}), x.expand({5, -1, -1, -1}));
  same(tt::unsqueeze(x, 1), x.unsqueeze(1));
  same(tt::squeeze(x.unsqueeze(1), 1), x);
  same(tt::slice(x, 2, 0, 4, 2), x.slice(2, 0, 4, 2));
  same(tt::select(x, 1, -1), x.select(1, -1));
  same(x.select(0, 1), x[1]);
  same(tt::mean(x, {0}), x.mean({0}));
  same(tt::argmax(x, 1, true), x.argmax(1, true));
}

TEST_CASE("zeros_like and ones_like take shape and dtype") {
  const Tensor x = tt::empty({2, 3}, tt::f16);
  CHECK(tt::zeros_like(x).dtype() == tt::f16);
  CHECK(tt::ones_like(x).shape() == tt::Shape{2, 3});
  CHECK(tt::sum(tt::ones_like(x)).item() == 6);
}
