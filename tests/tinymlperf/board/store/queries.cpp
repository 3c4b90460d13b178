// The queries of the board: tables, submissions, the queue, history and the categories of the front page.
#include <doctest/doctest.h>

#include <support/board.hpp>
#include <thread>
#include <tinymlperf/board/store/queries.hpp>
#include <tinymlperf/board/store/verify.hpp>
#include <tinymlperf/board/web/json.hpp>
#include <tinymlperf/commands/show.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
using namespace tinymlperf::board;
using test::Board;

namespace {

const TableKey kOpen{"dig", "open", "cpu-mt"};

const Category* category(const FrontPage& page, const std::string& title) {
  for (const Category& c : page.categories)
    if (c.title == title) return &c;
  return nullptr;
}

}  // namespace

TEST_CASE("an empty board shows its baseline's table, and every category without a leader") {
  Board b;
  Queries q(b.store);
  const FrontPage page = q.front();
  REQUIRE(page.tables.size() == 1);
  CHECK(page.tables[0].key == kOpen);
  CHECK(page.tables[0].task == "which digit is in a picture of 28 x 28 pixels");
  CHECK(page.tables[0].scenarios[0] ==
        std::pair<std::string, std::string>("single_stream", "p90 latency (s)"));
  REQUIRE(page.tables[0].rows.size() == 1);
  CHECK(page.tables[0].rows[0].not_ranked == "not measured yet");
  CHECK(page.categories.size() == 6);
  for (const Category& c : page.categories) CHECK_FALSE(c.leader);
  CHECK_FALSE(q.table({"dig", "closed", "cpu-mt"}));
  CHECK_FALSE(q.table({"nothing", "open", "cpu-mt"}));
  CHECK_FALSE(q.submission(99));
  CHECK_FALSE(q.job(99));
  CHECK(q.history(kOpen).empty());
}

TEST_CASE("a submission whose passes are compiled is named on its page and in its runs") {
  Board b;
  Queries q(b.store);
  const int64_t plain = b.submit("plain", 2);
  auto files = test::entry_files("quick", 3);
  for (auto& f : files) {
    if (f.path != kModelFile) continue;
    Json model = Json::parse(f.content);
    model["compile"] = true;
    f.content = model.dump();
  }
  const int64_t quick = b.store.submit(b.user, bundle::pack(test::manifest("quick"), files)).submission;
  CHECK_FALSE(q.submission(plain)->compiled);
  REQUIRE(q.submission(quick)->compiled);
  CHECK(to_json(*q.submission(quick)).at("compiled") == true);
  CHECK(tinymlperf::detail::text_of(*q.submission(quick)).find("its forward pass is compiled\n") !=
        std::string::npos);
  CHECK(tinymlperf::detail::text_of(*q.submission(plain)).find("compiled") == std::string::npos);
  std::vector<int64_t> runs;
  while (const auto claim = b.store.queue().claim("cpu-mt")) {
    judge::RunDocument d = b.result(*claim);
    d.contenders[1].compiled = claim->submission == quick;
    runs.push_back(b.store.queue().finish(*claim, d));
    const Json kept = judge::to_json(read_run(b.store.database(), runs.back()).value());
    CHECK(kept.at("contenders") == judge::to_json(d).at("contenders"));
  }
  CHECK(runs.size() == 4);
  CHECK(verify_board(b.store).empty());
}

TEST_CASE("a table ranks what was measured, and a submission shows its files, runs, jobs and difference") {
  Board b;
  Queries q(b.store);
  const int64_t fast = b.submit("fast", 2);
  b.work_off({.speedup = 2, .model_bytes = 5000});
  const int64_t waiting = b.submit("waiting", 3);
  const Table t = q.table(kOpen).value();
  REQUIRE(t.rows.size() == 3);
  CHECK(t.rows[0].submission == fast);
  CHECK(t.rows[0].rank == 1);
  CHECK(t.rows[0].name == "fast");
  CHECK(t.rows[0].cells[0].value == doctest::Approx(0.0005).epsilon(0.02));
  CHECK(t.rows[0].cells[0].ratio->estimate == doctest::Approx(2).epsilon(0.02));
  CHECK(t.rows[1].submission == b.baseline);
  CHECK(t.rows[1].rank == 2);
  CHECK(t.rows[2].submission == waiting);
  CHECK(t.rows[2].rank == 0);

  const Submission s = q.submission(fast).value();
  CHECK(s.bundle == b.who(fast).second);
  CHECK(s.level == Level::rerun);
  REQUIRE(s.files.size() == 2);
  CHECK(s.files[0].path == "model.json");
  CHECK(s.files[0].text.find("avg_pool2d") != std::string::npos);
  CHECK(s.files[1].text.empty());
  CHECK(s.runs.size() == 2);
  CHECK(s.runs[0].turns.size() == 24);
  CHECK(s.runs[0].baseline == "base");
  CHECK(s.runs[0].seed == (uint64_t{1} << 63 | (1 + 1000 * 2)));
  CHECK(s.runs[0].system.front() == std::pair<std::string, std::string>("cpu", "a processor"));
  CHECK(s.jobs.size() == 2);
  CHECK(s.difference.find("+ \"name\": \"fast\"") != std::string::npos);
  CHECK(q.submission(waiting)->level == Level::self_reported);
  CHECK(q.submission(b.baseline)->difference.empty());
}

