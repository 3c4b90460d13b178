#include <tinytorch/serving/scheduler.hpp>

#include <support/check.hpp>

using namespace course;
using namespace serving;

namespace {

// A server whose model is a hash: the next token depends on every token that is in the cache. It checks what
// the scheduler promises, in each step, with pages and lengths that it counts itself.
class Server {
 public:
  explicit Server(const SchedulerOptions& given, std::string name = "")
      : scheduler(given), options_(given), name_(std::move(name)) {}

  // A request whose text ends after `ends_after` new tokens, or at most_new if that is 0.
  void submit(int64_t id, int64_t prompt, int64_t most_new, int64_t ends_after = 0) {
    scheduler.submit({.id = id, .prompt = prompt, .most_new = most_new});
    Text& t = texts_[id];
    t.order = std::ssize(texts_), t.prompt = prompt;
    t.end = ends_after > 0 ? std::min(ends_after, most_new) : most_new;
    for (int64_t i = 0; i < prompt; ++i) t.tokens.push_back(static_cast<uint64_t>(1000 * id + i));
    t.alone = alone(t);
  }
  void cancel(int64_t id) {
    scheduler.cancel(id);
    texts_.erase(id);
  }
  bool done() const {
    for (const auto& [id, t] : texts_) {
      if (!t.ended) return false;
    }
    return true;
  }
  // Runs until all texts have ended.
  void run(int64_t most_steps = 20000) {
    for (int64_t i = 0; i < most_steps && !done(); ++i) step();
    promise(done(), "all requests end; after " + shown(most_steps) + " steps some have not");
    promise(scheduler.idle() && scheduler.held_pages() == 0, "at the end it is idle and holds no page");
  }
  Step step() {
    const std::set<int64_t> writing = running_with(true), present = running_with(false);
    const Step step = scheduler.next();
    promise(!step.parts.empty(), "a step computes something while a request waits or runs");
    for (const int64_t id : step.preempted) {
      promise(!cached_of(id).empty(), "a request that is preempted has pages");
      for (const auto& [other, t] : texts_)
        promise(t.cached.empty() || t.order <= texts_.at(id).order, "the youngest request gives way");
      texts_.at(id).cached.clear();
      ++preemptions;
    }
    int64_t tokens = 0;
    std::vector<int64_t> ended;
    std::set<int64_t> seen;
    for (const StepPart& part : step.parts) {
      promise(seen.insert(part.id).second, "a request has one part of a step");
      admit(part, step);
      tokens += part.count;
    }
    for (const StepPart& part : step.parts) compute(part, ended);
    promise(tokens <= options_.budget,
            "a step of " + shown(tokens) + " tokens, budget " + shown(options_.budget));
    promise(pages() <= options_.pages, shown(pages()) + " pages of " + shown(options_.pages));
    promise(std::ssize(running_with(false)) <= options_.sequences, "at most `sequences` requests run");
    for (const int64_t id : writing) {
      const bool gone = std::ranges::find(step.preempted, id) != step.preempted.end();
      promise(gone || seen.count(id) > 0 || std::ssize(writing) > options_.budget,
              "request " + shown(id) + " writes a token in each step, whatever prompts wait");
    }
    most_running = std::max(most_running, std::ssize(running_with(false)));
    for (const int64_t id : ended) texts_.at(id).cached.clear(), texts_.at(id).ended = true;
    scheduler.finish(step, ended);
    promise(scheduler.held_pages() == pages(), "it holds the pages of the cached tokens: " + shown(pages()) +
                                                   ", not " + shown(scheduler.held_pages()));
    ++steps;
    return step;
  }
  int64_t written(int64_t id) const { return std::ssize(texts_.at(id).tokens) - texts_.at(id).prompt; }
  const std::vector<uint64_t>& cached_of(int64_t id) const { return texts_.at(id).cached; }

  Scheduler scheduler;
  int64_t steps = 0, preemptions = 0, most_running = 0;

