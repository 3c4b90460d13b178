// attention_paged.cuh, attention_split.cuh and kv_append.cuh: attention to a cache.
#include <support/few.hpp>
#include <support/fresh.hpp>
#include <support/kv_scene.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

using OnDevice = KvKernels<DeviceArray, kernels::kv_append, kernels::attention_decode>;

TEST_CASE("attention to a cache equals the definition: every kind, dtype, grouping and length" *
          needs_devices()) {
  OnDevice::check_kinds(few_cases());
}

TEST_CASE("lengths at the borders of splits and pages; sequences without rows; windows" * needs_devices()) {
  OnDevice::check_borders(few_cases());
}

TEST_CASE("heads up to 256 features, in words and by element" * needs_devices()) {
  uint64_t seed = 40;
  for (const int64_t D : {16, 24, 100, 128, 160, 256, 255}) {
    if (test::left_out(3)) continue;
    for (const DType cached : {f32, bf16, i8}) {
      KvCase c{.kind = KvKind::paged, .dtype = cached, .past = {280}, .rows = {1}, .heads = 2, .groups = 2};
      c.head_size = D, c.seed = ++seed;
      OnDevice::check(c);
      c.groups = 1, c.rows = {3};
      OnDevice::check(c);
    }
  }
}

TEST_CASE("the bits of a result depend neither on pages, the batch nor the length of the step" *
          needs_devices()) {
  OnDevice::check_bits({16, 1000});
}

#else
TEST_CASE("without CUDA there are no kernels to test" * doctest::skip()) {}
#endif
