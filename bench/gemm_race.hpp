// Shared code of the GEMM and GEMV benchmarks: shapes, interleaved rounds, ratios.
//
// In each round every contender runs once, in random order, for enough calls to last some milliseconds.
// Ratios are formed within a round, because its contenders ran at about the same clock and beside the same
// other load.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <tinytorch/benchmarking/measure.hpp>
#include <tinytorch/benchmarking/statistics.hpp>
#include <vector>

namespace bench {

struct Product {
  std::string group;
  int64_t M, N, K;
  bool a_transposed = false, b_transposed = false;

  double flops() const { return 2.0 * static_cast<double>(M * N * K); }
  std::string layout() const { return std::string(a_transposed ? "T" : "N") + (b_transposed ? "T" : "N"); }
};

struct Contender {
  std::string name;
  std::function<void()> work;
};

// Seconds per call of each contender in each round, [contender][round].
inline std::vector<std::vector<double>> race(const std::vector<Contender>& contenders, int64_t rounds,
                                             double seconds) {
  std::vector<int64_t> calls;
  for (const Contender& c : contenders) {
    c.work();
    const double once = tinytorch::statistics::median(tinytorch::benchmarking::time_calls(c.work, 3));
    calls.push_back(tinytorch::benchmarking::calls_within(seconds, once, 1, 1'000'000));
  }
  const tinytorch::benchmarking::SteadyClock clock;
  std::vector<std::vector<double>> taken(contenders.size());
  for (const auto& order :
       tinytorch::benchmarking::random_blocks(contenders.size(), static_cast<size_t>(rounds), 1)) {
    for (const size_t c : order) {
      contenders[c].work();  // warm-up: the cache still holds another contender's data
      const double start = clock();
      for (int64_t i = 0; i < calls[c]; ++i) contenders[c].work();
      taken[c].push_back((clock() - start) / static_cast<double>(calls[c]));
    }
  }
  return taken;
}

// First quartile, median and third quartile of numerator[i] / denominator[i] over the rounds.
inline std::vector<double> quartiles(const std::vector<double>& numerator,
                                     const std::vector<double>& denominator) {
  std::vector<double> ratios;
  for (size_t i = 0; i < numerator.size(); ++i) ratios.push_back(numerator[i] / denominator[i]);
  return {tinytorch::statistics::percentile(ratios, 25), tinytorch::statistics::median(ratios),
          tinytorch::statistics::percentile(ratios, 75)};
}

// Geometric mean and smallest value of `key` over the rows of a group; larger is better for all keys.
inline nlohmann::json summarize(const std::vector<nlohmann::json>& rows, const char* key) {
  std::vector<double> values;
  for (const nlohmann::json& r : rows) values.push_back(r.at(key).get<double>());
  return {{"geometric_mean", tinytorch::statistics::geometric_mean(values)},
          {"worst", *std::ranges::min_element(values)}};
}

}  // namespace bench
