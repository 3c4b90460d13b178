// Simulator: a server without a model. It runs a scheduler on a virtual clock, so that policies are compared
// in milliseconds and every run is the same, and it checks the scheduler's promises after each step.
//
//   const SimulationReport r = simulate(options, arrivals, cost);
//   r.tokens_per_s, r.requests[i].first_token, r.preemptions
#pragma once

#include <map>
#include <stdexcept>
#include <tinytorch/serving/scheduler.hpp>

namespace tinytorch::inline TT_BUILD::serving {

struct Arrival {
  double at = 0;  // seconds; arrivals are in order
  Request request{};
  int64_t ends_after = 0;  // new tokens after which the text ends by itself; 0: at most_new
};

// Seconds of a step: reading the weights, a row of work for each token, and reading the cached tokens.
struct StepCost {
  double fixed = 5e-3, per_token = 2e-5, per_cached_token = 1e-7;
};

struct RequestReport {
  double arrival = 0, first_token = 0, end = 0;
  int64_t written = 0, preemptions = 0;
};
struct SimulationReport {
  std::map<int64_t, RequestReport> requests{};
  double seconds = 0;
  int64_t steps = 0, tokens = 0, preemptions = 0;  // tokens: computed ones, again computed ones included
  int64_t most_pages = 0;
  double tokens_per_s() const {
    int64_t written = 0;
    for (const auto& [id, r] : requests) written += r.written;
    return seconds > 0 ? static_cast<double>(written) / seconds : 0;
  }
};

// Runs until all requests have ended. Throws TT-SERVE-03, which is a fault of the scheduler, if a step breaks
// a promise: no progress, too many tokens, pages that do not exist, or a token computed before its
// predecessor.
inline SimulationReport simulate(const SchedulerOptions& options, const std::vector<Arrival>& arrivals,
                                 const StepCost& cost = {}, TT_LOC) {
  Scheduler scheduler(options, loc);
  SimulationReport report;
  std::map<int64_t, int64_t> cached, ends;  // tokens in the cache of each request; new tokens until its end
  size_t arrived = 0;
  const auto demand = [&](bool holds, const char* what) {
    if (!holds) throw std::logic_error(std::string("the scheduler broke a promise: ") + what);
  };
  while (arrived < arrivals.size() || !scheduler.idle()) {
    if (scheduler.idle()) report.seconds = std::max(report.seconds, arrivals[arrived].at);
    for (; arrived < arrivals.size() && arrivals[arrived].at <= report.seconds; ++arrived) {
      const Arrival& a = arrivals[arrived];
      scheduler.submit(a.request, loc);
      report.requests[a.request.id].arrival = a.at;
      ends[a.request.id] = a.ends_after > 0 ? std::min(a.ends_after, a.request.most_new) : a.request.most_new;
    }
    const Step step = scheduler.next();
    demand(!step.parts.empty(), "a step computes something while there is a request");
    demand(step.tokens() <= options.budget, "a step has at most `budget` tokens");
    for (const int64_t id : step.preempted) {
      cached[id] = 0;
      ++report.requests[id].preemptions, ++report.preemptions;
    }
    report.seconds += cost.fixed + cost.per_token * static_cast<double>(step.tokens());
    std::vector<int64_t> ended;
    for (const StepPart& part : step.parts) {
      demand(part.count > 0 && part.first == cached[part.id], "tokens are computed once, in their order");
      cached[part.id] += part.count;
      report.seconds += cost.per_cached_token * static_cast<double>(cached[part.id]);
    }
    for (const StepPart& part : step.parts) {
      RequestReport& r = report.requests[part.id];
      if (!part.samples) continue;
      if (++r.written == 1) r.first_token = report.seconds;
      if (r.written < ends[part.id]) continue;
      r.end = report.seconds;
      ended.push_back(part.id);
    }
    report.tokens += step.tokens(), ++report.steps;
    scheduler.finish(step, ended);
    for (const int64_t id : ended) cached.erase(id);
    int64_t pages = 0;
    for (const auto& [id, tokens] : cached) pages += ceil_div(tokens, options.page);
    demand(pages == scheduler.held_pages() && scheduler.free_pages() >= 0,
           "pages are those of the cached tokens");
    demand(scheduler.running() <= options.sequences, "at most `sequences` requests run");
    report.most_pages = std::max(report.most_pages, pages);
  }
  return report;
}

}  // namespace tinytorch::inline TT_BUILD::serving
