#include <doctest/doctest.h>

#include <tinytorch/autograd/gradcheck.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

TEST_CASE("gradients of pooling") {
  tt::Generator generator(3);
  tt::Tensor x = tt::randn({2, 3, 7, 5}, tt::f64, tt::default_device(), generator).requires_grad_();
  const std::function<tt::Tensor(const tt::Tensors&)> functions[] = {
      [](const tt::Tensors& in) { return tt::max_pool2d(in[0]); },
      [](const tt::Tensors& in) { return tt::max_pool2d(in[0], {.kernel = 3, .stride = 1, .padding = 1}); },
      [](const tt::Tensors& in) { return tt::avg_pool2d(in[0], {.kernel = 3, .stride = 2, .padding = 1}); },
      [](const tt::Tensors& in) { return tt::avg_pool2d(in[0].transpose(2, 3)); },
      [](const tt::Tensors& in) {
        return tt::max_pool2d(in[0], {.kernel = {2, 3}, .stride = {1, 2}});
      },
      [](const tt::Tensors& in) {
        return tt::max_pool2d(in[0], {.kernel = 3, .stride = 2, .ceil_mode = true});
      },
      [](const tt::Tensors& in) {
        return tt::avg_pool2d(in[0], {.kernel = {4, 3}, .stride = 3, .padding = {2, 1}, .ceil_mode = true});
      },
      [](const tt::Tensors& in) { return tt::adaptive_avg_pool2d(in[0], 1, 1); },
      [](const tt::Tensors& in) { return tt::adaptive_avg_pool2d(in[0], 3, 2); }};
  for (const auto& f : functions) {
    const auto result = tt::gradcheck(f, {x});
    CHECK_MESSAGE(result.passed, result.message);
  }
}
