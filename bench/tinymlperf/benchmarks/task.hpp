// What an entry of each benchmark takes and gives, known to whoever reads, trains or judges one.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tinymlperf/support/json_fields.hpp>

namespace tinymlperf {

// The published seeds of the data that everyone may train on.
constexpr uint64_t kTrainingSeed = 1, kValidationSeed = 2;

inline void require_hidden_seed(uint64_t seed) {
  if (seed == kTrainingSeed || seed == kValidationSeed)
    throw std::invalid_argument("seed " + std::to_string(seed) +
                                " drew the training or validation set, not a hidden one; choose another");
}

struct Task {
  std::string benchmark = "dig";
  Shape input{1, 28, 28};  // of one sample
  int64_t outputs = 10;
  const char* outputs_key = "classes";  // how model.json calls their number
};

// The windows of a language model: bytes of context that are scored, and of those a prompt and what it is
// continued by.
constexpr int64_t kContextBytes = 64, kPromptBytes = 32, kGeneratedBytes = 32;

// In the order of the judge's list (benchmarks.hpp).
inline const std::array<Task, 4>& tasks() {
  static const std::array<Task, 4> all{{{},
                                        {"kws", {1, 49, 10}, 12, "classes"},
                                        {"ad", {640}, 640, "outputs"},
                                        {"lm", {kContextBytes}, 256, "outputs"}}};
  return all;
}

inline const Task& task_of(std::string_view benchmark) {
  std::string known;
  for (const Task& t : tasks()) {
    if (t.benchmark == benchmark) return t;
    known += (known.empty() ? "" : ", ") + t.benchmark;
  }
  throw std::invalid_argument("no entry answers the benchmark \"" + std::string(benchmark) +
                              "\"; there are " + known);
}

// The benchmark of kernels, op by op: of no model, and in a division of its own.
inline constexpr const char *kKernelBenchmark = "krn", *kKernelDivision = "kernel";

// Benchmarks of training: "ttq-dig" is the time to train what answers "dig".
inline constexpr std::string_view kTrainingPrefix = "ttq-";

inline bool is_training(std::string_view benchmark) { return benchmark.starts_with(kTrainingPrefix); }
inline std::string subject_of(std::string_view benchmark) {
  return std::string(is_training(benchmark) ? benchmark.substr(kTrainingPrefix.size()) : benchmark);
}

}  // namespace tinymlperf
