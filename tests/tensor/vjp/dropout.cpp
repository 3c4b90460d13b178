#include <doctest/doctest.h>

#include <tinytorch/autograd/gradcheck.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

TEST_CASE("the gradient of dropout uses the mask of the forward pass") {
  tt::Generator generator(3);
  tt::Tensor x = tt::randn({7, 11}, tt::f64, tt::default_device(), generator).requires_grad_();
  const auto result = tt::gradcheck(
      [](const tt::Tensors& in) {
        tt::Generator same(21);
        return tt::dropout(in[0], 0.4, same);
      },
      {x});
  CHECK_MESSAGE(result.passed, result.message);
  tt::Generator g(21);
  x.zero_grad();
  const tt::Tensor y = tt::dropout(x, 0.4, g);
  y.backward(tt::ones({7, 11}, tt::f64));
  const std::vector<double> out = y.to_vector<double>(), grad = x.grad().to_vector<double>();
  for (size_t i = 0; i < out.size(); ++i) CHECK((out[i] == 0) == (grad[i] == 0));
}
