// Scheduler: decides for each step of a server which requests compute which tokens. It knows lengths and
// pages, but no text, so that it runs alike before a model and in the simulator (simulator.hpp).
//
//   scheduler.submit({.id = 7, .prompt = 300, .most_new = 100});
//   const Step step = scheduler.next();      // parts: {request, first token, number of tokens}
//   ... compute them; each part with `samples` gives one new token ...
//   scheduler.finish(step, ended);           // ended: requests whose new token was their last
//
// Continuous batching (Yu et al., "Orca", 2022): a request joins when there is room and leaves when it ends,
// in any step. Chunked prefill (Agrawal et al., "Sarathi-Serve", 2024): decoding requests come first, one
// token each, and prompts fill the rest of the step's budget, in pieces if need be, so that no prompt delays
// the others. Preemption by recomputation (Kwon et al., 2023): if no page is left for a decoding request, the
// youngest one gives its pages back and computes its tokens again later.
//
// These invariants hold in every step, for these reasons:
//   progress       the oldest running request is never preempted for a younger one, and a request is admitted
//                  only if the whole of it fits beside the running ones: so nobody waits for ever
//   pages          free + held = total, because only pages_for() of a running request are held; with a prefix
//                  cache (SharedPages), cached pages that nobody holds count as free
//   budget         a step has at most `budget` tokens and `sequences` requests
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <tinytorch/core/error.hpp>
#include <tinytorch/core/shape.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::serving {

struct Request {
  int64_t id = 0;
  int64_t prompt = 1;    // tokens
  int64_t most_new = 1;  // tokens that it may write
};

// static_batch waits until all requests of a batch have ended before it admits others: what servers did
// before continuous batching, to compare with.
enum class Batching { continuous, static_batch };

struct SchedulerOptions {
  int64_t budget = 512;    // tokens of a step
  int64_t sequences = 64;  // requests that run at the same time
  int64_t pages = 1024, page = 16;
  Batching batching = Batching::continuous;
};

struct StepPart {
  int64_t id;
  int64_t first, count;  // tokens of the request, which has the prompt and what it has written so far
  bool samples;          // its last token gives a new one
};
struct Step {
  std::vector<StepPart> parts{};
  std::vector<int64_t> preempted{};  // these requests have lost their pages
  int64_t tokens() const {
    int64_t n = 0;
    for (const StepPart& part : parts) n += part.count;
    return n;
  }
};

// The pages of a cache in which requests with a common beginning share pages. Without one, each request has
// pages of its own, and the scheduler counts them itself.
class SharedPages {
 public:
  struct Reuse {
    int64_t tokens = 0;  // of a request, which need not be computed
    int64_t cached = 0;  // pages of them that no request holds now
  };
  virtual ~SharedPages() = default;
  // Returns what a waiting request would get, and changes nothing.
  virtual Reuse reusable(int64_t id) const = 0;
  // Admits the request and gives it the reusable tokens: full pages, and fewer tokens than it has. Returns
  // their number.
  virtual int64_t begin(int64_t id) = 0;
  // The request has lost its pages.
  virtual void give_back(int64_t id) = 0;
  // Pages that can be taken: free ones, and cached ones that no request holds.
  virtual int64_t available() const = 0;
};

class Scheduler {
 public:
  // `shared` may be null; otherwise it must outlive the scheduler.
  explicit Scheduler(const SchedulerOptions& options, SharedPages* shared = nullptr, TT_LOC)
      : options_(options), shared_(shared) {
    if (options.budget < 1 || options.sequences < 1 || options.pages < 1 || options.page < 1) {
      fail("TT-SERVE-01", "a scheduler needs a budget, sequences, pages and tokens of a page of at least 1",
           loc);
    }
  }

  // Queues a request. Throws TT-SERVE-02 if it could never run.
  void submit(const Request& request, TT_LOC) {
    const int64_t most = request.prompt + request.most_new;
    if (request.prompt < 1 || request.most_new < 1 || most > options_.pages * options_.page) {
      fail("TT-SERVE-02",
           "request " + std::to_string(request.id) + " of " + std::to_string(request.prompt) + " + " +
               std::to_string(request.most_new) + " tokens cannot run: the cache has room for " +
               std::to_string(options_.pages * options_.page) +
               "\n  rule: a prompt and an answer of at least one token",
           loc);
    }
    if (find(request.id))
      fail("TT-SERVE-02", "request " + std::to_string(request.id) + " is there already", loc);
    waiting_.push_back({request, 0, 0});
  }
  // Forgets a request, wherever it is. False if there is none.
  bool cancel(int64_t id) {
    const auto is = [id](const State& s) { return s.request.id == id; };
    return std::erase_if(running_, is) + std::erase_if(waiting_, is) > 0;
  }

  bool idle() const { return running_.empty() && waiting_.empty(); }
  int64_t running() const { return std::ssize(running_); }
  int64_t waiting() const { return std::ssize(waiting_); }
  int64_t held_pages() const {
    if (shared_) return options_.pages - shared_->available();
    int64_t pages = 0;
    for (const State& s : running_) pages += pages_for(s.computed);
    return pages;
  }
  int64_t free_pages() const { return options_.pages - held_pages(); }

