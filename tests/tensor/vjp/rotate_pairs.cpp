#include <tinytorch/tensor/vjp/rotate_pairs.hpp>

#include <doctest/doctest.h>

#include <support/gradients.hpp>
#include <tinytorch/autograd/grad.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using tt::Tensor;

TEST_CASE("gradients of a rotation, by a first position and by the position of each token, also of a part") {
  const Tensor angle = test::leaf({9, 3}, 1).detach().to(tt::f32), cos = tt::cos(angle), sin = tt::sin(angle);
  const Tensor places = tt::from_data(std::vector<int64_t>{8, 0, 5});
  for (const int64_t D : {6, 9}) {
    for (const bool each : {false, true}) {
      test::check_gradients(
          [&](const tt::Tensors& in) {
            tt::RotationTables tables{.cos = cos, .sin = sin, .first = 4};
            if (each) tables.positions = places;
            return tt::rotate_pairs(in[0], tables);
          },
          {test::leaf({2, 2, 3, D}, 2)});
    }
  }
}

TEST_CASE("the gradient keeps no vector of the forward pass, and can be differentiated again") {
  const Tensor angle = tt::ones({3, 2}), cos = tt::cos(angle), sin = tt::sin(angle);
  Tensor x = test::leaf({1, 1, 3, 4}, 3);
  const Tensor y = tt::rotate_pairs(x, {.cos = cos, .sin = sin});
  const Tensor g = tt::grad(tt::sum(tt::square(y)), {x}, {.create_graph = true})[0];
  CHECK(tt::allclose(g, 2 * x.detach(), 1e-6, 1e-6));  // a rotation keeps lengths
  const Tensor second = tt::grad(tt::sum(tt::square(g)), {x})[0];
  CHECK(tt::allclose(second, 8 * x.detach(), 1e-6, 1e-6));
  CHECK_FALSE(cos.requires_grad());
}
