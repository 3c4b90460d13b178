#include <cmath>
#include <support/fresh.hpp>
#include <tinytorch/backend/functors.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA
using tinytorch::backend::BinaryFn;

TEST_CASE("activation_grad computes dx = dy f'(v), also in place" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const DType t : kFloating) {
    DeviceArray dy = fresh.array(t, {7, 37}), v = fresh.array(t, {7, 37});
    std::vector<double> tanh_slopes = dy.values(), leaky = tanh_slopes;
    const std::vector<double> at = v.values();
    for (size_t i = 0; i < at.size(); ++i) {
      tanh_slopes[i] *= 1 - at[i] * at[i];
      leaky[i] *= at[i] < 0 ? 0.125 : 1;
    }
    DeviceArray dx(t, {7, 37});
    kernels::activation_grad(BinaryFn::tanh_grad, dx.view(), dy.view(), v.view());
    check_close(dx.values(), tanh_slopes, t, 8);
    kernels::activation_grad(BinaryFn::leaky_relu_grad, dy.view(), dy.view(), v.view(), 0.125);
    check_close(dy.values(), leaky, t, 8);
  }
}

#else
TEST_CASE("without CUDA there are no kernels to test" * doctest::skip()) {}
#endif
