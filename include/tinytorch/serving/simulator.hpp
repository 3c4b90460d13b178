// Simulator: a server without a model. It runs a scheduler on a virtual clock, so that policies are compared
// in milliseconds and every run is the same, and it checks the scheduler's promises after each step.
//
//   const SimulationReport r = simulate(options, arrivals, cost);
//   r.tokens_per_s, r.requests[i].first_token, r.preemptions
//
// Prompts of the same group begin with the same tokens, and share the full pages of them (a prefix cache).
#pragma once

#include <map>
#include <stdexcept>
#include <tinytorch/serving/scheduler.hpp>

namespace tinytorch::inline TT_BUILD::serving {

struct Arrival {
  double at = 0;  // seconds; arrivals are in order
  Request request{};
  int64_t ends_after = 0;         // new tokens after which the text ends by itself; 0: at most_new
  int64_t group = 0, shared = 0;  // the first `shared` tokens of the prompt are those of all of its group
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
  int64_t reused = 0;                              // tokens that a prefix cache had
  int64_t most_pages = 0;                          // held at the same time
  double tokens_per_s() const {
    int64_t written = 0;
    for (const auto& [id, r] : requests) written += r.written;
    return seconds > 0 ? static_cast<double>(written) / seconds : 0;
  }
};

namespace simulation {

inline void demand(bool holds, const char* what) {
  if (!holds) throw std::logic_error(std::string("the scheduler broke a promise: ") + what);
}

// The pages of all requests, as numbers. The first pages of a group belong to the group once they have been
// computed; the longest-unused ones go when the cache is full.
class Pages : public SharedPages {
 public:
  Pages(int64_t pages, int64_t page) : total_(pages), page_(page) {}

  void add(const Arrival& a) {
    requests_[a.request.id] = {
        .group = a.group, .shared = std::min(a.shared, a.request.prompt) / page_, .length = a.request.prompt};
  }
  Reuse reusable(int64_t id) const override {
    const State& s = requests_.at(id);
    const auto found = groups_.find(s.group);
    if (found == groups_.end()) return {};
    const std::vector<int64_t>& holders = found->second.holders;
    Reuse out;
    for (int64_t i = 0; i < std::min({s.shared, std::ssize(holders), (s.length - 1) / page_}); ++i)
      out.tokens += page_, out.cached += holders[static_cast<size_t>(i)] == 0;
    return out;
  }
  int64_t begin(int64_t id) override {
    State& s = requests_.at(id);
    s.tokens = reusable(id).tokens, s.attached = s.tokens / page_, reused_ += s.tokens;
    Group& group = groups_[s.group];
    group.used = ++clock_;
    for (int64_t i = 0; i < s.attached; ++i) ++group.holders[static_cast<size_t>(i)];
    return s.tokens;
  }
  void give_back(int64_t id) override {
    State& s = requests_.at(id);
    for (int64_t i = 0; i < s.attached; ++i) --groups_[s.group].holders[static_cast<size_t>(i)];
    s.tokens = s.attached = 0;
  }
  int64_t available() const override { return total_ - held(); }

  // So many more tokens of a request are cached.
  void compute(int64_t id, int64_t count) {
    State& s = requests_.at(id);
    s.tokens += count;
    Group& group = groups_[s.group];
    for (; s.attached < std::min(s.shared, s.tokens / page_); ++s.attached) {
      if (s.attached == std::ssize(group.holders)) group.holders.push_back(0);
      ++group.holders[static_cast<size_t>(s.attached)];
    }
    group.used = ++clock_;
  }
  void lengthen(int64_t id) { ++requests_.at(id).length; }
  void end(int64_t id) { give_back(id), requests_.erase(id); }
  int64_t reused() const { return reused_; }
  int64_t tokens(int64_t id) const { return requests_.at(id).tokens; }

  // Pages that some request holds, each counted once.
  int64_t held() const {
    int64_t pages = 0;
    for (const auto& [id, s] : requests_) pages += ceil_div(s.tokens, page_) - s.attached;
    for (const auto& [id, g] : groups_)
      pages += std::ranges::count_if(g.holders, [](int64_t n) { return n > 0; });
    return pages;
  }
  // Cached pages that nobody holds go until all pages fit.
  void evict() {
    while (held() + cached() > total_) {
      Group* oldest = nullptr;
      for (auto& [id, g] : groups_)
        if (!g.holders.empty() && g.holders.back() == 0 && (!oldest || g.used < oldest->used)) oldest = &g;
      demand(oldest, "a step needs no more pages than there are");
      oldest->holders.pop_back();
    }
  }

