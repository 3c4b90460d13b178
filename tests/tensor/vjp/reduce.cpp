// Derivatives of the reduce family against central differences.
#include <support/cases/reduce.hpp>
#include <support/check.hpp>

using namespace cases;

TEST_CASE("derivatives: reduce") {
  for (const OpCase& c : reduce_cases()) check_gradients(c);
}
TEST_CASE("derivatives: cumsum") {
  for (const OpCase& c : cumsum_cases()) check_gradients(c);
}
