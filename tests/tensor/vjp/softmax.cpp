#include <doctest/doctest.h>

#include <tinytorch/autograd/gradcheck.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

TEST_CASE("gradients of softmax, log_softmax and logsumexp") {
  tt::Generator generator(3);
  tt::Tensor x = tt::randn({3, 5, 7}, tt::f64, tt::default_device(), generator).requires_grad_();
  const std::function<tt::Tensor(const tt::Tensors&)> functions[] = {
      [](const tt::Tensors& in) { return tt::softmax(in[0]); },
      [](const tt::Tensors& in) { return tt::softmax(in[0], 1); },
      [](const tt::Tensors& in) { return tt::log_softmax(in[0], 2); },
      [](const tt::Tensors& in) { return tt::log_softmax(in[0].transpose(0, 2), 0); },
      [](const tt::Tensors& in) { return tt::logsumexp(in[0]); },
      [](const tt::Tensors& in) {
        return tt::logsumexp(in[0], {0, 2}, true);
      }};
  for (const auto& f : functions) {
    const auto result = tt::gradcheck(f, {x});
    CHECK_MESSAGE(result.passed, result.message);
  }
  tt::Tensor wide = tt::randn({2, 41}, tt::f64, tt::default_device(), generator).requires_grad_();
  for (bool logarithm : {false, true}) {
    const auto result = tt::gradcheck(
        [&](const tt::Tensors& in) { return logarithm ? tt::log_softmax(in[0]) : tt::softmax(in[0]); },
        {wide});
    CHECK_MESSAGE(result.passed, result.message);
  }
}
