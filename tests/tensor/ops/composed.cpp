// Functions composed of other operations, against definitions that read one element at a time.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <support/errors.hpp>
#include <tinytorch/autograd/gradcheck.hpp>
#include <tinytorch/tensor/ops/composed.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using tt::Shape;
using tt::Tensor;
using tt::Tensors;
using Values = std::vector<float>;
using Integers = std::vector<int64_t>;

namespace {

Tensor random(const Shape& shape, uint64_t seed) {
  tt::Generator g(seed);
  return tt::randn(shape, tt::f64, tt::default_device(), g);
}

bool gradients_are_right(const std::function<Tensor(const Tensors&)>& f, Tensors at) {
  for (Tensor& t : at) t.requires_grad_();
  const auto result = tt::gradcheck(f, at);
  INFO(result.message);
  return result.passed;
}

}  // namespace

TEST_CASE("isnan, isinf and isfinite for every floating dtype, and for integers") {
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor x = tt::from_data({0.0f, -3.5f, infinity, -infinity, std::nanf("")});
  for (const tt::DType t : {tt::f32, tt::f64, tt::f16, tt::bf16}) {
    CHECK(tt::isnan(x.to(t)).to_vector() == Values{0, 0, 0, 0, 1});
    CHECK(tt::isinf(x.to(t)).to_vector() == Values{0, 0, 1, 1, 0});
    CHECK(tt::isfinite(x.to(t)).to_vector() == Values{1, 1, 0, 0, 0});
  }
  CHECK(tt::isfinite(tt::arange(2)).to_vector() == Values{1, 1});
  CHECK(tt::isinf(tt::arange(2)).to_vector() == Values{0, 0});
  CHECK(tt::isnan(tt::zeros({0, 2})).shape() == Shape{0, 2});
  CHECK(tt::isnan(tt::zeros({2}).requires_grad_()).dtype() == tt::boolean);
}

TEST_CASE("outer") {
  const Tensor a = tt::from_data({1.0f, 2.0f}), b = tt::from_data({3.0f, 4.0f, 5.0f});
  CHECK(tt::outer(a, b).to_vector() == Values{3, 4, 5, 6, 8, 10});
  CHECK(tt::outer(tt::zeros({0}), b).shape() == Shape{0, 3});
  test::expect_error("TT-SHAPE-04", "outer", [&] { tt::outer(tt::zeros({2, 2}), b); });
  CHECK(gradients_are_right([](const Tensors& in) { return tt::outer(in[0], in[1]); },
                            {random({3}, 1), random({2}, 2)}));
}

TEST_CASE("one_hot") {
  const Tensor index = tt::from_data<int64_t>({2, 0, 1, 2}, {2, 2});
  CHECK(tt::one_hot(index).to_vector<int64_t>() == Integers{0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 1});
  CHECK(tt::one_hot(index, 5).shape() == Shape{2, 2, 5});
  CHECK(tt::one_hot(tt::zeros({0}, tt::i64), 3).shape() == Shape{0, 3});
  CHECK(tt::one_hot(tt::full({}, 1, tt::i64)).to_vector<int64_t>() == Integers{0, 1});
  test::expect_error("TT-RANGE-05", "one_hot", [&] { tt::one_hot(index, 2); });
  test::expect_error("TT-RANGE-03", "one_hot", [&] { tt::one_hot(tt::zeros({0}, tt::i64)); });
  test::expect_error("TT-DTYPE-04", "one_hot", [&] { tt::one_hot(tt::zeros({2})); });
}

TEST_CASE("repeat and roll") {
  const Tensor x = tt::arange(6).reshape({2, 3});
  CHECK(tt::repeat(x, {1, 2}).to_vector<int64_t>() == Integers{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5});
  CHECK(tt::repeat(x, {2, 3, 1}).shape() == Shape{2, 6, 3});
  CHECK(tt::repeat(x, {2, 0}).shape() == Shape{4, 0});
  CHECK(tt::repeat(x, {1, 1}).storage() != x.storage());
  CHECK(tt::repeat(x.t(), {1, 2}).to_vector<int64_t>() == Integers{0, 3, 0, 3, 1, 4, 1, 4, 2, 5, 2, 5});
  test::expect_error("TT-SHAPE-12", "repeat", [&] { tt::repeat(x, {2}); });
  CHECK(tt::roll(x, 1).to_vector<int64_t>() == Integers{5, 0, 1, 2, 3, 4});
  CHECK(tt::roll(x, -1, 1).to_vector<int64_t>() == Integers{1, 2, 0, 4, 5, 3});
  CHECK(tt::roll(x, {1, 4}, {0, -1}).to_vector<int64_t>() == Integers{5, 3, 4, 2, 0, 1});
  CHECK(tt::roll(x, 3, 1).storage() != x.storage());
  CHECK(tt::roll(tt::zeros({0, 2}), 1, 0).shape() == Shape{0, 2});
  test::expect_error("TT-SHAPE-12", "roll", [&] { tt::roll(x, {1, 2}, 0); });
  CHECK(gradients_are_right(
      [](const Tensors& in) {
        return tt::repeat(in[0], {2, 1, 2}) * tt::roll(tt::repeat(in[0], {2, 1, 2}), 1);
      },
      {random({2, 3}, 3)}));
}
