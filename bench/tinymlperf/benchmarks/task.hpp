// The input and outputs of a benchmark's entries, and the names and constants that all parts of the judge
// share.
#pragma once

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

// The benchmark of digits. A model.json, a command or an entry that names no benchmark means this one.
inline constexpr const char* kDigitsBenchmark = "dig";

struct Task {
  std::string benchmark = kDigitsBenchmark;
  Shape input{1, 28, 28};  // shape of one sample
  int64_t outputs = 10;
  const char* outputs_key = "classes";  // the name of their number in model.json
  bool text = false;                    // samples are bytes, and the model is a language model
  bool restored = false;                // the answer is how badly the network restores the sample
};

// Windows of a language model: bytes of context that are scored; and the bytes of a prompt and of its
// continuation.
constexpr int64_t kContextBytes = 64, kPromptBytes = 32, kGeneratedBytes = 32;
// In the scenario shared_prefix: bytes that the prompts of a group share, the most bytes of a user behind
// them, and the bytes of the continuation.
constexpr int64_t kSharedBytes = 48, kUserBytes = 12, kSharedGeneratedBytes = 4;

// The benchmark of kernels, op by op. It has no model, and a division of its own.
inline constexpr const char *kKernelBenchmark = "krn", *kKernelDivision = "kernel";

// Benchmarks of training: "ttq-dig" is the time to train a model for "dig".
inline constexpr std::string_view kTrainingPrefix = "ttq-";

inline bool is_training(std::string_view benchmark) { return benchmark.starts_with(kTrainingPrefix); }
inline std::string subject_of(std::string_view benchmark) {
  return std::string(is_training(benchmark) ? benchmark.substr(kTrainingPrefix.size()) : benchmark);
}

}  // namespace tinymlperf
