// The Pareto front of a table: the entries that no other entry beats in quality, time and memory together,
// and its hypervolume.
//
//   quality  its estimate
//   time     in one scenario, relative to the baseline's in the same match: drift of the machine affects both
//   memory   the peak of a run if it is known for all ranked entries, relative likewise; else the bytes of
//            the model; else none
//
// The hypervolume is the volume between front and reference point (benchmarking/ranking.hpp). Time and memory
// are on a logarithmic scale: each halving counts the same.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <tinymlperf/board/store/views.hpp>
#include <tinytorch/benchmarking/ranking.hpp>
#include <vector>

namespace tinymlperf::board {

constexpr double kReferenceTimes = 4;  // times the baseline's time and memory

inline const char* name_of(Memory m) {
  return m == Memory::peak ? "peak" : m == Memory::model ? "model" : "unknown";
}
inline int64_t bytes_of(const Row& r, Memory m) {
  return m == Memory::peak ? r.peak_bytes : m == Memory::model ? r.model_bytes : 0;
}

inline const Cell* cell_of(const Row& row, const std::string& scenario) {
  for (const Cell& c : row.cells)
    if (c.scenario == scenario) return &c;
  return nullptr;
}

// The first scenario that measures a latency, otherwise the first. The table has at least one.
inline const std::pair<std::string, std::string>& timed_scenario(const Table& t) {
  for (const auto& s : t.scenarios)
    if (s.second.find("latency") != std::string::npos) return s;
  return t.scenarios.front();
}

// Returns the time as a share of the baseline's; nullopt if the entry was not compared with the baseline.
inline std::optional<double> time_share(const Row& r, const std::string& scenario) {
  const Cell* c = cell_of(r, scenario);
  if (!c || !c->ratio || !(c->ratio->estimate > 0)) return std::nullopt;
  return 1 / c->ratio->estimate;
}

namespace detail {

inline std::vector<double> costs_of(const Row& r, const Front& f) {
  std::vector<double> out{-r.quality->estimate, std::log2(*time_share(r, f.scenario))};
  if (f.memory != Memory::unknown) out.push_back(std::log2(static_cast<double>(bytes_of(r, f.memory))));
  return out;
}

inline void measure_front(Table& t, const Row& baseline, const std::vector<std::vector<double>>& costs) {
  Front& f = t.front;
  std::vector<double> reference = costs_of(baseline, f);
  f.reference_time = *time_share(baseline, f.scenario) * kReferenceTimes;
  f.reference_bytes = static_cast<int64_t>(kReferenceTimes) * bytes_of(baseline, f.memory);
  reference[0] = -t.quality_floor;
  for (size_t i = 1; i < reference.size(); ++i) reference[i] += std::log2(kReferenceTimes);
  f.hypervolume = tinytorch::statistics::hypervolume(costs, reference);
}

}  // namespace detail

// Needs a table of models with all its rows.
inline void mark_front(Table& t, int64_t baseline) {
  if (t.kernels || t.scenarios.empty()) return;
  Front& f = t.front;
  f.scenario = timed_scenario(t).first;
  std::vector<Row*> ranked;
  for (Row& r : t.rows) {
    r.on_front = false;
    if (r.rank > 0 && r.quality && time_share(r, f.scenario)) ranked.push_back(&r);
  }
  if (ranked.empty()) return;
  for (const Memory m : {Memory::model, Memory::peak})
    if (std::ranges::all_of(ranked, [&](const Row* r) { return bytes_of(*r, m) > 0; })) f.memory = m;
  std::vector<std::vector<double>> costs, of_front;
  for (const Row* r : ranked) costs.push_back(detail::costs_of(*r, f));
  for (const size_t i : tinytorch::statistics::pareto_front(costs))
    ranked[i]->on_front = true, of_front.push_back(costs[i]);
  const auto base = std::ranges::find_if(ranked, [&](const Row* r) { return r->submission == baseline; });
  if (base != ranked.end()) detail::measure_front(t, **base, of_front);
}

}  // namespace tinymlperf::board
