#include <tinytorch/backend/sample_weights.hpp>

#include <doctest/doctest.h>

namespace backend = tinytorch::backend;

TEST_CASE("a share of the weights is rounded up, and is at least 1 and at most all") {
  CHECK(backend::share_of_weights(0.5, 10) == 5);
  CHECK(backend::share_of_weights(0.51, 10) == 6);
  CHECK(backend::share_of_weights(1e-30, 10) == 1);
  CHECK(backend::share_of_weights(0.9999999999999999, uint64_t{1} << 62) <= uint64_t{1} << 62);
}

TEST_CASE("the drawn number is below the total") {
  CHECK(backend::drawn_weight(0, 10) == 0);
  CHECK(backend::drawn_weight(0.99, 10) == 9);
  CHECK(backend::drawn_weight(0x1.fffffffffffffp-1, 10) == 9);
}