 private:
  struct State {
    int64_t group, shared;  // shared: full pages at the beginning of the prompt
    int64_t length;         // prompt and written tokens
    int64_t tokens = 0;     // cached ones
    int64_t attached = 0;   // pages of the group that the request holds
  };
  struct Group {
    std::vector<int64_t> holders{};  // of each cached page
    int64_t used = 0;
  };
  int64_t cached() const {
    int64_t pages = 0;
    for (const auto& [id, g] : groups_) pages += std::ranges::count(g.holders, 0);
    return pages;
  }

  int64_t total_, page_, clock_ = 0, reused_ = 0;
  std::map<int64_t, State> requests_;
  std::map<int64_t, Group> groups_;
};

// One run of simulate().
class Run {
 public:
  Run(const SchedulerOptions& options, const StepCost& cost, bool prefix_cache, Loc loc)
      : options_(options),
        cost_(cost),
        prefix_cache_(prefix_cache),
        pages_(options.pages, options.page),
        scheduler_(options, prefix_cache ? &pages_ : nullptr, loc) {}

  SimulationReport report(const std::vector<Arrival>& arrivals, Loc loc) {
    size_t arrived = 0;
    while (arrived < arrivals.size() || !scheduler_.idle()) {
      if (scheduler_.idle()) report_.seconds = std::max(report_.seconds, arrivals[arrived].at);
      for (; arrived < arrivals.size() && arrivals[arrived].at <= report_.seconds; ++arrived)
        arrive(arrivals[arrived], loc);
      const Step step = scheduler_.next();
      compute(step);
      const std::vector<int64_t> ended = write(step);
      scheduler_.finish(step, ended);
      for (const int64_t id : ended) pages_.end(id);
      demand(pages_.held() == scheduler_.held_pages() && scheduler_.free_pages() >= 0,
             "pages are those of the cached tokens");
      demand(scheduler_.running() <= options_.sequences, "at most `sequences` requests run");
    }
    report_.reused = pages_.reused();
    return report_;
  }

 private:
  void arrive(Arrival a, Loc loc) {
    if (!prefix_cache_) a.shared = 0;
    pages_.add(a);
    scheduler_.submit(a.request, loc);
    report_.requests[a.request.id].arrival = a.at;
    const int64_t most = a.request.most_new;
    ends_[a.request.id] = a.ends_after > 0 ? std::min(a.ends_after, most) : most;
  }
  void compute(const Step& step) {
    demand(!step.parts.empty(), "a step computes something while there is a request");
    demand(step.tokens() <= options_.budget, "a step has at most `budget` tokens");
    for (const int64_t id : step.preempted) {
      if (!prefix_cache_) pages_.give_back(id);
      ++report_.requests[id].preemptions, ++report_.preemptions;
    }
    report_.seconds += cost_.fixed + cost_.per_token * static_cast<double>(step.tokens());
    for (const StepPart& part : step.parts) {
      demand(part.count > 0 && part.first == pages_.tokens(part.id),
             "tokens are computed once, in their order");
      pages_.compute(part.id, part.count);
      report_.seconds += cost_.per_cached_token * static_cast<double>(pages_.tokens(part.id));
    }
    pages_.evict();
    report_.most_pages = std::max(report_.most_pages, pages_.held());
    report_.tokens += step.tokens(), ++report_.steps;
  }
  // Returns the requests that have ended.
  std::vector<int64_t> write(const Step& step) {
    std::vector<int64_t> ended;
    for (const StepPart& part : step.parts) {
      RequestReport& r = report_.requests[part.id];
      if (!part.samples) continue;
      if (++r.written == 1) r.first_token = report_.seconds;
      pages_.lengthen(part.id);
      if (r.written < ends_[part.id]) continue;
      r.end = report_.seconds;
      ended.push_back(part.id);
    }
    return ended;
  }

  SchedulerOptions options_;
  StepCost cost_;
  bool prefix_cache_;
  Pages pages_;
  Scheduler scheduler_;
  SimulationReport report_;
  std::map<int64_t, int64_t> ends_;  // new tokens of each request until its end
};

}  // namespace simulation

// Runs until all requests have ended, with a prefix cache or without. Throws std::logic_error, which is a
// fault of the scheduler, if a step breaks a promise: no progress, too many tokens, pages that do not exist,
// or a token computed before its predecessor.
inline SimulationReport simulate(const SchedulerOptions& options, const std::vector<Arrival>& arrivals,
                                 const StepCost& cost = {}, bool prefix_cache = false, TT_LOC) {
  return simulation::Run(options, cost, prefix_cache, loc).report(arrivals, loc);
}

}  // namespace tinytorch::inline TT_BUILD::serving