  // The next step. It is empty only if the scheduler is idle.
  Step next() {
    Step step;
    int64_t budget = options_.budget, free = free_pages();
    decode(step, budget, free);
    fill(step, budget, free);
    admit(step, budget, free);
    return step;
  }

  // The step was computed. `ended`: requests whose new token was an end token or a stop text.
  void finish(const Step& step, const std::vector<int64_t>& ended = {}) {
    for (const StepPart& part : step.parts) {
      State* const s = find(part.id);
      if (!s) continue;  // cancelled meanwhile
      s->computed += part.count;
      s->written += part.samples;
    }
    std::erase_if(running_, [&](const State& s) {
      return s.written >= s.request.most_new || std::ranges::find(ended, s.request.id) != ended.end();
    });
  }

 private:
  struct State {
    Request request;
    int64_t computed;  // tokens whose keys are in the cache
    int64_t written;   // new tokens; the last one is not computed yet
    int64_t length() const { return request.prompt + written; }
    int64_t missing() const { return length() - computed; }
  };

  int64_t pages_for(int64_t tokens) const { return ceil_div(tokens, options_.page); }
  int64_t new_pages(const State& s, int64_t count) const {
    return pages_for(s.computed + count) - pages_for(s.computed);
  }
  State* find(int64_t id) {
    for (State& s : running_)
      if (s.request.id == id) return &s;
    for (State& s : waiting_)
      if (s.request.id == id) return &s;
    return nullptr;
  }
  void add(Step& step, const State& s, int64_t count, int64_t& budget, int64_t& free) const {
    step.parts.push_back({s.request.id, s.computed, count, s.computed + count == s.length()});
    budget -= count;
    free -= new_pages(s, count);
  }

  // One token for each request that writes. The youngest request gives way until the pages suffice.
  void decode(Step& step, int64_t& budget, int64_t& free) {
    for (size_t i = 0; i < running_.size() && budget > 0; ++i) {
      if (running_[i].missing() != 1) continue;
      while (new_pages(running_[i], 1) > free && i + 1 < running_.size()) preempt(step, free);
      if (new_pages(running_[i], 1) > free) {  // it is the youngest itself
        preempt(step, free);
        break;
      }
      add(step, running_[i], 1, budget, free);
    }
  }
  void preempt(Step& step, int64_t& free) {
    State s = running_.back();
    running_.pop_back();
    if (shared_) {  // pages that others hold too do not become free
      const int64_t before = shared_->available();
      shared_->give_back(s.request.id);
      free += shared_->available() - before;
    } else {
      free += pages_for(s.computed);
    }
    s.computed = 0;
    step.preempted.push_back(s.request.id);
    waiting_.push_front(s);
  }
  // Prompts that have begun, the oldest first.
  void fill(Step& step, int64_t& budget, int64_t& free) const {
    for (const State& s : running_) {
      if (budget == 0) return;
      if (s.missing() > 1 && !in(step, s.request.id)) add_chunk(step, s, budget, free);
    }
  }
  // Adds as many tokens of a prompt to the step as budget and pages allow.
  void add_chunk(Step& step, const State& s, int64_t& budget, int64_t& free) const {
    const int64_t room = (pages_for(s.computed) + free) * options_.page - s.computed;
    const int64_t count = std::min({s.missing(), budget, room});
    if (count > 0) add(step, s, count, budget, free);
  }
  static bool in(const Step& step, int64_t id) {
    return std::ranges::any_of(step.parts, [id](const StepPart& p) { return p.id == id; });
  }

  // Waiting requests in their order. One is admitted if all its tokens so far fit. Prompts that have begun
  // are served before: where one of them is not complete, no budget or no page is left here. A step that
  // preempted somebody admits nobody.
  void admit(Step& step, int64_t& budget, int64_t& free) {
    if (!step.preempted.empty() && !step.parts.empty()) return;
    if (options_.batching == Batching::static_batch && !running_.empty() && !fresh_batch()) return;
    while (!waiting_.empty() && budget > 0 && running() < options_.sequences) {
      const State s = waiting_.front();
      const SharedPages::Reuse reuse = shared_ ? shared_->reusable(s.request.id) : SharedPages::Reuse{};
      const int64_t added = pages_for(s.length()) - pages_for(reuse.tokens) + reuse.cached;
      if (added > free) return;
      waiting_.pop_front();
      running_.push_back(s);
      if (shared_) running_.back().computed = shared_->begin(s.request.id);
      free -= reuse.cached;
      add_chunk(step, running_.back(), budget, free);
    }
  }
  // A static batch takes requests until one of them has written.
  bool fresh_batch() const {
    return std::ranges::all_of(running_, [](const State& s) { return s.written == 0; });
  }

  SchedulerOptions options_;
  SharedPages* shared_;
  std::vector<State> running_;  // in the order of admission
  std::deque<State> waiting_;
};

}  // namespace tinytorch::inline TT_BUILD::serving
