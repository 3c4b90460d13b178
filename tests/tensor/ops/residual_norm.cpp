// Fused operations equal their composition: the same values (rounded less often) and the same gradients.
#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <support/few.hpp>
#include <support/fused.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using namespace test;
using tt::Tensor;

TEST_CASE("residual norms equal dropout, sum and norm, and use the same number of random blocks") {
  for (const tt::DType t : {tt::f32, tt::f64, tt::bf16, tt::f16}) {
    for (const double p : {0.0, 0.3}) {
      const Tensor x = random({4, 3, 37}, t, 1), r = random({4, 3, 37}, t, 2), w = random({37}, t, 3),
                   b = random({37}, t, 4);
      tt::Generator one(9), two(9);
      const auto [y, s] = tt::residual_layer_norm(x, r, w, b, 1e-5, p, one);
      const Tensor sum = r + (p > 0 ? tt::dropout(x, p, two) : x);
      CHECK(one.state() == two.state());
      CHECK(distance(s, sum) <= tolerance(t));
      CHECK(distance(y, tt::layer_norm(s, w, b)) <= 2 * tolerance(t));
      const auto [z, q] = tt::residual_rms_norm(x, r, w, 1e-6, p, one);
      const Tensor again = r + (p > 0 ? tt::dropout(x, p, two) : x);
      CHECK(distance(q, again) <= tolerance(t));
      CHECK(distance(z, tt::rms_norm(q, w)) <= 2 * tolerance(t));
    }
  }
  CHECK(tt::residual_layer_norm(tt::zeros({0, 4}), tt::zeros({0, 4})).sum.shape() == tt::Shape{0, 4});
  expect_error("TT-SHAPE-02", "the same shape", [] {
    tt::residual_layer_norm(tt::ones({2, 3}), tt::ones({3}));
  });
  expect_error("TT-RANGE-02", "dropout", [] {
    tt::residual_rms_norm(tt::ones({2, 3}), tt::ones({2, 3}), {}, 1e-6, 1.5);
  });
}
