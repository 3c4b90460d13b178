// The store: users, quotas, submissions, the queue, runs written and read, and rows that cannot be changed.
#include <doctest/doctest.h>

#include <functional>
#include <set>
#include <support/board.hpp>
#include <support/refusals.hpp>
#include <thread>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
using namespace tinymlperf::board;
using test::Board;
using test::holds, test::refusal;

namespace {

Job job_of(Board& b, int64_t id) {
  board::Rows row = b.store.database().query("SELECT state, message, attempts FROM jobs WHERE id = ?", id);
  REQUIRE(row.next());
  Job job;
  job.name = row.text(0), job.message = row.text(1), job.submission = row.integer(2);
  return job;
}

}  // namespace

TEST_CASE("a token is shown once, and only its digest is kept") {
  Board b;
  CHECK(b.token.size() == 64);
  CHECK(b.token != b.store.add_user("Grace"));
  CHECK(b.store.user_of(b.token) == b.user);
  CHECK_FALSE(b.store.user_of(""));
  CHECK_FALSE(b.store.user_of(bundle::sha256(b.token)));
  CHECK(b.store.database().integer("SELECT count(*) FROM users WHERE token_sha256 = ?", b.token) == 0);
  CHECK(holds(refusal([&] { b.store.add_user("Ada"); }), "a name that is not taken"));
  CHECK_FALSE(refusal([&] { b.store.add_user(""); }).empty());
}

TEST_CASE("a submission is kept once, with a job for every scenario") {
  Board b;
  const std::string bytes = test::bundle_bytes("mlp");
  const Accepted first = b.store.submit(b.user, bytes);
  CHECK_FALSE(first.known_before);
  const Accepted again = b.store.submit(b.user, bytes);
  CHECK(again.known_before);
  CHECK(again.submission == first.submission);
  CHECK(again.job == first.job);
  CHECK(b.store.database().integer("SELECT count(*) FROM jobs WHERE bundle = ?", first.submission) == 2);
  CHECK(b.store.bundle_bytes(first.submission) == bytes);
  CHECK(b.store.manifest(first.submission)->name == "mlp");
  CHECK(b.store.database().integer("SELECT count(*) FROM files WHERE bundle = ? AND text <> ''",
                                   first.submission) == 1);
  CHECK_FALSE(b.store.bundle_bytes(999));
}

TEST_CASE("what is no bundle, or of a table without a baseline, is refused and leaves nothing behind") {
  Board b;
  CHECK_FALSE(refusal([&] { b.store.submit(b.user, "no tar"); }).empty());
  auto m = test::manifest("mlp");
  m.division = "closed";
  CHECK(holds(refusal([&] { b.store.submit(b.user, bundle::pack(m, test::entry_files("mlp"))); }),
              "a baseline"));
  m.division = "open", m.tier = "T1";
  CHECK(holds(refusal([&] { b.store.submit(b.user, bundle::pack(m, test::entry_files("mlp"))); }),
              "kernel, since a plan launches kernels"));
  CHECK_FALSE(refusal([&] { b.store.submit(77, test::bundle_bytes("mlp")); }).empty());
  CHECK(b.store.database().integer("SELECT count(*) FROM bundles") == 1);
  CHECK(b.store.database().integer("SELECT count(*) FROM jobs") == 0);
}

TEST_CASE("a table has one baseline for ever, and the closed division its layers") {
  Board b;
  CHECK(b.store.submit_baseline(b.user, test::bundle_bytes("base")) == b.baseline);
  CHECK(holds(refusal([&] { b.store.submit_baseline(b.user, test::bundle_bytes("other")); }),
              "a table without one"));
  auto m = test::manifest("reference");
  m.division = "closed";
  b.store.submit_baseline(b.user, bundle::pack(m, test::entry_files("reference")));
  m.name = "same";
  CHECK_NOTHROW(b.store.submit(b.user, bundle::pack(m, test::entry_files("same", 2))));
  m.name = "wider";
  auto files = test::entry_files("wider");
  const size_t at = files[0].content.find("\"bias\": true");
  REQUIRE(at != std::string::npos);
  files[0].content.replace(at, 12, "\"bias\": true ");
  CHECK_NOTHROW(b.store.submit(b.user, bundle::pack(m, files)));
  m.name = "deeper";
  files = test::entry_files("deeper");
  Json model = Json::parse(files[0].content);
  model["layers"].push_back({{"type", "relu"}});
  files[0].content = model.dump();
  CHECK(holds(refusal([&] { b.store.submit(b.user, bundle::pack(m, files)); }), "those of the baseline"));
}

