// One benchmark in one place: its data, the shape of a sample, the models that it starts with, the least
// quality that is ranked, and the metric. Everything else reads this descriptor (benchmarks.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tinymlperf/benchmarks/benchmark.hpp>
#include <tinymlperf/benchmarks/task.hpp>
#include <tinymlperf/benchmarks/training_data.hpp>
#include <tinymlperf/support/json_fields.hpp>
#include <utility>
#include <vector>

namespace tinymlperf {

// A model that comes with the benchmark, and how it is trained.
struct BundledModel {
  const char* name;
  const char* description;
  int64_t epochs;
  double learning_rate;  // the highest one of the schedule
  Json network;          // from its model.json: {"layers": [...]} or {"type": "gpt", ...}
  int64_t batch = 64;
};

// The quality that a training must reach (ttq). The class smoke has an easier one, within seconds' reach.
struct TrainingTarget {
  double ranked, smoke;
};

struct Descriptor {
  Task shape;                                     // id, input of one sample, outputs
  const char* question;                           // the question of the task, as a phrase
  const char* metric;                             // metric of quality; higher is better
  double floor;                                   // least quality of a result that is ranked
  TrainingSize size;                              // samples that the bundled models see
  TrainingData (*data)(const TrainingSize&);      // from the published seeds
  std::vector<BundledModel> (*recipes)();         // the first is the smallest or the baseline
  std::unique_ptr<judge::Benchmark> (*judged)();  // draws the hidden set and grades answers
  std::optional<TrainingTarget> target = {};      // for benchmarks with time_to_quality
};

namespace detail {

inline void append(Json& layers, const Json& more) { layers.insert(layers.end(), more.begin(), more.end()); }

}  // namespace detail

namespace judge {

template <class B>
std::unique_ptr<Benchmark> make_new() {
  return std::make_unique<B>();
}

// A benchmark with the id, task, metric and floor of its descriptor.
class Described : public Benchmark {
 public:
  explicit Described(const Descriptor& about) : about_(about) {}
  std::string id() const override { return about_.shape.benchmark; }
  std::string task() const override { return about_.question; }
  std::string metric() const override { return about_.metric; }
  double floor() const override { return about_.floor; }

 protected:
  const Task& shape() const { return about_.shape; }

 private:
  const Descriptor& about_;
};

}  // namespace judge

}  // namespace tinymlperf
