#include <tinytorch/backend/cpu/sample_rows.hpp>

#include <support/sampled_rows.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace test;

using OnCpu = SampledRows<Array, tinytorch::backend::cpu::sample_rows>;

TEST_CASE("tokens are those that the probabilities give, with every filter, dtype and size") {
  OnCpu::check_random(24);
}

TEST_CASE("each token is drawn as often as its probability says") { OnCpu::check_frequencies(); }

TEST_CASE("rows without a finite largest logit, and no rows") { OnCpu::check_rows_without_choice(); }
