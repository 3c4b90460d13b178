// From raw samples to a ranking: nothing here measures, so a third party can recompute it from race.json.
//
//   score = 100 * geometric mean over scenarios of baseline/result       100 = as good as the baseline
//     single stream: p90 of the time of one sample      offline: median time of one batch
//   efficiency = 100 * exp(1/2 ln r_latency + 1/4 ln r_peak_bytes + 1/4 ln r_file_bytes)
// Ratios are clipped to [1/64, 64] so that one extreme cannot decide. An entry is ranked if the lower bound
// of its accuracy reaches the floor. Intervals: hierarchical bootstrap, first the blocks (the same ones for
// every entry, since a slow stretch of the machine hits all), then the samples inside each block.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <tinytorch/benchmarking/statistics.hpp>
#include <vector>

namespace tinymlperf {

namespace statistics = tinytorch::statistics;
using statistics::Interval;

// What one entry did in one stretch of time; seconds.
struct Block {
  std::vector<double> single;  // one sample per call
  std::vector<double> batch;   // Rules::batch samples per call
};

struct Measurement {
  std::string name;
  std::vector<Block> blocks;  // block i of every entry was measured in the same stretch
  int64_t correct = 0;        // of the hidden set
  int64_t tested = 0;
  int64_t parameters = 0;
  int64_t multiply_adds = 0;
  int64_t file_bytes = 0;         // weights.safetensors
  int64_t peak_bytes_single = 0;  // weights and activations while one sample runs
  int64_t peak_bytes_batch = 0;   // the same for a batch
  int64_t timed_mismatches = 0;   // timed calls whose answer differed from the accuracy run
};

struct Rules {
  std::string baseline = "lenet";
  double floor = 0.80;  // accuracy that the lower bound must reach
  int64_t batch = 256;
  int64_t draws = 10000;
  double confidence = 0.95;
  uint64_t seed = 0;  // of the resampling
};

struct Result {
  size_t index = 0;  // into the measurements
  int64_t rank = 0;  // 0: below the floor, not ranked
  bool on_front = false;
  Interval accuracy;    // share of the hidden set
  Interval p50, p90;    // seconds for one sample
  Interval throughput;  // samples per second in batches
  Interval score, efficiency;
  int64_t outliers = 0;  // single-sample times beyond the outer or inner fence; labelled, still counted
};

namespace detail {

constexpr double kLargestRatio = 64;

inline double log_ratio(double baseline, double result) {
  return std::log(std::clamp(baseline / result, 1 / kLargestRatio, kLargestRatio));
}

// The summary of one entry's samples in one (re)sample of the race.
struct Summary {
  double p50 = 0, p90 = 0, batch = 0;
};

inline Summary summarize(std::span<double> single, std::span<double> batch) {
  using namespace statistics::detail;
  return {percentile_in_place(single, 50), percentile_in_place(single, 90), median_in_place(batch)};
}

inline double score_of(const Summary& baseline, const Summary& result) {
  return 100 * std::exp((log_ratio(baseline.p90, result.p90) + log_ratio(baseline.batch, result.batch)) / 2);
}

inline double efficiency_of(const Summary& baseline, const Summary& result, const Measurement& b,
                            const Measurement& r) {
  const auto bytes = [](int64_t x, int64_t y) {
    return log_ratio(static_cast<double>(x), static_cast<double>(y));
  };
  return 100 *
         std::exp(log_ratio(baseline.p90, result.p90) / 2 +
                  (bytes(b.peak_bytes_single, r.peak_bytes_single) + bytes(b.file_bytes, r.file_bytes)) / 4);
}

inline Summary summarize_all(const Measurement& m) {
  std::vector<double> single, batch;
  for (const Block& b : m.blocks) {
    single.insert(single.end(), b.single.begin(), b.single.end());
    batch.insert(batch.end(), b.batch.begin(), b.batch.end());
  }
  return summarize(single, batch);
}

// Redraws the samples of the given blocks of one entry.
class Resampler {
 public:
  Summary operator()(const Measurement& m, const std::vector<size_t>& blocks, tinytorch::Generator& random) {
    single_.clear();
    batch_.clear();
    for (const size_t b : blocks) {
      append(single_, m.blocks[b].single, random);
      append(batch_, m.blocks[b].batch, random);
    }
    return summarize(single_, batch_);
  }

