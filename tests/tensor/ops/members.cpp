// Members of Tensor equal the functions of the same name, and maintain the autograd state.
#include <doctest/doctest.h>

#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using tt::Tensor;
using Values = std::vector<float>;

TEST_CASE("members: conversions and copies") {
  Tensor x = tt::from_data({1.5f, -2.5f});
  CHECK(x.to(tt::i32).to_vector<int>() == std::vector<int>{1, -2});
  CHECK(x.to(tt::f32).impl() == x.impl());
  CHECK(x.to(x.device()).impl() == x.impl());
  const Tensor c = x.clone();
  CHECK(c.storage() != x.storage());
  CHECK(c.to_vector() == x.to_vector());
  CHECK(x.contiguous().impl() == x.impl());
  const Tensor m = tt::arange(0, 6, 1, tt::f32).reshape({2, 3}).t();
  CHECK_FALSE(m.is_contiguous());
  CHECK(m.contiguous().is_contiguous());
  CHECK(m.contiguous().to_vector() == m.to_vector());
}

TEST_CASE("members: reductions") {
  const Tensor x = tt::arange(0, 6, 1, tt::f32).reshape({2, 3});
  CHECK(x.sum().item() == 15);
  CHECK(x.sum({0}).to_vector() == Values{3, 5, 7});
  CHECK(x.mean({1}, true).shape() == tt::Shape{2, 1});
  CHECK(x.mean({1}).to_vector() == Values{1, 4});
  CHECK(x.argmax(1).to_vector<int>() == std::vector<int>{2, 2});
}

TEST_CASE("members: grad, set_grad, zero_grad, is_leaf") {
  Tensor x = tt::ones({2});
  CHECK(x.is_leaf());
  CHECK_FALSE(x.requires_grad());
  CHECK_FALSE(x.grad().defined());
  x.zero_grad();
  x.requires_grad_();
  CHECK(x.requires_grad());
  x.set_grad(tt::full({2}, 3));
  CHECK(x.grad().to_vector() == Values{3, 3});
  (x * 2).sum().backward();
  CHECK(x.grad().to_vector() == Values{5, 5});
  x.zero_grad();
  CHECK_FALSE(x.grad().defined());
  CHECK_FALSE((x * 2).is_leaf());
  CHECK(x.detach().is_leaf());
}

TEST_CASE("in-place writes change the values and the version, also through views") {
  Tensor x = tt::zeros({2, 3});
  const auto version = x.storage()->version();
  x.fill_(2);
  x.slice(1, 0, 1).mul_(5);
  x[1].add_(tt::from_data({1.0f, 2.0f, 3.0f}), 10);
  CHECK(x.to_vector() == Values{10, 2, 2, 20, 22, 32});
  CHECK(x.storage()->version() == version + 3);
  x.t().copy_(tt::from_data({1.0f, 2.0f}));  // broadcasts
  CHECK(x.to_vector() == Values{1, 1, 1, 2, 2, 2});
  x.zero_();
  CHECK(x.to_vector() == Values{0, 0, 0, 0, 0, 0});
}

TEST_CASE("in-place writes whose source overlaps use the old values") {
  Tensor x = tt::arange(0, 9, 1, tt::f32).reshape({3, 3});
  x.add_(x.t());
  CHECK(x.to_vector() == Values{0, 4, 8, 4, 8, 12, 8, 12, 16});
  Tensor y = tt::arange(0, 5, 1, tt::f32);
  y.slice(0, 1).copy_(y.slice(0, 0, 4));
  CHECK(y.to_vector() == Values{0, 0, 1, 2, 3});
  y.add_(y);
  CHECK(y.to_vector() == Values{0, 0, 2, 4, 6});
  y.copy_(y);
  CHECK(y.to_vector() == Values{0, 0, 2, 4, 6});
}
