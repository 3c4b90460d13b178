// The umbrella header of benchmarking/ is enough to summarize samples.
#include <doctest/doctest.h>

#include <tinytorch/benchmarking/benchmarking.hpp>

TEST_CASE("with benchmarking.hpp alone a median is computed") {
  CHECK(tinytorch::statistics::median(std::vector{3.0, 1.0, 2.0}) == 2);
}
