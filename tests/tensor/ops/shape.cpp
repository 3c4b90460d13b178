// The shape family: every case in every dtype and layout.
#include <support/cases/shape.hpp>
#include <support/check.hpp>

using namespace cases;

TEST_CASE("shape ops match their oracles") {
  for (const OpCase& c : shape_cases()) check_values(c);
}
TEST_CASE("shape ops report their FLOPs and bytes") {
  for (const OpCase& c : shape_cases()) check_cost(c);
}
