// Derivatives of the shape family against central differences.
#include <support/cases/shape.hpp>
#include <support/check.hpp>

using namespace cases;

TEST_CASE("derivatives: shape") {
  for (const OpCase& c : shape_cases()) check_gradients(c);
}
