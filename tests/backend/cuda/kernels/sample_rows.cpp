#include <support/sampled_rows.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

using OnDevice = SampledRows<DeviceArray, kernels::sample_rows>;

TEST_CASE("tokens are those that the probabilities give, with every filter, dtype and size" *
          needs_devices()) {
  OnDevice::check_random(few_on_emulator() ? 4 : 24);
}

TEST_CASE("each token is drawn as often as its probability says" * needs_devices()) {
  OnDevice::check_frequencies();
}

TEST_CASE("rows without a finite largest logit, and no rows" * needs_devices()) {
  OnDevice::check_rows_without_choice();
}

TEST_CASE("all tokens of a large vocabulary are equal" * needs_devices()) {
  const int64_t V = 151936;
  const std::vector<double> logits(static_cast<size_t>(V), -2.5);
  for (const double u : {0.0, 0.37, 0.9999}) {
    OnDevice::check(bf16, V, logits, {{}}, {u});
    OnDevice::check(bf16, V, logits, {{.top_p = 0.3}}, {u});
    OnDevice::check(bf16, V, logits, {{.top_k = 5}}, {u});  // all tie with the fifth
  }
}

#else
TEST_CASE("without CUDA there are no kernels to test" * doctest::skip()) {}
#endif
