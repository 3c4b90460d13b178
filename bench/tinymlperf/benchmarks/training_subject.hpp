// ttq-dig and ttq-lm: the time to train a model of another benchmark until it is good enough. The data to
// learn from are the published ones, drawn anew by anybody; the validation set is hidden, and drawn for each
// match.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <tinymlperf/benchmarks/benchmark.hpp>
#include <tinymlperf/benchmarks/task.hpp>
#include <utility>

namespace tinymlperf::judge {

// How much is trained. Smoke shows that everything works, ranks nothing, and has a target within
// seconds' reach, with room for a machine that is busy.
struct TrainingClass {
  const char* name;
  size_t runs;  // of each contender; the baseline, being the reference, has twice as many
  int64_t samples, validation;
  double seconds;  // that one run may take
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
  // What is learned, judged as that benchmark judges it.
  explicit TrainingSubject(std::unique_ptr<Benchmark> learned) : learned_(std::move(learned)) {}

  std::string id() const override { return std::string(kTrainingPrefix) + learned_->id(); }
  std::string task() const override { return "the time to train a model that says " + learned_->task(); }
  std::string metric() const override { return learned_->metric(); }
  // The target: what a small network for pictures reaches after a few epochs, or what a text's next byte is
  // said with by a model that the benchmark of text would rank.
  double floor() const override { return learned_->id() == "dig" ? 0.95 : learned_->floor(); }
  double target(const TrainingClass& c) const {
    if (std::string_view(c.name) != "smoke") return floor();
    return learned_->id() == "dig" ? 0.35 : -4.5;
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
};

}  // namespace tinymlperf::judge
