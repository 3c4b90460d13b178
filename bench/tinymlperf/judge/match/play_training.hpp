// A match between trainings: which entry trains a model to the target sooner, each in sandboxed processes.
#pragma once

#include <memory>
#include <span>
#include <tinymlperf/benchmarks/benchmarks.hpp>
#include <tinymlperf/judge/match/run_setup.hpp>
#include <tinymlperf/judge/match/training_match.hpp>
#include <tinymlperf/judge/scenarios/plugin_learner.hpp>
#include <utility>
#include <vector>

namespace tinymlperf {

namespace detail {

// Time to start and to read the recipe, before the clock runs.
constexpr double kUntimedSeconds = 30;

inline channel::Tensor channel_tensor_of(const tt::Tensor& t, bool bytes) {
  std::vector<int64_t> shape;
  for (int d = 0; d < t.rank(); ++d) shape.push_back(t.size(d));
  if (t.dtype() != tt::DType::i64)
    return channel::make_tensor(std::move(shape), std::span<const float>(t.to_vector<float>()));
  const auto values = t.to_vector<int64_t>();
  if (!bytes) return channel::make_tensor<int64_t>(channel::DType::i64, std::move(shape), std::span(values));
  const std::vector<uint8_t> narrow(values.begin(), values.end());
  return channel::make_tensor<uint8_t>(channel::DType::u8, std::move(shape), std::span(narrow));
}

// The tensors that a trainer receives (judge/workers/training_worker.hpp), without the seed.
inline channel::Tensors lesson(const judge::Benchmark& validation, int64_t samples) {
  const std::string subject = subject_of(validation.id());
  const TrainingData data = training_data(subject, {samples, 1});
  std::vector<int64_t> all(static_cast<size_t>(validation.size()));
  std::iota(all.begin(), all.end(), int64_t{0});
  const bool text = task_of(subject).text;
  return {channel_tensor_of(data.inputs, text), channel_tensor_of(data.targets, text),
          validation.inputs(all).at(0)};
}

}  // namespace detail

// `o` must be resolved().
inline judge::RunDocument play_training(const RunOptions& o) {
  using namespace detail;
  const judge::TrainingClass& size = judge::training_class_named(o.run_class);
  const auto benchmark = judge::make_benchmark(o.benchmark);
  const auto& subject = dynamic_cast<judge::TrainingSubject&>(*benchmark);
  const sandbox::Offers offers = sandbox_of_machine();
  const uint64_t seed = seed_of(o);
  benchmark->draw(size.validation, seed);
  const channel::Tensors data = lesson(*benchmark, size.samples);
  const judge::TrainingRules rules{.target = subject.target(size), .seconds = size.seconds};
  std::vector<judge::TrainingContender> contenders;
  for_each_entry(o, [&](const auto& entry, const auto& worker) {
    judge::TrainingContender c;
    const std::shared_ptr<judge::Stage> stage = admit(c.record, entry, o.benchmark, offers, worker);
    c.start = [&, stage] {
      auto session = stage->start(2 * kUntimedSeconds + rules.seconds);
      session->prepare(o.benchmark, kUntimedSeconds);
      return std::make_unique<judge::PluginLearner>(std::move(session), data, benchmark->answer_size());
    };
    contenders.push_back(std::move(c));
  });
  judge::TrainingMatch(*benchmark, rules, size.runs, o.division, seed)(contenders);
  judge::RunDocument d = document_of(o, *benchmark, offers, seed);
  d.quality_floor = rules.target;
  for (judge::TrainingContender& c : contenders) d.contenders.push_back(std::move(c.record));
  return d;
}

}  // namespace tinymlperf
