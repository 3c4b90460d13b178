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
TEST_CASE("the stated derivatives of unary functions equal central differences of their stated values") {
  constexpr double h = 1e-6;
  for (const OpCase& c : unary_cases()) {
    if (!c.slope) continue;
    for (double x = c.operands[0].low + 0.013; x < c.operands[0].high; x += 0.217) {
      INFO(c.text, " at ", x);
      const double got = c.slope(c.slope_of_result ? c.unary(x) : x);
      CHECK(got == doctest::Approx((c.unary(x + h) - c.unary(x - h)) / (2 * h)).epsilon(1e-6));
    }
  }
}
