// The reduce family: every case in every dtype and layout.
#include <support/cases/reduce.hpp>
#include <support/check.hpp>

using namespace cases;

TEST_CASE("reduce ops match their oracles") {
  for (const OpCase& c : reduce_cases()) check_values(c);
}
TEST_CASE("arg ops match their oracles") {
  for (const OpCase& c : arg_cases()) check_values(c);
}
TEST_CASE("cumsum ops match their oracles") {
  for (const OpCase& c : cumsum_cases()) check_values(c);
}
TEST_CASE("reduce ops report their FLOPs and bytes") {
  for (const OpCase& c : reduce_cases()) check_cost(c);
  for (const OpCase& c : arg_cases()) check_cost(c);
  for (const OpCase& c : cumsum_cases()) check_cost(c);
}