 private:
  struct Text {
    int64_t order = 0, prompt = 0, end = 0;
    bool ended = false;
    std::vector<uint64_t> tokens{}, cached{}, alone{};
  };
  void promise(bool holds, const std::string& what) const {
    expect(name_ + "step " + shown(steps) + ": " + what, holds);
  }
  static uint64_t next_token(const std::vector<uint64_t>& cached) {
    uint64_t hash = 1469598103934665603u;
    for (const uint64_t token : cached) hash = (hash ^ token) * 1099511628211u;
    return hash;
  }
  // The text of a request that runs alone.
  static std::vector<uint64_t> alone(const Text& t) {
    std::vector<uint64_t> tokens = t.tokens;
    for (int64_t i = 0; i < t.end; ++i) tokens.push_back(next_token(tokens));
    return tokens;
  }
  int64_t pages_of(int64_t tokens) const { return (tokens + options_.page - 1) / options_.page; }
  int64_t pages() const {
    int64_t n = 0;
    for (const auto& [id, t] : texts_) n += pages_of(std::ssize(t.cached));
    return n;
  }
  // Requests with tokens in the cache; writing: of these, those that have written.
  std::set<int64_t> running_with(bool writing) const {
    std::set<int64_t> ids;
    for (const auto& [id, t] : texts_) {
      const bool writes = std::ssize(t.tokens) > t.prompt && t.tokens.size() == t.cached.size() + 1;
      if (!t.cached.empty() && (writes || !writing)) ids.insert(id);
    }
    return ids;
  }
  // If this part is the first of a request: earlier ones do not wait, and all of it fits beside the others.
  void admit(const StepPart& part, const Step& step) {
    const Text& own = texts_.at(part.id);
    if (!own.cached.empty()) return;
    int64_t need = pages_of(std::ssize(own.tokens));
    for (const auto& [id, t] : texts_) {
      if (id == part.id || t.ended) continue;
      const bool comes = std::ranges::any_of(step.parts, [&](const StepPart& p) { return p.id == id; });
      promise(
          t.order > own.order || !t.cached.empty() || comes,
          "request " + shown(part.id) + " does not overtake request " + shown(id) + ", which came before it");
      if (!t.cached.empty() || (comes && t.order < own.order)) need += pages_of(std::ssize(t.tokens));
    }
    promise(need <= options_.pages, "request " + shown(part.id) +
                                        " begins only if all its tokens fit beside those of the others: " +
                                        shown(need) + " pages of " + shown(options_.pages));
  }
  void compute(const StepPart& part, std::vector<int64_t>& ended) {
    Text& t = texts_.at(part.id);
    const std::string what = "request " + shown(part.id) + ": tokens " + shown(part.first) + " to " +
                             shown(part.first + part.count) + " of " + shown(std::ssize(t.tokens));
    promise(part.count > 0 && part.first == std::ssize(t.cached), what + " come next");
    promise(part.first + part.count <= std::ssize(t.tokens), what + " exist");
    t.cached.insert(t.cached.end(), t.tokens.begin() + part.first,
                    t.tokens.begin() + part.first + part.count);
    promise(part.samples == (t.cached.size() == t.tokens.size()),
            what + ": a part that ends with the last token, and no other, gives a new one");
    if (!part.samples) return;
    t.tokens.push_back(next_token(t.cached));
    promise(std::equal(t.tokens.begin(), t.tokens.end(), t.alone.begin()),
            what + ": the text is that of a request that runs alone");
    if (written(part.id) == t.end) ended.push_back(part.id);
  }

  SchedulerOptions options_;
  std::string name_;
  std::map<int64_t, Text> texts_;
};

StepPart part_of(const Step& step, int64_t id) {
  for (const StepPart& p : step.parts) {
    if (p.id == id) return p;
  }
  return {id, 0, 0, false};
}

}  // namespace

TEST_CASE("9.10 one request: its prompt in pieces, then a token in each step") {
  Server server({.budget = 8, .sequences = 4, .pages = 10, .page = 4});
  server.submit(7, 19, 3);
  for (const int64_t count : {8, 8, 3, 1, 1})
    expect_equal("tokens of the step, for a prompt of 19 and a budget of 8", server.step().tokens(), count);
  expect("three tokens are written, and the request has ended", server.done() && server.scheduler.idle());
  expect_equal("pages that are held", server.scheduler.held_pages(), int64_t{0});
}

