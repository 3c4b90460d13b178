// Elementwise ops: every case in every dtype and layout, then what cases cannot say: special values, accuracy
// over whole ranges, wrap-around, casts, in-place writes.
#include <support/cases/elementwise.hpp>
#include <support/check.hpp>

using namespace cases;

TEST_CASE("unary ops match their oracles") {
  for (const OpCase& c : unary_cases()) check_values(c);
}
TEST_CASE("binary ops match their oracles") {
  for (const OpCase& c : binary_cases()) check_values(c);
}
TEST_CASE("where and masked_fill match their oracles") {
  for (const OpCase& c : choice_cases()) check_values(c);
}
TEST_CASE("elementwise ops report their FLOPs and bytes") {
  for (const OpCase& c : elementwise_cases()) check_cost(c);
}
