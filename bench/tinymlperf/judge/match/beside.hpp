// Batch invariance (audit A15): the answer of a server to a query does not depend on the queries beside it.
//
// A server may answer several waiting queries together. Answers that it gave while other queries were open
// are kept, some of them at random, and after the match a fresh process is asked the same questions one by
// one. It has seen no load, so it cannot repeat what a busy process answered more cheaply.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <tinymlperf/benchmarks/benchmark.hpp>
#include <tinymlperf/judge/match/text_checks.hpp>
#include <tinymlperf/judge/results/run_document.hpp>
#include <tinymlperf/judge/scenarios/scenario.hpp>
#include <vector>

namespace tinymlperf::judge {

// Returns true for each query of a run beside which another one was open before it was answered. Queries are
// in the order in which they were asked.
inline std::vector<bool> asked_beside_others(const std::vector<QueryRecord>& queries) {
  std::vector<bool> out(queries.size());
  double answered = 0;  // when all earlier queries were
  for (size_t q = 0; q < queries.size(); ++q) {
    if (q > 0 && answered > queries[q].asked) out[q] = true;
    if (q + 1 < queries.size() && queries[q + 1].asked < queries[q].answered) out[q] = true;
    answered = std::max(answered, queries[q].answered);
  }
  return out;
}

inline constexpr size_t kAnswersBeside = 256;  // of a contender

struct AnswerBeside {
  int64_t sample;
  Answer answer;
};

// Asks each kept question alone. Throws std::runtime_error if an answer does not agree with the kept one, and
// records the failed audit.
inline void check_alone(channel::Session& session, const Benchmark& set, std::span<const AnswerBeside> kept,
                        double patience, ContenderRecord& record) {
  for (size_t id = 0; id < kept.size(); ++id) {
    const std::vector<int64_t> one{kept[id].sample};
    if (set.agrees(kept[id].answer, answer_of(session, id, set, set.inputs(one), patience))) continue;
    const std::string what =
        "sample " + std::to_string(one[0]) + " was answered differently beside other queries";
    record.audits.push_back({"A15", "batch invariance", false, what});
    throw std::runtime_error("audit A15, batch invariance: " + what);
  }
  record.evidence.beside = std::ssize(kept);
}

}  // namespace tinymlperf::judge
