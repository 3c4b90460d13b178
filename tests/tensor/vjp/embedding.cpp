#include <doctest/doctest.h>

#include <tinytorch/autograd/gradcheck.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

TEST_CASE("gradient of embedding, with rows selected twice and rows never selected") {
  tt::Generator generator(3);
  tt::Tensor table = tt::randn({6, 5}, tt::f64, tt::default_device(), generator).requires_grad_();
  const tt::Tensor index = tt::from_data<int64_t>({5, 1, 1, 0, 5, 1}, {2, 3});
  const auto result =
      tt::gradcheck([&](const tt::Tensors& in) { return tt::embedding(in[0], index); }, {table});
  CHECK_MESSAGE(result.passed, result.message);
}