TEST_CASE("a quota counts new submissions of one day") {
  test::clock_now = 1.8e9;
  Board b({.quota = 3});  // the baseline is one
  b.submit("one");
  b.submit("two");
  CHECK(holds(refusal([&] { b.submit("three"); }), "quota"));
  CHECK(b.store.submit(b.user, test::bundle_bytes("one")).known_before);
  const auto other = b.store.user_of(b.store.add_user("Grace")).value();
  CHECK_NOTHROW(b.store.submit(other, test::bundle_bytes("three")));
  test::clock_now += 86400;
  CHECK_NOTHROW(b.submit("four"));
  CHECK_NOTHROW(b.store.user_of(b.store.add_user("Eve", 0)));
  CHECK(holds(refusal([&] {
                b.store.submit(b.store.user_of(b.store.add_user("Bob", 0)).value(), test::bundle_bytes("x"));
              }),
              "at most 0"));
}

TEST_CASE("a job goes to one worker, and its result is kept once") {
  Board b;
  b.submit("mlp");
  CHECK_FALSE(b.store.queue().claim("gpu(other)"));
  const auto first = b.store.queue().claim("cpu-mt"), second = b.store.queue().claim("cpu-mt");
  REQUIRE(first);
  REQUIRE(second);
  CHECK(first->job != second->job);
  CHECK_FALSE(b.store.queue().claim("cpu-mt"));
  const RunDocument d = b.result(*first);
  const int64_t run = b.store.queue().finish(*first, d);
  CHECK(digest_of(read_run(b.store.database(), run).value()) == digest_of(d));
  CHECK_THROWS_AS(b.store.queue().finish(*first, b.result(*first, {.seed = 9})), LeaseLost);
  CHECK_THROWS_AS(b.store.queue().report(*first, 0.5, "still here"), LeaseLost);
  CHECK_THROWS_AS(b.store.queue().finish(*second, d), std::invalid_argument);
  CHECK(job_of(b, second->job).name == "running");
  CHECK(b.store.database().integer("SELECT count(*) FROM runs") == 1);
}

TEST_CASE(
    "a killed worker's job is taken up again, a slow one's result is not doubled, and there is an end to "
    "it") {
  Board b;
  b.submit("mlp");
  const auto lost = b.store.queue().claim("cpu-mt");
  b.store.queue().fail(b.store.queue().claim("cpu-mt").value(), "out of luck", Fault::entry);
  test::clock_now += 59;
  b.store.queue().report(*lost, 0.5, "half");
  test::clock_now += 59;
  CHECK_FALSE(b.store.queue().claim("cpu-mt"));
  test::clock_now += 2;
  const auto next = b.store.queue().claim("cpu-mt");
  REQUIRE(next);
  CHECK(next->job == lost->job);
  CHECK(next->owner != lost->owner);
  CHECK_THROWS_AS(b.store.queue().finish(*lost, b.result(*lost)), LeaseLost);
  CHECK(b.store.database().integer("SELECT count(*) FROM runs") == 0);
  test::clock_now += 61;
  const auto third = b.store.queue().claim("cpu-mt");
  REQUIRE(third);
  test::clock_now += 61;
  CHECK_FALSE(b.store.queue().claim("cpu-mt"));
  CHECK(job_of(b, lost->job).name == "failed");
  CHECK(holds(job_of(b, lost->job).message, "lost"));
}

TEST_CASE("many claimers never get one job") {
  Board b({.quota = 100});
  for (int i = 0; i < 10; ++i) b.submit("entry" + std::to_string(i));
  std::mutex mutex;
  std::multiset<int64_t> got;
  std::vector<std::thread> workers;
  for (int i = 0; i < 4; ++i)
    workers.emplace_back([&] {
      Store own(b.path, Board::with_clock({}));
      while (const auto claim = own.queue().claim("cpu-mt")) {
        const std::lock_guard lock(mutex);
        got.insert(claim->job);
      }
    });
  for (std::thread& w : workers) w.join();
  CHECK(got.size() == 20);
  CHECK(std::set(got.begin(), got.end()).size() == 20);
}

TEST_CASE("a run comes out as it went in, and a second time it is the same run") {
  Board b;
  const int64_t mlp = b.submit("mlp");
  RunDocument d =
      test::run_document(b.who(b.baseline), b.who(mlp), {.audits = {{"A2", "same sample", true, "1.0"}}});
  d.contenders[1].out = "it said \"nothing\"";
  d.contenders[1].quality.reset();
  const int64_t run = b.store.ingest(d);
  CHECK(b.store.ingest(d) == run);
  RunDocument back = std::get<RunDocument>(read_run(b.store.database(), run).value());
  CHECK(back.seed == d.seed);
  d.machine.erase("date");
  CHECK(judge::to_json(back) == judge::to_json(d));
  CHECK(b.store.ingest(back) == run);
  for (ContenderRecord& c : back.contenders)
    c.minus_bits = {-1.25, 0, -2}, c.quality = judge::Interval{-3.25 / 3, -2, 0};
  const int64_t of_text = b.store.ingest(back);
  CHECK(judge::to_json(read_run(b.store.database(), of_text).value()) == judge::to_json(back));
  back.text = {{"file", "mine.txt"}};  // which nobody else has
  CHECK_THROWS_AS(b.store.ingest(back), std::invalid_argument);
  back.text = {}, back.contenders[1].worker = "build/student/bin/tinymlperf";
  CHECK_THROWS_WITH_AS(b.store.ingest(back), "a run with a worker of one's own has no place in a table",
                       std::invalid_argument);
  back.contenders[1].worker = "";
  CHECK_FALSE(read_run(b.store.database(), of_text + 1));
  d.contenders[0].bundle = bundle::sha256("unknown");
  CHECK(holds(refusal([&] { b.store.ingest(d); }), "on this board"));
  d = back;
  d.contenders[0].turns[3].latencies[0] = -1;
  CHECK_THROWS_AS(b.store.ingest(d), std::invalid_argument);
  CHECK(b.store.database().integer("SELECT count(*) FROM runs") == 2);
}

