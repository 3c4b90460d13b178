// Ablation: the speedup of each of several optimizations alone, of all but each, and of all together.
//
//   const Ablation result = profiling::ablate({{"bf16", [&](bool on) { ... }}, {"fused", ...}}, step);
//
// All settings are measured in interleaved blocks in random order, so that a drift of the machine favours
// none of them. Speedups are relative to the setting with everything off, computed per block, with the
// interval of paired_ratio.hpp: a disturbance of a whole block affects both sides of its ratio.
#pragma once

#include <functional>
#include <string>
#include <tinytorch/benchmarking/measure.hpp>
#include <tinytorch/benchmarking/paired_ratio.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::profiling {

struct Optimization {
  std::string name;
  std::function<void(bool on)> set;
};

struct AblationRow {
  std::string name;              // "none", "bf16", "all but bf16", "all"
  statistics::Interval seconds;  // median of a call, for display; 95 % only if blocks are independent
  statistics::Interval speedup;  // relative to "none", 95 %
  std::vector<double> samples;   // seconds of each call
};

struct Ablation {
  std::vector<AblationRow> rows;  // in the order: none, each alone, all but each, all
  // The product of the speedups of each alone: the speedup of all together if no optimization affected
  // another. The last row is the measured one.
  double expected = 1;
};

struct AblationOptions {
  int64_t blocks = 11;  // samples of each setting; an interval of 95 % needs at least 6
  int64_t warm_up = 2;  // calls before the first sample of a setting, in each block
  uint64_t seed = 0;    // seed of the random order
};

namespace detail {
struct AblationSetting {
  std::string name;
  std::vector<bool> on;  // one per optimization
};
// The settings, in this order: "none"; each optimization alone, under its name; with three or more, "all but
// NAME" for each (with two, that is the other one alone); with two or more, "all".
inline std::vector<AblationSetting> ablation_settings(const std::vector<Optimization>& optimizations) {
  const size_t n = optimizations.size();
  std::vector<AblationSetting> settings{{"none", std::vector<bool>(n, false)}};
  for (size_t i = 0; i < n; ++i) {
    settings.push_back({optimizations[i].name, std::vector<bool>(n, false)});
    settings.back().on[i] = true;
  }
  for (size_t i = 0; i < n && n > 2; ++i) {
    settings.push_back({"all but " + optimizations[i].name, std::vector<bool>(n, true)});
    settings.back().on[i] = false;
  }
  if (n > 1) settings.push_back({"all", std::vector<bool>(n, true)});
  return settings;
}
}  // namespace detail

// `step` is the measured work; `clock` returns seconds. Every setting is measured once in every block, in the
// order of benchmarking::random_blocks. A measurement switches each optimization on or off, calls step()
// options.warm_up times, and then once more, which is the sample. Seconds are the bootstrap_median of a row's
// samples with 2000 draws, speedups the paired_ratio of the samples of "none" and those of the row. At the
// end every optimization is off. Throws TT-PROF-05 without optimizations, TT-PROF-06 for fewer than 6 blocks.
template <class Step, class Clock = benchmarking::SteadyClock>
Ablation ablate(const std::vector<Optimization>& optimizations, Step&& step,
                const AblationOptions& options = {}, Clock&& clock = {}) {
  if (optimizations.empty()) fail("TT-PROF-05", "ablate: the list of optimizations is empty");
  if (options.blocks < 6)
    fail("TT-PROF-06", "ablate: " + std::to_string(options.blocks) +
                           " blocks give no interval of 95 %\n  hint: take at least 6");
  const auto settings = detail::ablation_settings(optimizations);
  Ablation result;
  for (const auto& s : settings) result.rows.push_back({s.name, {}, {}, {}});
  const auto order =
      benchmarking::random_blocks(settings.size(), static_cast<size_t>(options.blocks), options.seed);
  for (const auto& block : order) {
    for (const size_t i : block) {
      for (size_t k = 0; k < optimizations.size(); ++k) optimizations[k].set(settings[i].on[k]);
      for (int64_t w = 0; w < options.warm_up; ++w) step();
      const double start = clock();
      step();
      result.rows[i].samples.push_back(clock() - start);
    }
  }
  for (const Optimization& o : optimizations) o.set(false);
  for (AblationRow& row : result.rows) {
    row.seconds = statistics::bootstrap_median(row.samples, {.draws = 2000});
    row.speedup = *statistics::paired_ratio(result.rows[0].samples, row.samples);
  }
  for (size_t i = 1; i <= optimizations.size(); ++i) result.expected *= result.rows[i].speedup.estimate;
  return result;
}

}  // namespace tinytorch::inline TT_BUILD::profiling