TEST_CASE("a submission to another hardware class is in another table") {
  Board b;
  Queries q(b.store);
  auto m = test::manifest("single");
  m.hardware = "cpu-1t";
  const int64_t id = b.store.submit(b.user, bundle::pack(m, test::entry_files("single"))).submission;
  b.work_off({.speedup = 3}, "cpu-1t");
  const Table t = q.table({"dig", "open", "cpu-1t"}).value();
  REQUIRE(t.rows.size() == 2);
  CHECK(t.rows[0].submission == id);
  CHECK(q.table(kOpen)->rows.size() == 1);
  CHECK(q.front().tables.size() == 2);
}

TEST_CASE("the queue: running, waiting, ended") {
  Board b;
  Queries q(b.store);
  b.submit("one");
  b.submit("two");
  const auto first = b.store.queue().claim("cpu-mt").value();
  b.store.queue().finish(first, b.result(first));
  const auto second = b.store.queue().claim("cpu-mt").value();
  b.store.queue().report(second, 0.25, "graded");
  const auto jobs = q.queue();
  REQUIRE(jobs.size() == 4);
  CHECK(jobs[0].id == second.job);
  CHECK(jobs[0].state == JobState::running);
  CHECK(jobs[0].progress == 0.25);
  CHECK(jobs[0].message == "graded");
  CHECK(jobs[1].state == JobState::queued);
  CHECK(jobs[3].state == JobState::done);
  CHECK(jobs[3].id == first.job);
  CHECK(q.job(first.job)->ended != "");
  CHECK(q.front().queue.size() == 3);
  const int64_t direct = b.store.request_head_to_head(b.user, jobs[1].submission, b.baseline);
  CHECK(q.job(direct)->kind == "head-to-head");
  CHECK(q.job(direct)->message == "against base");
}

TEST_CASE("categories say who is best at one thing, and keep their place without a leader") {
  Board b;
  Queries q(b.store);
  const int64_t fast = b.submit("fast", 2);
  b.work_off({.speedup = 3, .quality = {0.9, 0.89, 0.91}, .model_bytes = 9000});
  const int64_t small = b.submit("small", 3);
  b.work_off({.speedup = 1.2, .quality = {0.95, 0.94, 0.96}, .model_bytes = 100});
  const FrontPage page = q.front();
  CHECK(page.categories.size() == 6);
  CHECK_FALSE(category(page, "fastest trainer")->leader);
  CHECK_FALSE(category(page, "fastest generation")->leader);
  CHECK_FALSE(category(page, "smallest memory")->leader);  // nobody's peak was measured
  REQUIRE(category(page, "best accuracy for size")->leader);
  CHECK(category(page, "best accuracy for size")->leader->submission == small);
  CHECK(category(page, "best accuracy for size")->value == "accuracy 0.95 in 100 B");
  REQUIRE(category(page, "all-round")->leader);
  CHECK(category(page, "all-round")->leader->submission == small);
  CHECK(category(page, "all-round")->value == "place 2 in speed, 1 in accuracy, 1 in size, of 3");
  CHECK(page.tables[0].rows[0].submission == fast);
}

