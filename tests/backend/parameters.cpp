// Default values of kernel parameters.
#include <doctest/doctest.h>

#include <tinytorch/backend/functors.hpp>

using namespace tinytorch::backend;

TEST_CASE("default parameters have the usual values") {
  CHECK(CrossEntropyParameters{}.ignore_index == -100);
  CHECK(CrossEntropyParameters{}.label_smoothing == 0);
  CHECK(CrossEntropyParameters{}.reduction == LossReduction::mean);
  CHECK(AdamStep{}.beta1 == 0.9);
  CHECK(AdamStep{}.beta2 == 0.999);
  CHECK_FALSE(AdamStep{}.decoupled);
  CHECK(SgdStep{}.momentum == 0);
  CHECK(ResidualNorm{}.p == 0);
}

TEST_CASE("activation_fn and activation_grad_fn belong to the same activation") {
  CHECK(activation_fn(Activation::none) == UnaryFn::identity);
  CHECK(activation_fn(Activation::relu) == UnaryFn::relu);
  CHECK(activation_grad_fn(Activation::relu) == BinaryFn::relu_grad);
  CHECK(activation_fn(Activation::silu) == UnaryFn::silu);
  CHECK(activation_grad_fn(Activation::silu) == BinaryFn::silu_grad);
  CHECK(activation_fn(Activation::gelu) == UnaryFn::gelu);
  CHECK(activation_grad_fn(Activation::gelu) == BinaryFn::gelu_grad);
  CHECK(activation_fn(Activation::gelu_tanh) == UnaryFn::gelu_tanh);
  CHECK(activation_grad_fn(Activation::gelu_tanh) == BinaryFn::gelu_tanh_grad);
}
