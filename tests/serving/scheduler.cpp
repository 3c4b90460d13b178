#include <tinytorch/serving/scheduler.hpp>

#include <map>
#include <support/errors.hpp>

using namespace tinytorch::serving;

namespace {

std::vector<int64_t> ids_of(const Step& step) {
  std::vector<int64_t> ids;
  for (const StepPart& part : step.parts) ids.push_back(part.id);
  return ids;
}
using Ids = std::vector<int64_t>;

}  // namespace

TEST_CASE("writing requests come first, one token each, and a prompt fills the rest in pieces") {
  Scheduler s({.budget = 10, .sequences = 4, .pages = 100, .page = 4});
  s.submit({.id = 1, .prompt = 3, .most_new = 5});
  Step step = s.next();
  CHECK(ids_of(step) == Ids{1});
  CHECK(step.parts[0].count == 3);
  CHECK(step.parts[0].samples);
  s.finish(step);
  s.submit({.id = 2, .prompt = 25, .most_new = 2});
  int64_t seen = 0;
  for (const int64_t count : {9, 9, 7}) {
    step = s.next();
    CHECK(ids_of(step) == Ids{1, 2});
    CHECK(step.parts[0].count == 1);
    CHECK(step.parts[1].first == seen);
    CHECK(step.parts[1].count == count);
    CHECK(step.parts[1].samples == (count == 7));
    CHECK(step.tokens() <= 10);
    seen += count;
    s.finish(step);
  }
  step = s.next();
  CHECK(ids_of(step) == Ids{1, 2});
  s.finish(step);
  CHECK(s.idle());  // 1 has written 5 tokens, 2 has written 2
  CHECK(s.next().parts.empty());
}

TEST_CASE("a request is admitted only if all of its prompt fits") {
  Scheduler s({.budget = 4, .sequences = 8, .pages = 10, .page = 4});
  s.submit({.id = 1, .prompt = 24, .most_new = 1});  // six pages, of which the first step takes one
  s.submit({.id = 2, .prompt = 20, .most_new = 1});  // five pages: not before 1 has ended
  s.submit({.id = 3, .prompt = 2, .most_new = 1});   // would fit, and does not overtake
  for (int i = 0; i < 6; ++i) {
    const Step step = s.next();
    CHECK(ids_of(step) == Ids{1});
    s.finish(step);
  }
  CHECK(ids_of(s.next()) == Ids{2});
  CHECK(s.waiting() == 1);
}

TEST_CASE("the youngest request gives its pages back, and computes its own tokens again") {
  Scheduler s({.budget = 100, .sequences = 8, .pages = 4, .page = 4});
  s.submit({.id = 1, .prompt = 7, .most_new = 6});
  s.submit({.id = 2, .prompt = 7, .most_new = 6});
  Step step = s.next();
  CHECK(ids_of(step) == Ids{1, 2});
  s.finish(step);  // 7 tokens each are computed
  step = s.next();
  CHECK(step.preempted.empty());
  s.finish(step);  // 8 tokens: both pages of each are full
  step = s.next();
  CHECK(step.preempted == Ids{2});
  CHECK(ids_of(step) == Ids{1});
  s.finish(step);
  CHECK(s.held_pages() == 3);
  int steps = 0;
  for (step = s.next(); ids_of(step) != Ids{2}; step = s.next()) {
    s.finish(step);
    REQUIRE(++steps < 10);
  }
  CHECK(step.parts[0].first == 0);
  CHECK(step.parts[0].count == 9);  // its prompt and the two tokens that it had written
  CHECK(step.parts[0].samples);
}

TEST_CASE("a cancelled request frees its pages, waiting or running, in the middle of a step too") {
  Scheduler s({.budget = 8, .sequences = 1, .pages = 10, .page = 4});
  s.submit({.id = 1, .prompt = 6, .most_new = 9});
  s.submit({.id = 2, .prompt = 6, .most_new = 9});
  const Step step = s.next();
  CHECK(s.cancel(1));
  CHECK_FALSE(s.cancel(1));
  s.finish(step);
  CHECK(s.held_pages() == 0);
  CHECK(s.cancel(2));
  CHECK(s.idle());
}

TEST_CASE("requests and schedulers that cannot run are refused") {
  test::expect_error("TT-SERVE-01", "at least 1", [] { Scheduler none({.budget = 0}); });
  Scheduler s({.budget = 8, .sequences = 1, .pages = 3, .page = 4});
  test::expect_error("TT-SERVE-02", "room for 12", [&] { s.submit({.id = 1, .prompt = 8, .most_new = 5}); });
  test::expect_error("TT-SERVE-02", "at least one token",
                     [&] { s.submit({.id = 1, .prompt = 0, .most_new = 5}); });
  s.submit({.id = 1, .prompt = 8, .most_new = 4});
  test::expect_error("TT-SERVE-02", "there already",
                     [&] { s.submit({.id = 1, .prompt = 1, .most_new = 1}); });
}

TEST_CASE("with shared pages a request begins behind its reused tokens, and cached pages count as free") {
  // Ten pages of four tokens. Each request may reuse the first two pages of a common beginning.
  struct Common : SharedPages {
    Reuse reusable(int64_t) const override { return {8, holders == 0 ? 2 : 0}; }
    int64_t begin(int64_t id) override {
      ++holders, own[id] = 0;
      return 8;
    }
    void give_back(int64_t id) override { --holders, own.erase(id); }
    int64_t available() const override {
      int64_t pages = 10 - (holders > 0 ? 2 : 0);
      for (const auto& [id, n] : own) pages -= n;
      return pages;
    }
    int64_t holders = 0;
    std::map<int64_t, int64_t> own;  // pages of each request alone
  } common;
  Scheduler s({.budget = 100, .sequences = 8, .pages = 10, .page = 4}, &common);
  for (int64_t id = 1; id <= 5; ++id) s.submit({.id = id, .prompt = 16, .most_new = 9});
  Step step = s.next();
  CHECK(ids_of(step) == Ids{1, 2, 3, 4});  // two common pages, and two for each
  for (const StepPart& part : step.parts) {
    CHECK(part.first == 8);
    CHECK(part.count == 8);
    common.own[part.id] = 2;
  }
  CHECK(s.free_pages() == 0);
  s.finish(step);
  // Each writes into a new page: the youngest gives its own two pages back, and the common ones stay.
  step = s.next();
  CHECK(step.preempted == Ids{4, 3});
  CHECK(ids_of(step) == Ids{1, 2});
  for (const StepPart& part : step.parts) common.own[part.id] = 3;
  CHECK(s.free_pages() == 2);
  CHECK(s.held_pages() == 8);
}
