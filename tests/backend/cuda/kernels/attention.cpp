// Attention, forward and backward: attention.cuh, attention_grad.cuh and their tensor-core kernels.
#include <cstdlib>
#include <support/attention_reference.hpp>
#include <support/few.hpp>
#include <support/fresh.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

namespace {

void check_on_device(const AttentionCase& c, uint64_t seed) {
  if (test::left_out(12)) return;
  check_attention<DeviceArray>(c, seed, c.dtype == bf16 || c.dtype == f16, kernels::attention,
                               kernels::attention_grad);
}

}  // namespace

TEST_CASE("attention and its gradients equal the definition" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  attention_cases(few_cases(), [&](const AttentionCase& c) { check_on_device(c, fresh.next()); });
}

// Several blocks of 128 rows and tiles of 64 columns; the rows end within a tile and at its end. The
// products use wgmma, then mma as on devices before Hopper.
TEST_CASE("attention on tensor cores equals the definition for long sequences, by wgmma and by mma" *
          needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const char* const warpgroups : {"1", "0"}) {
    setenv("TINYTORCH_CUDA_WARPGROUPS", warpgroups, 1);
    INFO("warpgroups ", warpgroups);
    for (const int64_t D : {24, 64, 128}) {
      check_on_device({{1, 2, 1, 130, 130, D}, bf16, Layout::dense, {.causal = true}}, fresh.next());
    }
    check_on_device({{1, 2, 2, 128, 192, 64}, f16}, fresh.next());
    check_on_device({{1, 1, 1, 257, 257, 64}, bf16, Layout::dense, {.causal = true, .window = 70}},
                    fresh.next());
    check_on_device({{1, 1, 1, 70, 200, 72}, f16, Layout::dense, {.window = 33}}, fresh.next());
    check_on_device({{1, 2, 1, 65, 140, 32},
                     bf16,
                     Layout::dense,
                     {.causal = true, .p = 0.2, .seed = 3, .first_block = 9}},
                    fresh.next());
    check_on_device({{1, 2, 1, 140, 65, 64}, bf16, Layout::dense, {.causal = true, .p = 0.5, .seed = 4}},
                    fresh.next());
    check_on_device({{3, 1, 1, 70, 150, 64}, bf16, Layout::dense, {}, {150, 65, 0}}, fresh.next());
    if (few_cases()) continue;
    check_on_device({{2, 4, 2, 1000, 1000, 64}, bf16, Layout::dense, {.causal = true}}, fresh.next());
    check_on_device({{1, 2, 2, 777, 1234, 128}, bf16}, fresh.next());
  }
  unsetenv("TINYTORCH_CUDA_WARPGROUPS");
}

TEST_CASE("attention without queries does nothing, and queries without visible keys give zeros" *
          needs_devices()) {
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

TEST_CASE("attention rejects heads of more than 256 features" * needs_devices()) {
  DeviceArray q(f32, {1, 1, 1, 257}), lse(f32, {1, 1, 1});
  CHECK_THROWS_WITH_AS(kernels::attention(q.view(), lse.view(), q.view(), q.view(), q.view(), {}),
                       doctest::Contains("longer than 256"), Error);
}

#else
TEST_CASE("without CUDA there are no kernels to test" * doctest::skip()) {}
#endif
