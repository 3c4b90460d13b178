#include <doctest/doctest.h>

#include <tinytorch/autograd/gradcheck.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using tt::Activation;
using tt::Tensor;
using tt::Tensors;

namespace {

Tensor leaf(const tt::Shape& shape, uint64_t seed) {
  tt::Generator g(seed);
  return tt::randn(shape, tt::f64, tt::default_device(), g).requires_grad_();
}
void check(const std::function<Tensor(const Tensors&)>& f, const Tensors& inputs) {
  const auto result = tt::gradcheck(f, inputs);
  CHECK_MESSAGE(result.passed, result.message);
}

}  // namespace

TEST_CASE("gradients of bias_activation and linear_activation") {
  const Tensor x = leaf({3, 2, 5}, 1), b = leaf({5}, 2), w = leaf({4, 5}, 3), c = leaf({4}, 4);
  for (const Activation fn :
       {Activation::none, Activation::relu, Activation::silu, Activation::gelu, Activation::gelu_tanh}) {
    check([fn](const Tensors& in) { return tt::bias_activation(in[0], in[1], fn); }, {x, b});
    check([&](const Tensors& in) { return tt::bias_activation(x.detach(), in[0], fn); }, {b});
    check([fn](const Tensors& in) { return tt::linear_activation(in[0], in[1], in[2], fn); }, {x, w, c});
    check([fn](const Tensors& in) { return tt::linear_activation(in[0], in[1], {}, fn); }, {x, w});
  }
}

TEST_CASE("gradients of the residual norms, through either result and both") {
  const Tensor x = leaf({3, 7}, 1), r = leaf({3, 7}, 2), w = leaf({7}, 3), b = leaf({7}, 4);
  for (const double p : {0.0, 0.4}) {
    const auto layer = [p](const Tensors& in) {
      tt::Generator g(5);  // the same mask at every evaluation
      return tt::residual_layer_norm(in[0], in[1], in[2], in[3], 1e-5, p, g);
    };
    check([&](const Tensors& in) { return layer(in).normalized; }, {x, r, w, b});
    check([&](const Tensors& in) { return layer(in).sum; }, {x, r, w, b});
    check(
        [&](const Tensors& in) {
          const auto [y, s] = layer(in);
          return y * s;
        },
        {x, r, w, b});
    check(
        [&](const Tensors& in) {
          tt::Generator g(5);
          const auto [y, s] = tt::residual_rms_norm(in[0], in[1], in[2], 1e-6, p, g);
          return y + tt::square(s);
        },
        {x, r, w});
  }
}
