// Derivatives of the index family against central differences.
#include <support/cases/index.hpp>
#include <support/check.hpp>

using namespace cases;

TEST_CASE("derivatives: index") {
  for (const OpCase& c : index_cases()) check_gradients(c);
}
