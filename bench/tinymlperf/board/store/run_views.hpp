// A stored run as its submission's page shows it: the view of one contender, of models or of kernels.
#pragma once

#include <string>
#include <tinymlperf/board/store/ranking.hpp>
#include <tinymlperf/support/machine_load.hpp>

namespace tinymlperf::board {

inline std::string measure_text(const std::string& scenario) {
  const judge::Measure m = judge::measure_of(judge::scenario_named(scenario));
  return std::string(m.name) + " (" + m.unit + ")";
}

namespace detail {

// The fields that runs of models and of kernels share.
template <class Document>
Run common_view(int64_t id, const Document& d, size_t place) {
  const auto& c = d.contenders[place];
  const judge::Measured what = judge::measured_by(d);
  Run r;
  r.id = id, r.benchmark = what.benchmark, r.scenario = what.scenario, r.run_class = d.run_class;
  r.hardware = d.hardware, r.date = d.date, r.seed = d.seed, r.out = c.out;
  r.baseline = d.contenders.front().name, r.peak_bytes = c.peak_bytes;
  r.load = other_load_text(d.machine);
  for (const judge::AuditResult& a : c.audits)
    r.audits.push_back({a.id, a.name, a.passed, a.detail, judge::was_made(a), judge::is_decided(a)});
  for (const Json* about : {&d.machine, &d.sandbox})
    for (const auto& [key, value] : about->items())
      r.system.emplace_back(key, value.is_string() ? value.template get<std::string>() : value.dump());
  return r;
}

inline std::optional<TokenTimes> token_times(const RunDocument& d, const ContenderRecord& c) {
  const auto to_first = judge::time_to_first_token(c);
  if (!to_first) return std::nullopt;
  return TokenTimes{*to_first, judge::value_of(d.scenario, c).value()};
}

inline Run view(int64_t id, const RunDocument& d, size_t place) {
  const ContenderRecord &c = d.contenders[place], &baseline = d.contenders.front();
  Run r = common_view(id, d, place);
  r.measure = measure_text(r.scenario);
  r.ratio = judge::times_the_baseline(d.scenario, c, baseline), r.quality = c.quality;
  r.turns = judge::values_of(d.scenario, c), r.baseline_turns = judge::values_of(d.scenario, baseline);
  r.tokens = token_times(d, c), r.baseline_tokens = token_times(d, baseline);
  return r;
}

inline Run view(int64_t id, const KernelRun& d, size_t place) {
  using namespace judge::kernels;
  const KernelContenderRecord &c = d.contenders[place], &baseline = d.contenders.front();
  Run r = common_view(id, d, place);
  r.measure = "times the baseline";
  r.ratio = score_of(c, baseline), r.quality = quality_of(c);
  r.kernels = kernel_count(c, baseline);
  for (size_t i = 0; i < c.ops.size(); ++i)
    r.ops.push_back({c.ops[i].op, c.ops[i].state, c.ops[i].reason,
                     times_the_baseline(c.ops[i], baseline.ops[i]),
                     times_the_baseline(c.ops[i], baseline.ops[i], "hidden")});
  return r;
}

}  // namespace detail

}  // namespace tinymlperf::board
