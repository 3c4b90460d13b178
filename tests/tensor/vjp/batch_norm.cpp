#include <doctest/doctest.h>

#include <support/gradients.hpp>

namespace tt = tinytorch;
using test::check_gradients;
using test::leaf;

TEST_CASE("gradients of batch_norm in training, also through the returned mean and variance") {
  for (const tt::Shape& shape : {tt::Shape{5, 3}, tt::Shape{2, 3, 4}, tt::Shape{2, 3, 2, 3}}) {
    const tt::Tensors inputs = {leaf(shape, 1), leaf({3}, 2), leaf({3}, 3)};
    check_gradients([](const tt::Tensors& in) { return tt::batch_norm_train(in[0], in[1], in[2])[0]; },
                    inputs);
    check_gradients(
        [](const tt::Tensors& in) {
          const tt::Tensors r = tt::batch_norm_train(in[0], in[1], in[2]);
          return tt::sum(r[0] * r[0]) + tt::sum(r[1] * r[1]) + tt::sum(r[2] * r[2]);
        },
        inputs);
  }
}

TEST_CASE("gradients of batch_norm with given statistics, for all five operands") {
  tt::Tensor var = (leaf({3}, 4).detach() * leaf({3}, 4).detach() + 0.5).detach().requires_grad_();
  check_gradients(
      [](const tt::Tensors& in) { return tt::batch_norm_infer(in[0], in[1], in[2], in[3], in[4]); },
      {leaf({2, 3, 5}, 1), leaf({3}, 2), var, leaf({3}, 5), leaf({3}, 6)});
}

TEST_CASE("gradients of group_norm") {
  for (int64_t groups : {1, 2, 4}) {
    check_gradients([&](const tt::Tensors& in) { return tt::group_norm(in[0], groups, in[1], in[2]); },
                    {leaf({2, 4, 3}, 1), leaf({4}, 2), leaf({4}, 3)});
    check_gradients([&](const tt::Tensors& in) { return tt::group_norm(in[0], groups); },
                    {leaf({3, 4, 2, 2}, 4)});
  }
  check_gradients([&](const tt::Tensors& in) { return tt::group_norm(in[0], 2, in[1]); },
                  {leaf({3, 6}, 5), leaf({6}, 6)});
}
