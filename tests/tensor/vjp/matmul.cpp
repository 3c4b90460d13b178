// Derivatives of the matmul family against central differences.
#include <support/cases/matmul.hpp>
#include <support/check.hpp>

using namespace cases;

TEST_CASE("derivatives: matmul") {
  for (const OpCase& c : matmul_cases()) check_gradients(c);
}
TEST_CASE("derivatives: linear") {
  for (const OpCase& c : linear_cases()) check_gradients(c);
}
