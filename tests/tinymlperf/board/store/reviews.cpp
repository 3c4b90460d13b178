// Results that are held for audit A9 or A11: released or refused by the operator of the board, shown,
// exported, never changed.
#include <doctest/doctest.h>

#include <support/board.hpp>
#include <support/refusals.hpp>
#include <tinymlperf/board/pages/submission.hpp>
#include <tinymlperf/board/store/queries.hpp>
#include <tinymlperf/board/store/transfer.hpp>
#include <tinymlperf/board/store/verify.hpp>
#include <tinymlperf/board/web/json.hpp>
#include <tinymlperf/board/work/worker.hpp>
#include <tinymlperf/commands/review.hpp>
#include <tinytorch/tinytorch.hpp>

#include <tinymlperf/board/html_checker.hpp>

using namespace tinymlperf;
using namespace tinymlperf::board;
using test::Board;
using test::holds, test::refusal;

namespace {

const judge::AuditResult kQuick{"A9", "convergence", false, "3 epochs, the reference 9"};

// The first run of a submission is held, the second is not.
struct Held : Board {
  int64_t quick = submit("quick"), run = 0;
  Held() {
    const auto first = store.queue().claim("cpu-mt").value();
    run = store.queue().finish(first, result(first, {.speedup = 2, .audits = {kQuick}}));
    work_off({.speedup = 2});
  }
  board::Row row() {
    const Table table = Queries(store).table({"dig", "open", "cpu-mt"}).value();
    for (const board::Row& r : table.rows)
      if (r.submission == quick) return r;
    throw std::out_of_range("no such row");
  }
  Run view() {
    const Submission s = Queries(store).submission(quick).value();
    for (const Run& r : s.runs)
      if (r.id == run) return r;
    throw std::out_of_range("no such run");
  }
};

std::string said(const std::function<int(std::FILE*)>& command) {
  std::FILE* file = std::tmpfile();
  command(file);
  std::string text(static_cast<size_t>(std::ftell(file)), ' ');
  std::rewind(file);
  CHECK(std::fread(text.data(), 1, text.size(), file) == text.size());
  std::fclose(file);
  return text;
}

}  // namespace

TEST_CASE("a held result has no rank until it is released; the last word counts, and all are shown") {
  Held b;
  CHECK(b.row().rank == 0);
  CHECK(holds(b.row().not_ranked, "held for audit A9 (convergence)"));
  CHECK(b.view().held);
  CHECK(b.view().refused);
  b.store.review(b.quick, b.run, true, "A warm-up; the logs say so.");
  CHECK(b.row().rank == 1);
  CHECK(b.row().not_ranked.empty());
  CHECK_FALSE(b.view().refused);
  CHECK(b.row().level == Level::rerun);  // not all of its audits were passed
  test::clock_now += 60;
  b.store.review(b.quick, b.run, false, "It had seen the set: <script>alert(1)</script>");
  CHECK(b.row().rank == 0);
  CHECK(holds(b.row().not_ranked, "refused after audit A9 (convergence): It had seen"));
  REQUIRE(b.view().reviews.size() == 2);
  CHECK(b.view().reviews[0].released);
  const Json j = to_json(b.view());
  CHECK(j.at("held") == true);
  CHECK(j.at("reviews")[1].at("released") == false);
  const std::string page = submission_page({}, *Queries(b.store).submission(b.quick));
  CHECK(testing::HtmlChecker(page).complaints.empty());
  for (const char* shown : {"Held for audit", "A warm-up", "badge green\">released", "badge red\">refused",
                            "&lt;script&gt;alert"})
    CHECK_MESSAGE(holds(page, shown), shown);
  CHECK(b.store.database().integer("SELECT count(*) FROM events WHERE kind = 'review'") == 2);
  CHECK_THROWS_AS(b.store.database().script("UPDATE reviews SET released = 1"), DatabaseError);
  CHECK_THROWS_AS(b.store.database().script("DELETE FROM reviews"), DatabaseError);
  CHECK(verify_board(b.store).empty());
}

TEST_CASE(
    "a result 10 times better than the best of its table is held, and with it released the next is not") {
  Board b;
  double speedup = 0;
  const auto work = [&](const char* name, double faster) {
    const int64_t submission = b.submit(name);
    speedup = faster;
    WorkOptions o;
    o.hardware = "cpu-mt";
    o.compile = [](const bundle::Bundle&) {};
    o.play = [&](const RunOptions& run) {
      return test::run_document(
          {"base", ""}, {name, ""},
          {.scenario = run.scenario, .speedup = speedup, .audits = {{"A8", "claims", true, ""}}});
    };
    while (const auto worked = work_once(b.store, o)) CHECK_MESSAGE(worked->failure == "", worked->failure);
    return submission;
  };
  const auto row = [&](int64_t submission) {
    const Table t = Queries(b.store).table({"dig", "open", "cpu-mt"}).value();
    return *std::ranges::find(t.rows, submission, &board::Row::submission);
  };
  const int64_t near = work("near", 8), far = work("far", 90);
  CHECK(row(near).rank == 1);
  CHECK(holds(row(far).not_ranked, "held for audit A11 (leap)"));  // the best has 8 times the baseline
  const int64_t also = work("also", 85);
  CHECK(holds(row(also).not_ranked, "held for audit A11 (leap)"));  // what is held is not the best
  const Submission held = Queries(b.store).submission(far).value();
  CHECK(held.runs.size() == 2);
  for (const Run& r : held.runs) {
    CHECK(r.held);
    CHECK(r.audits.back().id == "A11");
    CHECK(holds(said([&](std::FILE* f) { return run_review_list({b.path}, f); }),
                r.audits.back().detail.c_str()));
    b.store.review(far, r.id, true, "I read the source: it does the work.");
  }
  CHECK(row(far).rank == 1);
  CHECK(row(work("next", 95)).rank == 1);
  CHECK(row(also).rank == 0);
  CHECK(verify_board(b.store).empty());
}

