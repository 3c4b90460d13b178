// A learner that is a sandboxed process: each token that it sends is an attempt, and its answer ends the run.
#pragma once

#include <algorithm>
#include <memory>
#include <tinymlperf/channel/session.hpp>
#include <tinymlperf/judge/scenarios/time_to_quality.hpp>
#include <utility>

namespace tinymlperf::judge {

class PluginLearner final : public Learner {
 public:
  // The session is prepared. `data` are the tensors of the query (training_worker.hpp) without the seed.
  PluginLearner(std::unique_ptr<channel::Session> session, channel::Tensors data, int64_t answer_size)
      : session_(std::move(session)), data_(std::move(data)), answer_size_(answer_size) {}

  double start(uint64_t seed) override {
    const auto number = static_cast<int64_t>(seed);
    data_.push_back(channel::make_tensor<int64_t>(channel::DType::i64, {1}, std::span(&number, 1)));
    return seconds_of(session_->ask(1, data_));
  }
  std::optional<Attempt> next(double until) override {
    const auto event = session_->poll_next(std::max(0.0, until - seconds_of(sandbox::Clock::now())));
    if (!event || event->frame.kind == channel::Kind::answer) return std::nullopt;
    const channel::Tensors tensors = channel::parse_tensors(event->frame.payload);
    const auto each = static_cast<size_t>(answer_size_);
    if (tensors.size() != 1 || tensors[0].dtype != channel::DType::f32 ||
        tensors[0].values<float>().size() % each != 0)
      throw std::runtime_error("an attempt must be one f32 tensor of " + std::to_string(each) +
                               " values for each sample");
    Attempt attempt{seconds_of(event->at), {}};
    const auto values = tensors[0].values<float>();
    for (size_t i = 0; i < values.size(); i += each) {
      const auto row = values.subspan(i, each);
      attempt.answers.emplace_back(row.begin(), row.end());
    }
    return attempt;
  }
  // A learner that has reached the target is stopped while it works, so only an end of its own can be a
  // failure.
  LearnerEnd end() override {
    const sandbox::Outcome& outcome = session_->finish(1);
    const bool stopped = outcome.good() || outcome.ending == sandbox::Ending::stopped;
    return {outcome.peak_is_bound ? 0 : outcome.peak_bytes, stopped ? "" : outcome.reason};
  }

 private:
  static double seconds_of(sandbox::Clock::time_point t) {
    return std::chrono::duration<double>(t.time_since_epoch()).count();
  }
  std::unique_ptr<channel::Session> session_;
  channel::Tensors data_;
  int64_t answer_size_;
};

}  // namespace tinymlperf::judge
