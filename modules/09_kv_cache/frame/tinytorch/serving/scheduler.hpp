// Scheduler: decides for each step of a server which requests compute which tokens. It knows lengths and
// pages, but no text, so that it runs alike before a model and in the simulator (simulator.hpp).
//
// The frame of a course header: it has the given parts, and includes the functions of task 9.10. It is cut
// from the library's header by modules/frames.py.
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

  void finish(const Step& step, const std::vector<int64_t>& ended = {});  // task 9.10

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

  void decode(Step& step, int64_t& budget, int64_t& free);                           // task 9.10
  void preempt(Step& step, int64_t& free);                                           // task 9.10
  void fill(Step& step, int64_t& budget, int64_t& free) const;                       // task 9.10
  void add_chunk(Step& step, const State& s, int64_t& budget, int64_t& free) const;  // task 9.10
  static bool in(const Step& step, int64_t id) {
    return std::ranges::any_of(step.parts, [id](const StepPart& p) { return p.id == id; });
  }

  void admit(Step& step, int64_t& budget, int64_t& free);  // task 9.10
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

#include <tasks/serving/scheduler.hpp>
