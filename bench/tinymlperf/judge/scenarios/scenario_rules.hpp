// The rules that say which scenarios a benchmark and a division have.
#pragma once

#include <string>
#include <tinymlperf/benchmarks/benchmark.hpp>
#include <tinymlperf/judge/scenarios/scenario.hpp>

namespace tinymlperf {

// Why entries of the division cannot be asked in the scenario; empty: they can. The closed division compares
// what is computed for each query, so nothing may be kept between queries.
inline std::string scenario_complaint(judge::Scenario s, const judge::Benchmark& benchmark,
                                      const std::string& division) {
  if (judge::generates(s) && !benchmark.generation()) return benchmark.id() + " generates nothing; lm does";
  if (s == judge::Scenario::shared_prefix && division == "closed")
    return "it is for the division open, since entries keep what they computed for other prompts";
  return "";
}

}  // namespace tinymlperf
