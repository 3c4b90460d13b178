#include <doctest/doctest.h>

#include <support/gradients.hpp>

namespace tt = tinytorch;
using namespace test;
using tt::Tensor;
using tt::Tensors;

TEST_CASE("gradients of the residual norms, through each result and through both") {
  const Tensor x = leaf({3, 7}, 1), r = leaf({3, 7}, 2), w = leaf({7}, 3), b = leaf({7}, 4);
  for (const double p : {0.0, 0.4}) {
    const auto layer = [p](const Tensors& in) {
      tt::Generator g(5);  // the same dropout mask at every evaluation
      return tt::residual_layer_norm(in[0], in[1], in[2], in[3], 1e-5, p, g);
    };
    check_gradients([&](const Tensors& in) { return layer(in).normalized; }, {x, r, w, b});
    check_gradients([&](const Tensors& in) { return layer(in).sum; }, {x, r, w, b});
    check_gradients(
        [&](const Tensors& in) {
          const auto [y, s] = layer(in);
          return y * s;
        },
        {x, r, w, b});
    check_gradients(
        [&](const Tensors& in) {
          tt::Generator g(5);
          const auto [y, s] = tt::residual_rms_norm(in[0], in[1], in[2], 1e-6, p, g);
          return y + tt::square(s);
        },
        {x, r, w});
  }
}
