// Forward and backward: kernels/attention.cuh and kernels/attention_grad.cuh.
#include <support/attention_reference.hpp>
#include <support/fresh.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

TEST_CASE("attention and its gradients equal the definition" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  attention_cases(kEmulated, [&](const AttentionCase& c) {
    check_attention<DeviceArray>(c, fresh.next(), c.dtype == bf16 || c.dtype == f16, kernels::attention,
                                 kernels::attention_grad);
  });
}

TEST_CASE("nothing in, nothing out; queries without keys give zeros" * needs_devices()) {
  Fresh fresh;
  DeviceArray q = fresh.array(f32, {1, 1, 6, 8}), k = fresh.array(f32, {1, 1, 2, 8}), out(f32, {1, 1, 6, 8}),
              lse(f32, {1, 1, 6}), none(f32, {1, 1, 0, 8}), no_lse(f32, {1, 1, 0});
  kernels::attention(none.view(), no_lse.view(), none.view(), k.view(), k.view(), {});
  kernels::attention(out.view(), lse.view(), q.view(), k.view(), k.view(), {.causal = true});
  const std::vector<double> y = out.values();
  for (size_t i = 0; i < 4 * 8; ++i) CHECK(y[i] == 0);
  kernels::attention(out.view(), lse.view(), q.view(), none.view(), none.view(), {});
  CHECK(out.values() == std::vector<double>(48, 0));
}

TEST_CASE("heads longer than the kernels hold are refused by name" * needs_devices()) {
  DeviceArray q(f32, {1, 1, 1, 257}), lse(f32, {1, 1, 1});
  CHECK_THROWS_WITH_AS(kernels::attention(q.view(), lse.view(), q.view(), q.view(), q.view(), {}),
                       doctest::Contains("longer than 256"), Error);
}

#else
TEST_CASE("without CUDA there are no kernels to test" * doctest::skip()) {}
#endif