TEST_CASE("9.10 a request joins in any step and leaves when it ends") {
  Server server({.budget = 32, .sequences = 3, .pages = 40, .page = 4});
  server.submit(1, 5, 20), server.submit(2, 6, 3);
  expect_equal("parts of the first step: both prompts", std::ssize(server.step().parts), int64_t{2});
  server.submit(3, 4, 9);
  const Step joined = server.step();
  expect_equal("tokens of the next one: a token of two requests, and a prompt of 4", joined.tokens(),
               int64_t{6});
  server.submit(4, 4, 2);
  server.step();  // request 2 writes its last token
  const Step next = server.step();
  expect_equal("request 4 takes the place of request 2: its prompt", part_of(next, 4).count, int64_t{4});
  server.run();
  expect_equal("steps: those of the longest text", server.steps, int64_t{20});
}

TEST_CASE("9.10 texts go on while a long prompt is computed in pieces") {
  Server server({.budget = 10, .sequences = 8, .pages = 200, .page = 4});
  for (int64_t id = 0; id < 4; ++id) server.submit(id, 2, 40);
  server.step();
  server.submit(9, 100, 5);
  int64_t pieces = 0;
  for (; server.written(9) == 0; ++pieces) {
    const Step step = server.step();
    expect_equal("a token of each text, and 6 tokens of the prompt, or the last 4", part_of(step, 9).count,
                 pieces < 16 ? int64_t{6} : int64_t{4});
  }
  expect_equal("steps of a prompt of 100 beside 4 texts, budget 10", pieces, int64_t{17});
  expect_equal("tokens that a text has written meanwhile", server.written(0), int64_t{18});
  server.run();
}

TEST_CASE("9.10 a prompt begins only if all of it fits beside those that have begun") {
  // Two prompts of 7 pages, and 10 pages: if both began, none of them could be finished.
  Server server({.budget = 8, .sequences = 4, .pages = 10, .page = 4},
                "two prompts of 28 tokens, 10 pages of 4: ");
  server.submit(1, 28, 4), server.submit(2, 28, 4);
  server.run();
  expect_equal("requests that ran at the same time", server.most_running, int64_t{1});
}

TEST_CASE("9.10 if no page is left the youngest gives way, and its text is the same") {
  Server server({.budget = 64, .sequences = 4, .pages = 6, .page = 2});
  server.submit(1, 3, 8), server.submit(2, 3, 7), server.submit(3, 2, 6);
  server.run();
  expect("6 pages are too few for these texts: somebody was preempted", server.preemptions > 0);
}

TEST_CASE("9.10 a request that ends early, or is cancelled, gives its pages back") {
  Server server({.budget = 16, .sequences = 4, .pages = 8, .page = 4});
  server.submit(1, 6, 20, 2), server.submit(2, 5, 20), server.submit(3, 9, 3);
  server.step(), server.step();
  expect("request 1 ended after 2 of 20 tokens", !server.done() && server.cached_of(1).empty());
  server.cancel(2);
  server.run();
}

TEST_CASE("9.10 a static batch takes nobody until all have ended") {
  Server server({.budget = 64, .sequences = 2, .pages = 40, .page = 4, .batching = Batching::static_batch});
  server.submit(1, 4, 2), server.submit(2, 4, 9), server.submit(3, 4, 3);
  for (int i = 0; i < 9; ++i) expect_equal("part of request 3", part_of(server.step(), 3).count, int64_t{0});
  expect_equal("the second batch", part_of(server.step(), 3).count, int64_t{4});
  server.run();
}

TEST_CASE("9.10 random servers: every request ends, with its own text") {
  int64_t preemptions = 0;
  for (int server_number = 0; server_number < 120; ++server_number) {
    const auto pick = [](int64_t low, int64_t high) {
      return static_cast<int64_t>(uniform(static_cast<double>(low), static_cast<double>(high) + 0.999));
    };
    const SchedulerOptions options{
        .budget = pick(1, 20), .sequences = pick(1, 6), .pages = pick(6, 30), .page = pick(1, 5)};
    Server server(options, "budget " + shown(options.budget) + ", sequences " + shown(options.sequences) +
                               ", " + shown(options.pages) + " pages of " + shown(options.page) + ": ");
    const int64_t most = options.pages * options.page;
    int64_t id = 0;
    for (int i = 0; i < 25; ++i) {
      for (int64_t n = pick(0, 2); n > 0; --n) {
        const int64_t prompt = pick(1, std::max<int64_t>(1, most / 2));
        server.submit(id++, prompt, pick(1, std::min<int64_t>(12, most - prompt)), pick(0, 6));
      }
      if (!server.done()) server.step();
    }
    server.run();
    preemptions += server.preemptions;
  }
  expect("some of the servers preempted", preemptions > 0);
}
