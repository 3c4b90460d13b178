#include <doctest/doctest.h>

#include <support/gradients.hpp>

namespace tt = tinytorch;
using namespace test;
using tt::Activation;
using tt::Tensor;
using tt::Tensors;

TEST_CASE("gradients of bias_activation") {
  const Tensor x = leaf({3, 2, 5}, 1), b = leaf({5}, 2);
  for (const Activation fn :
       {Activation::none, Activation::relu, Activation::silu, Activation::gelu, Activation::gelu_tanh}) {
    check_gradients([fn](const Tensors& in) { return tt::bias_activation(in[0], in[1], fn); }, {x, b});
    check_gradients([&](const Tensors& in) { return tt::bias_activation(x.detach(), in[0], fn); }, {b});
  }
}
