// All benchmarks. A new one is a file with its descriptor and a line in descriptors().
#pragma once

#include <array>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tinymlperf/benchmarks/anomaly.hpp>
#include <tinymlperf/benchmarks/descriptor.hpp>
#include <tinymlperf/benchmarks/digits.hpp>
#include <tinymlperf/benchmarks/keywords.hpp>
#include <tinymlperf/benchmarks/language.hpp>
#include <tinymlperf/benchmarks/training_subject.hpp>
#include <vector>

namespace tinymlperf {

inline const std::array<const Descriptor*, 4>& descriptors() {
  static const std::array<const Descriptor*, 4> all{&digits_descriptor(), &keywords_descriptor(),
                                                    &anomaly_descriptor(), &language_descriptor()};
  return all;
}

// nullptr if no benchmark has this id.
inline const Descriptor* find_descriptor(std::string_view benchmark) {
  for (const Descriptor* d : descriptors())
    if (d->shape.benchmark == benchmark) return d;
  return nullptr;
}

// Input and outputs of an entry for the benchmark.
inline const Task& task_of(std::string_view benchmark) {
  if (const Descriptor* const d = find_descriptor(benchmark)) return d->shape;
  std::string known;
  for (const Descriptor* d : descriptors()) known += (known.empty() ? "" : ", ") + d->shape.benchmark;
  throw std::invalid_argument("no entry answers the benchmark \"" + std::string(benchmark) +
                              "\"; there are " + known);
}

inline TrainingSize training_size(std::string_view benchmark) {
  (void)task_of(benchmark);  // throws where there is none
  return find_descriptor(benchmark)->size;
}

inline TrainingData training_data(std::string_view benchmark, const TrainingSize& size) {
  if (const Descriptor* const d = find_descriptor(benchmark)) return d->data(size);
  throw std::invalid_argument("there is no training data for the benchmark " + std::string(benchmark));
}

namespace judge {

// "dig, kws": for messages.
inline std::string benchmark_ids() {
  std::string out;
  for (const Descriptor* d : descriptors()) out += (out.empty() ? "" : ", ") + d->shape.benchmark;
  for (const Descriptor* d : descriptors())
    if (d->target) out += ", " + std::string(kTrainingPrefix) + d->shape.benchmark;
  return out;
}

inline std::unique_ptr<Benchmark> make_benchmark(std::string_view id) {
  const Descriptor* const d = find_descriptor(subject_of(id));
  if (d && !is_training(id)) return d->judged();
  if (d && d->target) return std::make_unique<TrainingSubject>(d->judged(), *d->target);
  throw std::invalid_argument("no benchmark is named \"" + std::string(id) + "\"; there are " +
                              benchmark_ids());
}

}  // namespace judge

}  // namespace tinymlperf
