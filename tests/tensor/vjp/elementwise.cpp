// Derivatives of the elementwise ops against central differences.
#include <support/cases/elementwise.hpp>
#include <support/check.hpp>

using namespace cases;

TEST_CASE("derivatives of unary ops") {
  for (const OpCase& c : unary_cases()) check_gradients(c);
}
TEST_CASE("derivatives of binary ops") {
  for (const OpCase& c : binary_cases()) check_gradients(c);
}
TEST_CASE("derivatives of where and masked_fill") {
  for (const OpCase& c : choice_cases()) check_gradients(c);
}