TEST_CASE("a generation has a leader, and says when its first token came beside the time of each") {
  Board b;
  Queries q(b.store);
  const auto of_text = [](const std::string& name, uint64_t seed) {
    auto m = test::manifest(name);
    m.benchmarks = {"lm"}, m.scenarios = {"generation"};
    return bundle::pack(m, test::text_entry_files(name, seed));
  };
  const auto submit = [&](const char* name, uint64_t seed, double speedup) {
    const int64_t id = b.store.submit(b.user, of_text(name, seed)).submission;
    b.work_off({.speedup = speedup});
    return id;
  };
  b.store.submit_baseline(b.user, of_text("gpt", 1));
  CHECK_FALSE(category(q.front(), "fastest generation")->leader);
  const int64_t slow = submit("slow", 2, 1.5), fast = submit("fast", 3, 2);
  const FrontPage page = q.front();
  const Category* c = category(page, "fastest generation");
  REQUIRE(c->leader);
  CHECK(c->leader->submission == fast);
  CHECK(c->key == TableKey{"lm", "open", "cpu-mt"});
  CHECK(c->value == "2 times the baseline");
  CHECK(category(page, "all-round")->key == TableKey{"lm", "open", "cpu-mt"});
  CHECK(q.table(c->key)->rows[1].submission == slow);

  // Made up: 8 tokens in half of a millisecond, the first after a quarter of that.
  const Submission s = q.submission(fast).value();
  REQUIRE(s.runs.size() == 1);
  const Run& r = s.runs[0];
  REQUIRE(r.tokens);
  CHECK(r.tokens->to_first == doctest::Approx(125e-6).epsilon(0.01));
  CHECK(r.tokens->per_token == doctest::Approx(62.5e-6).epsilon(0.01));
  REQUIRE(r.baseline_tokens);
  CHECK(r.baseline_tokens->to_first == doctest::Approx(250e-6).epsilon(0.01));
  const Json j = to_json(r);
  CHECK(j.at("tokens").at("to_first_seconds") == r.tokens->to_first);
  CHECK(j.at("tokens").at("per_token_seconds") == r.tokens->per_token);
  CHECK(j.at("baseline_tokens").at("to_first_seconds") == r.baseline_tokens->to_first);
  const std::string shown = tinymlperf::detail::text_of(s);
  CHECK_MESSAGE(shown.find(" us to the first token, ") != std::string::npos, shown);
  CHECK(shown.find(" us a token") != std::string::npos);
  // Other scenarios have no such time.
  const int64_t digits = b.submit("digits");
  b.work_off();
  const Submission other = q.submission(digits).value();
  for (const Run& run : other.runs) CHECK_FALSE(run.tokens);
  CHECK(to_json(other).at("runs")[0].at("tokens").is_null());
  CHECK(tinymlperf::detail::text_of(other).find("token") == std::string::npos);
}

TEST_CASE("who has the lowest measured peak leads the memory category") {
  Board b;
  Queries q(b.store);
  const int64_t mlp = b.submit("mlp");
  while (const auto claim = b.store.queue().claim("cpu-mt")) {
    auto d = b.result(*claim);
    d.contenders[0].peak_bytes = 4096, d.contenders[1].peak_bytes = 2048;
    b.store.queue().finish(*claim, d);
  }
  const FrontPage page = q.front();
  REQUIRE(category(page, "smallest memory")->leader);
  CHECK(category(page, "smallest memory")->leader->submission == mlp);
  CHECK(category(page, "smallest memory")->value == "2.0 KiB");
}

TEST_CASE("the history has names, and a leader is named once") {
  Board b;
  Queries q(b.store);
  b.submit("first");
  b.work_off({.speedup = 2});
  test::clock_now += 100;
  b.submit("second");
  b.work_off({.speedup = 4});
  const auto points = q.history(kOpen);
  REQUIRE(points.size() >= 2);
  CHECK(points.back().name == "second");
  CHECK(points.back().score == doctest::Approx(400).epsilon(0.02));
}

TEST_CASE("ranks are formed from the stored samples, the same by whoever asks") {
  Board b;
  b.submit("one", 1), b.submit("two", 2);
  b.work_off({.speedup = 1.7, .noise = 0.3});
  Queries q(b.store);
  const Table t = q.table(kOpen).value();
  Store reader(b.path, Board::with_clock({}));
  Queries other(reader);
  const Table again = other.table(kOpen).value();
  REQUIRE(t.rows.size() == again.rows.size());
  for (size_t i = 0; i < t.rows.size(); ++i) {
    CHECK(t.rows[i].submission == again.rows[i].submission);
    CHECK(t.rows[i].rank == again.rows[i].rank);
    CHECK(t.rows[i].score->low == again.rows[i].score->low);
  }
}

TEST_CASE("many threads read while one writes") {
  Board b({.quota = 100});
  Queries q(b.store);
  b.submit("first");
  std::atomic<bool> stop = false;
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i)
    readers.emplace_back([&] {
      while (!stop) {
        (void)q.front();
        (void)q.submission(2);
        (void)q.history(kOpen);
      }
    });
  for (int i = 0; i < 5; ++i) {
    b.submit("entry" + std::to_string(i));
    b.work_off({.seed = static_cast<uint64_t>(i + 1)});
  }
  stop = true;
  for (std::thread& t : readers) t.join();
  CHECK(q.table(kOpen)->rows.size() == 7);
}