TEST_CASE("only what A9 alone holds can be released, and a reason is given") {
  Held b;
  const auto says = [&](int64_t submission, int64_t run, const std::string& reason, const char* what) {
    CHECK_MESSAGE(holds(refusal([&] { b.store.review(submission, run, true, reason); }), what), what);
  };
  says(b.quick, b.run, " ", "1 to 2000 bytes");
  says(b.quick, b.run, "\x1b[31m", "UTF-8 text");
  says(b.quick, 99, "why", "a run of submission");
  says(b.baseline, b.run, "why", "a run of submission");
  says(b.quick, b.run + 1, "why", "one that is held");
  const int64_t other = b.submit("other");
  const auto low = b.store.queue().claim("cpu-mt").value(), twice = b.store.queue().claim("cpu-mt").value();
  const int64_t below =
      b.store.queue().finish(low, b.result(low, {.quality = {0.7, 0.6, 0.75}, .audits = {kQuick}}));
  const int64_t slow =
      b.store.queue().finish(twice, b.result(twice, {.audits = {kQuick, {"A7", "clock", false, "slow"}}}));
  says(other, below, "why", "one that is held");
  says(other, slow, "why", "one that is held");
  CHECK(b.store.database().integer("SELECT count(*) FROM reviews") == 0);
}

TEST_CASE("a released result needs no appeal, a refused one may have one") {
  Held b;
  b.store.review(b.quick, b.run, true, "fine");
  CHECK(holds(refusal([&] { b.store.appeal(b.user, b.quick, b.run, "why"); }), "one that was refused"));
  b.store.review(b.quick, b.run, false, "not fine");
  CHECK_NOTHROW(b.store.appeal(b.user, b.quick, b.run, "why"));
}

TEST_CASE("reviews travel with a board, once, since ranks follow from them") {
  Held b;
  b.store.review(b.quick, b.run, true, "fine");
  const std::string bytes = export_board(b.store);
  const test::BoardFolder other;
  Store store(other.path, Board::with_clock({}));
  import_board(store, bytes), import_board(store, bytes);
  CHECK(ranks(store) == ranks(b.store));
  CHECK(store.database().integer("SELECT count(*) FROM reviews") == 1);
  CHECK(verify_board(store).empty());
  auto files = bundle::read_archive(bytes, kBoardLimits);
  Json board = Json::parse(files[0].content);
  for (const char* key : {"run", "bundle", "created"}) {
    Json changed = board;
    changed["reviews"][0][key] = std::string(64, 'a');
    files[0].content = changed.dump();
    CHECK_MESSAGE(refusal([&] { import_board(store, bundle::write_archive(files)); }) != "", key);
  }
  board["reviews"] = Json::array();
  files[0].content = board.dump();
  CHECK(
      holds(refusal([&] { import_board(store, bundle::write_archive(files)); }), "follow from the samples"));
}

TEST_CASE("who has the board's file lists, releases and refuses from the command line") {
  Held b;
  const auto list = [&] { return said([&](std::FILE* f) { return run_review_list({b.path}, f); }); };
  CHECK(holds(list(), "nobody has looked at it yet"));
  CHECK(holds(list(), "3 epochs, the reference 9"));
  CHECK(holds(said([&](std::FILE* f) {
                return run_review_release({b.path, b.quick, b.run, "fine"}, f);
              }),
              "is released"));
  CHECK(holds(said([&](std::FILE* f) {
                return run_review_refuse({b.path, b.quick, b.run, "no"}, f);
              }),
              "is refused"));
  CHECK(holds(list(), "fine"));
  CHECK(holds(said([&](std::FILE* f) {
                return run_review_refuse({b.path, b.quick, 99, "no"}, f);
              }),
              "refused: review"));
  const Board empty;
  CHECK(holds(said([&](std::FILE* f) { return run_review_list({empty.path}, f); }), "nothing is held"));
}

TEST_CASE("an audit that was not made is shown as that, and nobody can release it") {
  Board b;
  const int64_t mine = b.submit("mine");
  const auto claim = b.store.queue().claim("cpu-mt").value();
  const std::string detail = std::string(judge::kNotMade) + "compute-sanitizer is not installed";
  const int64_t run =
      b.store.queue().finish(claim, b.result(claim, {.audits = {{"C5", "memcheck", false, detail}}}));
  const std::string page = submission_page({}, *Queries(b.store).submission(mine));
  CHECK(testing::HtmlChecker(page).complaints.empty());
  CHECK(holds(page, "<span class=\"badge\">not made</span>"));
  CHECK(holds(page, "compute-sanitizer is not installed"));
  CHECK(holds(refusal([&] { b.store.review(mine, run, true, "why"); }), "one that is held"));
}