TEST_CASE("what was submitted and measured cannot be changed or deleted, by REPLACE neither") {
  Board b;
  b.submit("mlp");
  const auto other = b.store.user_of(b.store.add_user("Eve")).value();
  b.store.submit(other, test::bundle_bytes("twin", 2));
  b.store.submit(b.user, test::bundle_bytes("third", 2));
  b.work_off({.audits = {{"A2", "same sample", true, ""}}});
  b.store.request_head_to_head(b.user, b.baseline + 1, b.baseline);
  b.work_off({.speedup = 2});
  const auto refused = b.store.request_head_to_head(b.user, b.baseline + 1, b.baseline);
  RunDocument d = b.result(b.store.queue().claim("cpu-mt").value());
  d.contenders[1].out = "it said nothing";
  const int64_t out = b.store.ingest(d);
  CHECK(refused > 0);
  b.store.answer_appeal(b.store.appeal(b.user, b.baseline + 1, out, "it did"), "no");
  Database& db = b.store.database();
  for (const std::string table :
       {"bundles", "files", "subjects", "baselines", "machines", "runs", "turns", "contenders", "audits",
        "records", "events", "fingerprints", "likenesses", "appeals", "answers"}) {
    CAPTURE(table);
    CHECK_THROWS_AS(db.script("DELETE FROM " + table), DatabaseError);
    CHECK_THROWS_AS(db.script("UPDATE " + table + " SET rowid = rowid"), DatabaseError);
    CHECK_THROWS_AS(db.script("INSERT OR REPLACE INTO " + table + " SELECT * FROM " + table), DatabaseError);
  }
  CHECK_THROWS_AS(db.script("DELETE FROM jobs"), DatabaseError);
  CHECK(db.integer("SELECT count(*) FROM turns") == 8 * 2 * 24);
}

TEST_CASE("a direct match is asked for once, of two in one table, and a clear win is a record") {
  Board b;
  const int64_t mlp = b.submit("mlp");
  b.work_off();
  const int64_t job = b.store.request_head_to_head(b.user, mlp, b.baseline);
  CHECK(b.store.request_head_to_head(b.user, mlp, b.baseline) == job);
  b.work_off({.speedup = 1.5});
  CHECK(b.store.database().integer("SELECT challenger FROM records") == mlp);
  CHECK(b.store.request_head_to_head(b.user, b.baseline, mlp) != job);
  b.work_off({.speedup = 0.9});
  CHECK(b.store.database().integer("SELECT count(*) FROM records") == 1);
  CHECK(holds(refusal([&] { b.store.request_head_to_head(b.user, mlp, mlp); }), "one submission"));
  CHECK(holds(refusal([&] { b.store.request_head_to_head(b.user, mlp, 77); }), "no number 77"));
  auto m = test::manifest("slow");
  m.hardware = "cpu-1t";
  const int64_t slow = b.store.submit(b.user, bundle::pack(m, test::entry_files("slow"))).submission;
  CHECK(holds(refusal([&] { b.store.request_head_to_head(b.user, mlp, slow); }), "different tables"));
}

TEST_CASE("names that look like SQL are names") {
  Board b;
  const std::string evil = "'); DROP TABLE users; --";
  const std::string token = b.store.add_user(evil);
  const auto user = b.store.user_of(token).value();
  auto m = test::manifest("mlp", evil);
  m.team = "\" OR \"\"=\"", m.notes = "1; DELETE FROM runs";
  const auto accepted = b.store.submit(user, bundle::pack(m, test::entry_files("mlp")));
  CHECK(b.store.manifest(accepted.submission)->author == evil);
  CHECK(b.store.manifest(accepted.submission)->notes == "1; DELETE FROM runs");
  CHECK(b.store.database().text("SELECT name FROM users WHERE id = ?", user) == evil);
  CHECK_FALSE(b.store.user_of("' OR '1'='1"));
  CHECK_FALSE(b.store.queue().claim("cpu-mt' OR 1=1 --"));
}
