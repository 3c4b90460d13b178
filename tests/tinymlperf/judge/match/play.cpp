// The budget of a match, which is said before it is played.
#include <doctest/doctest.h>

#include <tinymlperf/judge/match/play.hpp>

using namespace tinymlperf;

TEST_CASE("the budget of a match is known before it: for each entry, and in all") {
  RunOptions o;
  o.entries = {"/usr", "/bin", "/lib"}, o.scenario = "offline", o.run_class = "ranked";
  CHECK(budget_text(o).find("30 min of running time for each entry, 90 min in all") != std::string::npos);
  o.run_class = "smoke", o.benchmark = kKernelBenchmark;
  CHECK(budget_text(o).find("15 min of running time for each entry, 45 min in all") != std::string::npos);
  o.benchmark = "ttq-dig", o.scenario.clear();  // the reference has twice as many runs
  const judge::TrainingClass& c = judge::training_class_named("smoke");
  const double each = static_cast<double>(c.runs) * (60 + c.seconds) / 60;
  CHECK(budget_text(o).find(fmt::format("{:.3g} min of running time for each entry, {:.3g} min in all", each,
                                        4 * each)) != std::string::npos);
  o.run_class = "none";
  CHECK_THROWS_AS(budget_text(o), std::invalid_argument);
}
