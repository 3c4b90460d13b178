#include <tinytorch/tensor/attention_options.hpp>

#include <doctest/doctest.h>

TEST_CASE("by default every query sees every key, at the usual scale, without dropout") {
  const tinytorch::AttentionOptions options;
  CHECK_FALSE(options.causal);
  CHECK(options.window == 0);
  CHECK(options.scale == 0);
  CHECK(options.dropout == 0);
}
