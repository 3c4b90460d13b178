// The matmul family: every case in every dtype and layout.
#include <support/cases/matmul.hpp>
#include <support/check.hpp>

using namespace cases;

TEST_CASE("matmul ops match their oracles") {
  for (const OpCase& c : matmul_cases()) check_values(c);
}
TEST_CASE("linear ops match their oracles") {
  for (const OpCase& c : linear_cases()) check_values(c);
}
TEST_CASE("matmul ops report their FLOPs and bytes") {
  for (const OpCase& c : matmul_cases()) check_cost(c);
  for (const OpCase& c : linear_cases()) check_cost(c);
}
