// Fused operations equal their composition: the same values (rounded less often) and the same gradients.
#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <support/few.hpp>
#include <support/fused.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using namespace test;
using tt::Activation;
using tt::Tensor;

TEST_CASE("bias_activation equals its composition" * test::long_on_emulator()) {
  for (const tt::DType t : {tt::f32, tt::f64, tt::bf16, tt::f16}) {
    for (const int64_t n : {0, 1, 5, 33}) {
      for (const Activation fn : kActivations) {
        const Tensor x = random({3, n, 7}, t, 1), b = random({7}, t, 2);
        CHECK(distance(tt::bias_activation(x, b, fn), test::activated(x + b, fn)) <= tolerance(t));
        const Tensor strided = random({n, 3, 7}, t, 1).transpose(0, 1);
        CHECK(distance(tt::bias_activation(strided, b, fn), test::activated(strided + b, fn)) <=
              tolerance(t));
      }
    }
  }
  expect_error("TT-SHAPE-02", "bias_activation", [] {
    tt::bias_activation(tt::ones({2, 3}), tt::ones({2}), Activation::relu);
  });
}
