// Jobs are cancelled and wait again, submissions are withdrawn, hidden and shown again: who may do it, what
// it changes, and what stays.
#include <doctest/doctest.h>

#include <support/board.hpp>
#include <support/refusals.hpp>
#include <tinymlperf/board/store/transfer.hpp>
#include <tinymlperf/board/store/verify.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
using namespace tinymlperf::board;
using test::Board;
using test::holds;

namespace {

// A board with its owner Ada, a stranger and an instructor.
struct Class : Board {
  int64_t stranger = store.user_of(store.add_user("Eve")).value(),
          instructor = store.user_of(store.add_user("Grace", {}, true)).value();
  Queries queries{store};
  TableKey key{"dig", "open", "cpu-mt"};

  JobState state(int64_t job) { return queries.job(job)->state; }
  // The names of the table's rows, best first.
  std::string rows() {
    std::string out;
    const Table table = queries.table(key).value();
    for (const auto& row : table.rows) out += row.name + " ";
    return out;
  }
};

template <class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const Refusal& r) {
    return r.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a job that waits is cancelled by its owner or an instructor; another one is not") {
  Class c;
  const int64_t mlp = c.submit("mlp");
  const auto jobs = c.queries.submission(mlp)->jobs;
  REQUIRE(jobs.size() == 2);
  CHECK(refusal([&] { c.store.cancel(c.stranger, jobs[0].id); }) ==
        "job 1: expected one of the user whose token this is, found one of somebody else");
  for (const std::optional<int64_t> who : {std::optional<int64_t>(c.stranger), std::optional<int64_t>()})
    CHECK(refusal([&] { c.store.cancel(who, 99); }) == "job 99: expected one of this board, found none");
  c.store.cancel(c.user, jobs[0].id);
  CHECK(c.state(jobs[0].id) == JobState::cancelled);
  CHECK(c.queries.job(jobs[0].id)->message == "cancelled");
  CHECK(holds(refusal([&] { c.store.cancel(c.user, jobs[0].id); }), "found one that has ended"));
  const auto claim = c.store.queue().claim("cpu-mt");
  REQUIRE(claim);
  CHECK(claim->job == jobs[1].id);
  CHECK(holds(refusal([&] { c.store.cancel(c.instructor, jobs[1].id); }), "found one that is being played"));
  c.store.queue().finish(*claim, c.result(*claim));
  CHECK(holds(refusal([&] { c.store.cancel(c.user, jobs[1].id); }), "found one that was played"));
  CHECK(c.store.database().integer("SELECT count(*) FROM events WHERE kind = 'cancel'") == 1);
  CHECK(verify_board(c.store).empty());
}

TEST_CASE("a failed job waits again when an instructor asks, and by itself once if the machine failed") {
  Class c;
  c.submit("mlp");
  Queue& queue = c.store.queue();
  CHECK(queue.fail(queue.claim("cpu-mt").value(), "disk full", Fault::machine));
  CHECK(c.state(1) == JobState::queued);
  const Claim again = queue.claim("cpu-mt").value();
  CHECK(again.job == 1);
  CHECK_FALSE(queue.fail(again, "disk full", Fault::machine));
  CHECK(c.state(1) == JobState::failed);
  const Claim other = queue.claim("cpu-mt").value();
  CHECK(other.job == 2);
  CHECK_FALSE(queue.fail(other, "it does not compile", Fault::entry));
  CHECK_THROWS_AS(queue.fail(other, "twice", Fault::machine), LeaseLost);

  for (const int64_t who : {c.user, c.stranger})
    CHECK(refusal([&] { c.store.retry(who, 1); }) ==
          "token: expected that of an instructor, found another one");
  c.store.retry(c.instructor, 1);
  CHECK(holds(refusal([&] { c.store.retry(c.instructor, 1); }), "found one that waits"));
  // It is as new: the machine may fail once more.
  CHECK(queue.fail(queue.claim("cpu-mt").value(), "disk full", Fault::machine));
  c.store.retry({}, 2);
  c.work_off({.speedup = 2});
  CHECK(c.state(1) == JobState::done);
  CHECK(c.state(2) == JobState::done);
  CHECK(c.rows() == "mlp base ");
  CHECK(holds(refusal([&] { c.store.retry({}, 1); }), "found one that was played"));
  CHECK(holds(refusal([&] { c.store.retry({}, 99); }), "no such job"));
  CHECK(verify_board(c.store).empty());
}

