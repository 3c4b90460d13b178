// A match between models: each entry answers questions in a sandboxed process, on a hidden set drawn now.
//
// The first entry is the baseline.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <tinymlperf/judge/match/match.hpp>
#include <tinymlperf/judge/match/peak_memory.hpp>
#include <tinymlperf/judge/match/replay.hpp>
#include <tinymlperf/judge/match/run_setup.hpp>
#include <tinymlperf/judge/scenarios/scenario_rules.hpp>
#include <vector>

namespace tinymlperf {

namespace detail {

inline const judge::RunClass& run_class_named(const std::string& name) {
  for (const judge::RunClass* c :
       {&judge::kQuick, &judge::kRace, &judge::kSmoke, &judge::kRanked, &judge::kOfficial})
    if (name == c->name) return *c;
  throw std::invalid_argument(
      "--class " + name + ": there are smoke, ranked and official, and quick and race, which `race` plays");
}

// Measures the peak memory of an entry of data by the allocator of the program that answers for it. For a
// plugin the sandbox has reported it already.
inline void measure_memory(judge::ContenderRecord& record, const judge::Stage* stage,
                           const judge::Benchmark& benchmark) {
  if (!record.out.empty() || (record.tier != "T0" && record.worker.empty())) return;
  try {
    record.peak_bytes = judge::peak_bytes_of(*stage, benchmark);
  } catch (const std::exception& e) {  // any error: the match was played and must not be lost
    record.out = std::string("after its match, when its memory was measured: ") + e.what();
  }
}

// Weights take part only if they are those that the division allows (replay.hpp). In the closed division the
// first entry is the one whose weights they are.
inline void audit_weights(judge::ContenderRecord& record, const judge::Stage& stage,
                          const std::filesystem::path& entry, const RunOptions& o, bool by_judge) {
  if (!by_judge) return;
  const std::filesystem::path& from = o.baseline.empty() ? o.entries.front() : o.baseline;
  const auto audit = judge::weights_audit(stage, entry, from, o.division == "closed");
  if (!audit) return;
  record.audits.push_back(*audit);
  const judge::AuditResult& a = record.audits.back();
  if (!a.passed) record.out = "audit " + a.id + ", " + a.name + ": " + a.detail;
}

// Starts the first process of a contender. A contender that cannot be started is out; the others play.
inline void start_first(judge::Contender& c) {
  try {
    c.session = c.start();
  } catch (const sandbox::Unavailable&) {
    throw;  // this machine has no sandbox
  } catch (const std::exception& e) {
    c.record.out = e.what();
  }
}

}  // namespace detail

// `o` must be resolved().
inline judge::RunDocument play_models(const RunOptions& o) {
  using namespace detail;
  const judge::Scenario scenario = judge::scenario_named(o.scenario);
  const judge::RunClass& run_class = run_class_named(o.run_class);
  std::optional<UserText> text;
  if (!o.text.empty()) text = read_user_text(o.text);
  const auto make = [&]() -> std::unique_ptr<judge::Benchmark> {
    if (text) return std::make_unique<judge::LanguageBenchmark>(*text);
    return judge::make_benchmark(o.benchmark);
  };
  const auto benchmark = make();
  if (const std::string wrong = scenario_complaint(scenario, *benchmark, o.division); !wrong.empty())
    throw std::invalid_argument("--scenario " + o.scenario + ": " + wrong);
  const sandbox::Offers offers = sandbox_of_machine(o.real_time);
  const uint64_t seed = seed_of(o);
  const int64_t hidden = o.hidden.value_or(run_class.hidden);
  benchmark->draw(hidden, seed);
  const auto fresh = make();
  const tt::PhiloxBlock other = tt::philox(seed, 1);
  fresh->draw(hidden, (uint64_t{other.v[0]} << 32) | other.v[1]);
  std::vector<std::unique_ptr<judge::Stage>> stages;
  std::vector<judge::Contender> contenders;
  for_each_entry(o, [&](const auto& entry, const auto& worker) {
    judge::Contender& c = contenders.emplace_back();
    stages.push_back(admit(c.record, entry, o.benchmark, offers, worker));
    if (!stages.back()) return;
    audit_weights(c.record, *stages.back(), entry, o, worker.empty());
    if (!c.record.out.empty()) return;
    c.start = [stage = stages.back().get()] { return stage->start(); };
    start_first(c);
  });
  judge::Match({*benchmark, *fresh}, scenario, run_class, seed, peaks_of_machine(), o.watcher)(contenders);
  for (size_t i = 0; i < contenders.size(); ++i)
    measure_memory(contenders[i].record, stages[i].get(), *benchmark);
  judge::RunDocument d = document_of(o, *benchmark, offers, seed);
  if (text) d.text = {{"file", text->name}, {"bytes", text->bytes()}, {"held_out", text->held_out.size()}};
  for (judge::Contender& c : contenders) d.contenders.push_back(std::move(c.record));
  return d;
}

}  // namespace tinymlperf
