// A system that is a sandboxed process. Queries go to it through the channel, and the judge's clock times
// them.
#pragma once

#include <algorithm>
#include <functional>
#include <tinymlperf/channel/session.hpp>
#include <tinymlperf/judge/scenarios/scenario.hpp>
#include <utility>

namespace tinymlperf::judge {

class PluginSystem final : public System {
 public:
  // The tensors of a query for these samples, made before the clock starts.
  using Inputs = std::function<channel::Tensors(std::span<const int64_t> samples)>;
  // Called with each token and answer after it was timed; throws to end the run.
  using Seen = std::function<void(uint64_t id, bool last, const channel::Tensors& tensors)>;

  PluginSystem(channel::Session& session, Inputs inputs, Seen seen)
      : session_(session), inputs_(std::move(inputs)), seen_(std::move(seen)) {}

  double now() const override { return seconds_of(sandbox::Clock::now()); }
  // The channel counts queries from 1.
  double ask(uint64_t id, std::span<const int64_t> samples) override {
    return seconds_of(session_.ask(id + 1, inputs_(samples)));
  }
  std::optional<Reply> poll(double until) override {
    const auto event = session_.poll_next(std::max(0.0, until - now()));
    if (!event) return std::nullopt;
    const Reply reply{event->frame.id - 1, seconds_of(event->at), event->frame.kind == channel::Kind::answer};
    if (seen_) seen_(reply.id, reply.last, channel::parse_tensors(event->frame.payload));
    return reply;
  }

 private:
  static double seconds_of(sandbox::Clock::time_point t) {
    return std::chrono::duration<double>(t.time_since_epoch()).count();
  }

  channel::Session& session_;
  Inputs inputs_;
  Seen seen_;
};

}  // namespace tinymlperf::judge