 private:
  static void append(std::vector<double>& to, const std::vector<double>& from, tinytorch::Generator& random) {
    const size_t start = to.size();
    to.resize(start + from.size());
    statistics::resample(from, std::span(to).subspan(start), random);
  }
  std::vector<double> single_, batch_;
};

inline void check(const std::vector<Measurement>& all, size_t baseline, const Rules& rules) {
  if (baseline == all.size())
    throw std::invalid_argument("no entry is named \"" + rules.baseline + "\", the baseline of all scores");
  for (const Measurement& m : all) {
    if (m.blocks.empty() || m.blocks.size() != all[0].blocks.size())
      throw std::invalid_argument(m.name + ": every entry needs the same number of blocks, at least one");
    int64_t calls = 0;
    for (const Block& b : m.blocks) {
      calls += static_cast<int64_t>(b.single.size());
      for (const auto* samples : {&b.single, &b.batch})
        if (samples->empty() || *std::min_element(samples->begin(), samples->end()) <= 0)
          throw std::invalid_argument(m.name + ": every block needs positive times of both kinds");
    }
    if (calls < statistics::samples_to_certify(90))
      throw std::invalid_argument(m.name + ": " + std::to_string(calls) +
                                  " single calls do not support a p90");
    if (m.tested < 1 || m.file_bytes < 1 || m.peak_bytes_single < 1)
      throw std::invalid_argument(m.name + ": accuracy, file bytes and peak bytes must have been measured");
  }
}

// Replicates of every reported quantity of one entry.
struct Replicates {
  std::vector<double> p50, p90, throughput, score, efficiency;
};

inline std::vector<Replicates> replicate_race(const std::vector<Measurement>& all, size_t baseline,
                                              const Rules& rules) {
  std::vector<Replicates> out(all.size());
  tinytorch::Generator random(rules.seed);
  Resampler resampler;
  std::vector<size_t> blocks(all[0].blocks.size());
  std::vector<Summary> summaries(all.size());
  for (int64_t draw = 0; draw < rules.draws; ++draw) {
    for (size_t& b : blocks) b = random.below(blocks.size());
    for (size_t i = 0; i < all.size(); ++i) summaries[i] = resampler(all[i], blocks, random);
    for (size_t i = 0; i < all.size(); ++i) {
      const Summary& s = summaries[i];
      out[i].p50.push_back(s.p50);
      out[i].p90.push_back(s.p90);
      out[i].throughput.push_back(static_cast<double>(rules.batch) / s.batch);
      out[i].score.push_back(score_of(summaries[baseline], s));
      out[i].efficiency.push_back(efficiency_of(summaries[baseline], s, all[baseline], all[i]));
    }
  }
  return out;
}

inline int64_t count_outliers(const Measurement& m) {
  std::vector<double> single;
  for (const Block& b : m.blocks) single.insert(single.end(), b.single.begin(), b.single.end());
  const auto labels = statistics::label_outliers(single);
  return static_cast<int64_t>(labels.size()) -
         std::count(labels.begin(), labels.end(), statistics::Outlier::kNone);
}

// Ranked entries by rank, then the others by accuracy; marks the front of accuracy against p50.
inline void order_results(std::vector<Result>& results, double floor) {
  std::vector<std::vector<double>> costs;
  for (const Result& r : results) costs.push_back({-r.accuracy.estimate, r.p50.estimate});
  for (const size_t i : statistics::pareto_front(costs)) results[i].on_front = true;
  std::vector<Result> ranked, others;
  for (const Result& r : results) (r.accuracy.low >= floor ? ranked : others).push_back(r);
  std::vector<Interval> scores;
  for (const Result& r : ranked) scores.push_back(r.score);
  results.clear();
  for (const auto& [index, rank] : statistics::rank_with_ties(scores)) {
    results.push_back(ranked[index]);
    results.back().rank = rank;
  }
  std::stable_sort(others.begin(), others.end(), [](const Result& a, const Result& b) {
    return a.accuracy.estimate > b.accuracy.estimate;
  });
  results.insert(results.end(), others.begin(), others.end());
}

}  // namespace detail

// Results in the order of the table. Throws std::invalid_argument when the measurements cannot be scored.
inline std::vector<Result> score_race(const std::vector<Measurement>& all, const Rules& rules) {
  using namespace detail;
  size_t baseline = 0;
  while (baseline < all.size() && all[baseline].name != rules.baseline) ++baseline;
  check(all, baseline, rules);
  std::vector<Replicates> replicates = replicate_race(all, baseline, rules);
  const Summary reference = summarize_all(all[baseline]);
  std::vector<Result> results(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const Summary s = summarize_all(all[i]);
    Replicates& r = replicates[i];
    const auto interval = [&](double estimate, std::vector<double>& values) {
      return statistics::percentile_interval(estimate, values, rules.confidence);
    };
    results[i].index = i;
    results[i].accuracy = statistics::bootstrap_proportion(all[i].correct, all[i].tested, rules.confidence);
    results[i].p50 = interval(s.p50, r.p50);
    results[i].p90 = interval(s.p90, r.p90);
    results[i].throughput = interval(static_cast<double>(rules.batch) / s.batch, r.throughput);
    results[i].score = interval(score_of(reference, s), r.score);
    results[i].efficiency = interval(efficiency_of(reference, s, all[baseline], all[i]), r.efficiency);
    results[i].outliers = count_outliers(all[i]);
  }
  order_results(results, rules.floor);
  return results;
}

}  // namespace tinymlperf
