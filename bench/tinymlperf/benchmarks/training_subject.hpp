// ttq-dig and ttq-lm: the time to train a model of another benchmark until it is good enough. The training
// data are the published ones; the validation set is hidden and drawn for each match.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <tinymlperf/benchmarks/descriptor.hpp>
#include <tinymlperf/benchmarks/task.hpp>
#include <utility>

namespace tinymlperf::judge {

// The size of a match. The class smoke shows that everything works, ranks nothing, and has a target that
// takes seconds, with room for a busy machine.
struct TrainingClass {
  const char* name;
  size_t runs;  // runs of each contender; the baseline, the reference, has twice as many
  int64_t samples, validation;
  double seconds;  // time limit of one run
};
inline constexpr TrainingClass kTrainingClasses[] = {
    {"smoke", 5, 2000, 500, 30}, {"ranked", 5, 8000, 2000, 600}, {"official", 10, 8000, 2000, 1200}};

inline const TrainingClass& training_class_named(const std::string& name) {
  for (const TrainingClass& c : kTrainingClasses)
    if (name == c.name) return c;
  throw std::invalid_argument("--class " + name + ": there are smoke, ranked and official");
}

class TrainingSubject final : public Benchmark {
 public:
  // `learned` is the benchmark that the trained model answers; it grades the attempts.
  TrainingSubject(std::unique_ptr<Benchmark> learned, const TrainingTarget& target)
      : learned_(std::move(learned)), target_(target) {}

  std::string id() const override { return std::string(kTrainingPrefix) + learned_->id(); }
  std::string task() const override { return "the time to train a model that says " + learned_->task(); }
  std::string metric() const override { return learned_->metric(); }
  double floor() const override { return target_.ranked; }
  double target(const TrainingClass& c) const {
    return std::string_view(c.name) == "smoke" ? target_.smoke : target_.ranked;
  }

  void draw(int64_t n, uint64_t seed) override { learned_->draw(n, seed); }
  int64_t size() const override { return learned_->size(); }
  channel::Tensors inputs(std::span<const int64_t> samples) const override {
    return learned_->inputs(samples);
  }
  int64_t answer_size() const override { return learned_->answer_size(); }
  Quality quality(const std::vector<Answer>& answers) const override { return learned_->quality(answers); }
  bool agrees(const Answer& graded, const Answer& timed) const override {
    return learned_->agrees(graded, timed);
  }

 private:
  std::unique_ptr<Benchmark> learned_;
  TrainingTarget target_;
};

}  // namespace tinymlperf::judge
