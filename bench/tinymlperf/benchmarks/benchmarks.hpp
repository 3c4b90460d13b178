// All benchmarks of the judge. A new one is a class and a line here.
#pragma once

#include <array>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tinymlperf/benchmarks/anomaly.hpp>
#include <tinymlperf/benchmarks/digits.hpp>
#include <tinymlperf/benchmarks/keywords.hpp>
#include <tinymlperf/benchmarks/language.hpp>
#include <tinymlperf/benchmarks/training_subject.hpp>

namespace tinymlperf::judge {

struct RegisteredBenchmark {
  std::string_view id;
  std::unique_ptr<Benchmark> (*make)();
};

template <class B>
std::unique_ptr<Benchmark> make_new() {
  return std::make_unique<B>();
}

inline constexpr std::array kBenchmarks{
    RegisteredBenchmark{"dig", make_new<DigitsBenchmark>},
    RegisteredBenchmark{"kws", make_new<KeywordsBenchmark>},
    RegisteredBenchmark{"ad", make_new<AnomalyBenchmark>},
    RegisteredBenchmark{"lm", make_new<LanguageBenchmark>},
};

// What can be trained against the clock: each is a benchmark of its own, "ttq-dig".
inline constexpr std::array<std::string_view, 2> kTrained{"dig", "lm"};

// "dig, kws": for messages.
inline std::string benchmark_ids() {
  std::string out;
  for (const RegisteredBenchmark& b : kBenchmarks) out += (out.empty() ? "" : ", ") + std::string(b.id);
  for (const std::string_view b : kTrained) out += ", " + std::string(kTrainingPrefix) + std::string(b);
  return out;
}

inline std::unique_ptr<Benchmark> make_benchmark(std::string_view id) {
  const std::string subject = subject_of(id);
  const bool trained = is_training(id) && std::ranges::find(kTrained, subject) != kTrained.end();
  for (const RegisteredBenchmark& b : kBenchmarks)
    if (b.id == subject && trained == is_training(id))
      return trained ? std::make_unique<TrainingSubject>(b.make()) : b.make();
  throw std::invalid_argument("no benchmark is named \"" + std::string(id) + "\"; there are " +
                              benchmark_ids());
}

}  // namespace tinymlperf::judge
