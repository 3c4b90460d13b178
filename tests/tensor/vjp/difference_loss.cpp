#include <tinytorch/tensor/vjp/difference_loss.hpp>

#include <doctest/doctest.h>

#include <support/gradients.hpp>
#include <tinytorch/autograd/grad.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using tt::Tensor, tt::Reduction;

TEST_CASE("gradients by x and by the target, for every reduction") {
  for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
    const tt::Tensors in{test::leaf({3, 5}, 1), test::leaf({3, 5}, 2)};
    test::check_gradients([&](const tt::Tensors& t) { return tt::l1_loss(t[0], t[1], reduction); }, in);
    test::check_gradients([&](const tt::Tensors& t) { return tt::huber_loss(t[0], t[1], 0.7, reduction); },
                          in);
    test::check_gradients(
        [&](const tt::Tensors& t) { return tt::smooth_l1_loss(t[0], t[1], 0.4, reduction); }, in);
  }
}

TEST_CASE("the second derivative of Huber's loss is 1 where it is quadratic, else 0") {
  Tensor x = tt::from_data({-3.0, -0.5, 0.25, 2.0}).to(tt::f64).requires_grad_();
  const Tensor loss = tt::huber_loss(x, tt::zeros({4}, tt::f64), 1, Reduction::sum);
  const Tensor g = tt::grad(loss, {x}, {.create_graph = true})[0];
  CHECK(g.detach().to_vector<double>() == std::vector<double>{-1, -0.5, 0.25, 1});
  CHECK(tt::grad(tt::sum(g), {x})[0].to_vector<double>() == std::vector<double>{0, 1, 1, 0});
}
