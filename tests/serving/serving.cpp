// The umbrella header of serving/ is enough to simulate a server.
#include <doctest/doctest.h>

#include <tinytorch/serving/serving.hpp>

TEST_CASE("with serving.hpp alone two requests are served by turns") {
  using namespace tinytorch::serving;
  const std::vector<Arrival> arrivals{{.request = {.id = 1, .prompt = 5, .most_new = 3}},
                                      {.request = {.id = 2, .prompt = 5, .most_new = 3}}};
  const SimulationReport r = simulate({}, arrivals);
  CHECK(r.steps == 3);
  CHECK(r.requests.at(1).written == 3);
  CHECK(r.requests.at(1).end == r.requests.at(2).end);
}