TEST_CASE("a submission that is withdrawn before it was played is never played, and shows its reason alone") {
  Class c;
  const int64_t mlp = c.submit("mlp"), other = c.submit("other", 2);
  c.store.request_head_to_head(c.user, other, mlp);
  CHECK(holds(refusal([&] { c.store.withdraw(c.stranger, mlp, "why"); }), "somebody else"));
  CHECK(holds(refusal([&] { c.store.withdraw(c.user, mlp, " "); }), "reason"));
  CHECK(holds(refusal([&] { c.store.withdraw(c.user, mlp, "a\x1b[31m"); }), "control characters"));
  CHECK(holds(refusal([&] { c.store.withdraw({}, c.baseline, "why"); }), "no baseline"));
  CHECK(refusal([&] { c.store.withdraw({}, 99, "why"); }) ==
        "submission 99: expected one of this board, found none");
  const std::string before = c.queries.revision(mlp);
  c.store.withdraw(c.user, mlp, "Wrong weights.");
  CHECK(c.queries.revision(mlp) != before);
  CHECK(holds(refusal([&] { c.store.withdraw(c.user, mlp, "again"); }), "hidden already"));
  const Submission s = c.queries.submission(mlp).value();
  REQUIRE(s.hiding);
  CHECK(s.hiding->by_owner);
  CHECK(s.hiding->reason == "Wrong weights.");
  CHECK(s.files.empty());
  CHECK(s.difference.empty());
  for (const Job& job : s.jobs) CHECK(job.state == JobState::cancelled);
  CHECK(c.rows() == "base other ");
  CHECK(holds(refusal([&] { c.store.request_head_to_head(c.user, other, mlp); }), "that are shown"));
  CHECK(holds(refusal([&] { c.store.retry({}, s.jobs[0].id); }), "a hidden one's"));
  CHECK(c.state(s.jobs[0].id) == JobState::cancelled);  // a refused retry changed nothing
  while (const auto claim = c.store.queue().claim("cpu-mt")) {
    CHECK(claim->submission == other);
    CHECK(claim->against == c.baseline);
    c.store.queue().finish(*claim, c.result(*claim));
  }
  CHECK(verify_board(c.store).empty());
}

TEST_CASE("a submission that is hidden after it was played leaves its tables, and can be shown again") {
  Class c;
  const int64_t mlp = c.submit("mlp");
  c.work_off({.speedup = 2});
  const int64_t other = c.submit("other", 2);
  c.work_off({.speedup = 1.5});
  REQUIRE(c.queries.history(c.key).size() == 1);
  CHECK(c.queries.history(c.key)[0].submission == mlp);
  c.store.withdraw(c.instructor, mlp, "It was copied.");
  CHECK_FALSE(c.queries.submission(mlp)->hiding->by_owner);
  CHECK(c.queries.submission(mlp)->runs.empty());
  CHECK(c.rows() == "other base ");
  CHECK(c.queries.table(c.key)->rows[0].rank == 1);
  CHECK(c.queries.history(c.key)[0].submission == other);
  const FrontPage front = c.queries.front();
  for (const Category& category : front.categories)
    if (category.leader) CHECK(category.leader->submission != mlp);

  // The runs are still there, and an export carries the decision.
  CHECK(c.store.database().integer("SELECT count(*) FROM runs") == 4);
  CHECK(verify_board(c.store).empty());
  const std::string exported = export_board(c.store);
  {
    const test::BoardFolder f;
    Store copy(f.path, Board::with_clock({}));
    import_board(copy, exported);
    import_board(copy, exported);
    CHECK(copy.database().integer("SELECT count(*) FROM hidings") == 1);
    CHECK(Queries(copy).submission(mlp)->hiding->reason == "It was copied.");
    CHECK(ranks(copy) == ranks(c.store));
    CHECK(verify_board(copy).empty());
  }
  c.store.restore(mlp, "It was not.");
  CHECK(holds(refusal([&] { c.store.restore(mlp, "again"); }), "found one that is shown"));
  CHECK(c.rows().find("mlp") != std::string::npos);
  CHECK(c.queries.submission(mlp)->runs.size() == 2);
}

TEST_CASE("an export of a program that knew of no hidden submissions is read; a wrong list is refused") {
  Class c;
  const int64_t mlp = c.submit("mlp");
  const auto with = [&](const std::function<void(Json&)>& change) {
    auto files = bundle::read_archive(export_board(c.store), kBoardLimits);
    Json j = Json::parse(files[0].content);
    change(j);
    files[0].content = j.dump();
    const test::BoardFolder f;
    Store copy(f.path, Board::with_clock({}));
    return refusal([&] { import_board(copy, bundle::write_archive(files)); });
  };
  CHECK(with([](Json& j) { j.erase("hidden"); }) == "");
  c.store.withdraw({}, mlp, "why");
  CHECK(with([](Json&) {}) == "");
  CHECK(holds(with([](Json& j) { j["hidden"][0]["bundle"] = std::string(64, '0'); }), "a bundle of this"));
  CHECK(holds(with([](Json& j) { j["hidden"][0]["created"] = "2999-01-01T00:00:00Z"; }), "created"));
  CHECK(holds(with([](Json& j) { j["hidden"][0]["reason"] = ""; }), "reason"));
}
