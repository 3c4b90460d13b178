// The index family: every case in every dtype and layout.
#include <support/cases/index.hpp>
#include <support/check.hpp>

using namespace cases;

TEST_CASE("index ops match their oracles") {
  for (const OpCase& c : index_cases()) check_values(c);
}
TEST_CASE("index ops report their FLOPs and bytes") {
  for (const OpCase& c : index_cases()) check_cost(c);
}
