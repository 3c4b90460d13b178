#include <doctest/doctest.h>

#include <support/gradients.hpp>

namespace tt = tinytorch;
using test::check_gradients;

TEST_CASE("gradients of layer_norm and rms_norm, with and without parameters") {
  tt::Generator generator(3);
  tt::Tensor x = tt::randn({2, 3, 7}, tt::f64, tt::default_device(), generator).requires_grad_();
  tt::Tensor w = tt::randn({7}, tt::f64, tt::default_device(), generator).requires_grad_();
  tt::Tensor b = tt::randn({7}, tt::f64, tt::default_device(), generator).requires_grad_();
  check_gradients([](const tt::Tensors& in) { return tt::layer_norm(in[0], in[1], in[2]); }, {x, w, b});
  check_gradients([](const tt::Tensors& in) { return tt::layer_norm(in[0]); }, {x});
  check_gradients([](const tt::Tensors& in) { return tt::layer_norm(in[0], {}, in[1]); }, {x, b});
  check_gradients([&](const tt::Tensors& in) { return tt::layer_norm(x.detach(), in[0], in[1]); }, {w, b});
  check_gradients([](const tt::Tensors& in) { return tt::rms_norm(in[0], in[1]); }, {x, w});
  check_gradients([](const tt::Tensors& in) { return tt::rms_norm(in[0]); }, {x});
}
