// The worker: a job becomes a run, every failure is reported, and a real match is played from bundles. This
// program is also the entries' worker.
#include <doctest/doctest.h>

#include <support/few.hpp>
#include <support/made_up_match.hpp>
#include <support/sanitized.hpp>
#include <support/start_as_worker.hpp>
#include <tinymlperf/board/store/queries.hpp>
#include <tinymlperf/board/store/verify.hpp>
#include <tinymlperf/board/work/worker.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
using namespace tinymlperf::board;
using test::Board;
constexpr auto quick = test::play_at_once;

namespace {

WorkOptions options(Player play) {
  WorkOptions o;
  o.hardware = "cpu-mt";
  o.play = std::move(play);
  return o;
}

}  // namespace

TEST_CASE("jobs become runs with the names and digests of their bundles, until there is none") {
  Board b;
  const int64_t mlp = b.submit("mlp");
  int done = 0;
  while (const auto worked = work_once(b.store, options(quick))) {
    CHECK_MESSAGE(worked->failure.empty(), worked->failure);
    const RunDocument d = std::get<RunDocument>(read_run(b.store.database(), worked->run).value());
    CHECK(d.contenders[0].name == "base");
    CHECK(d.contenders[1].bundle == b.who(mlp).second);
    CHECK(d.run_class == "ranked");
    ++done;
  }
  CHECK(done == 2);
  CHECK(Queries(b.store).table({"dig", "open", "cpu-mt"})->rows[0].submission == mlp);
  b.store.request_head_to_head(b.user, mlp, b.baseline);
  CHECK(work_once(b.store, options(quick))->failure.empty());
}

TEST_CASE("a match that cannot be played fails its job with the reason, and the next one goes on") {
  Board b;
  b.submit("mlp");
  const WorkOptions without =
      options([](const RunOptions&) -> RunDocument { throw std::runtime_error("no sandbox here"); });
  const auto first = work_once(b.store, without);
  REQUIRE(first);
  CHECK(first->retried);  // the machine may be better by then, or another worker's
  CHECK(Queries(b.store).job(first->job)->state == JobState::queued);
  CHECK(Queries(b.store).job(first->job)->message ==
        "it waits again, since the machine failed: no sandbox here");
  const auto broken = work_once(b.store, without);
  REQUIRE(broken);
  CHECK(broken->job == first->job);
  CHECK_FALSE(broken->retried);
  CHECK(broken->failure == "no sandbox here");
  CHECK(Queries(b.store).job(broken->job)->state == JobState::failed);
  CHECK(Queries(b.store).job(broken->job)->message == "no sandbox here");
  const auto wrong = work_once(b.store, options([](const RunOptions& o) {
                                 RunDocument d = quick(o);
                                 d.benchmark = "other";
                                 return d;
                               }));
  CHECK(wrong->failure.find("another benchmark") != std::string::npos);
  CHECK_FALSE(wrong->retried);  // it would fail in the same way again
  CHECK_FALSE(work_once(b.store, options(quick)));
  CHECK(b.store.database().integer("SELECT count(*) FROM runs") == 0);
}

TEST_CASE("a job says which block is played, and a heartbeat does not take that back") {
  StoreOptions brief;
  brief.queue.lease = 0.2;
  const test::BoardFolder f;
  Store store(f.path, brief);
  const auto user = store.user_of(store.add_user("Ada")).value();
  store.submit_baseline(user, test::bundle_bytes("base"));
  const Accepted mlp = store.submit(user, test::bundle_bytes("mlp"));
  WorkOptions o = options([&](const RunOptions& run) {
    REQUIRE(run.watcher);
    run.watcher({judge::Scenario::offline, 3, 12, 4, 10, {}});
    Queries queries(store);
    CHECK(queries.job(mlp.job)->progress == 0.25);
    CHECK(queries.job(mlp.job)->message == "offline: block 4 of 10, against base");
    usleep(300000);  // a few heartbeats
    CHECK(queries.job(mlp.job)->progress == 0.25);
    CHECK(queries.submission(mlp.submission)->jobs[0].message == "offline: block 4 of 10, against base");
    run.watcher({judge::Scenario::offline, 11, 12, 0, 10, "mlp"});
    CHECK(queries.job(mlp.job)->message == "offline: audits of mlp, against base");
    store.database().run("UPDATE jobs SET owner = 'another' WHERE id = ?", mlp.job);
    run.watcher({judge::Scenario::offline, 11, 12, 0, 10, "base"});
    return quick(run);
  });
  o.lease = 0.2;
  CHECK(work_once(store, o)->failure.find("not this worker's any more") != std::string::npos);
  CHECK(store.database().integer("SELECT count(*) FROM runs") == 0);
}

TEST_CASE("a long match keeps its lease; a worker that lost its own keeps nothing") {
  StoreOptions brief;
  brief.queue.lease = 0.2;
  const test::BoardFolder f;
  Store store(f.path, brief);  // on the system's clock
  const auto user = store.user_of(store.add_user("Ada")).value();
  store.submit_baseline(user, test::bundle_bytes("base"));
  store.submit(user, test::bundle_bytes("mlp"));
  WorkOptions o = options([&](const RunOptions& run) {
    usleep(600000);
    CHECK(store.queue().claim("cpu-mt")->scenario == "offline");  // the other job, not this one
    return quick(run);
  });
  o.lease = 0.2;
  CHECK(work_once(store, o)->failure.empty());
  usleep(300000);
  o = options([&](const RunOptions& run) {
    usleep(300000);  // without a heartbeat in time
    CHECK(store.queue().claim("cpu-mt"));
    return quick(run);
  });
  o.lease = 1000;
  CHECK(work_once(store, o)->failure.find("not this worker's any more") != std::string::npos);
  CHECK(store.database().integer("SELECT count(*) FROM runs") == 1);
}

TEST_CASE("a worker waits until the machine is free, says for whom, and holds the lock while it plays") {
  Board b;
  b.submit("mlp");
  const auto file = b.folder.path() / "lock";
  auto other = std::make_unique<MachineLock>("a match of somebody else", file);
  std::vector<std::string> holders;
  bool locked = false;
  WorkOptions o = options([&](const RunOptions& run) {
    locked = !MachineLock("a test", file).is_held();
    return quick(run);
  });
  o.lock = file, o.step = std::chrono::milliseconds(5);
  o.waits = [&](const std::string& holder) {
    holders.push_back(holder);
    CHECK(Queries(b.store).job(1)->state == JobState::queued);  // it is claimed only when it can be played
    other.reset();
  };
  CHECK(work_once(b.store, o)->failure.empty());
  REQUIRE(holders.size() == 1);
  CHECK(holders[0].find("a match of somebody else") != std::string::npos);
  CHECK(locked);
  CHECK(MachineLock("a test", file).is_held());
  CHECK(work_once(b.store, o)->failure.empty());
  const MachineLock busy("a match of somebody else", file);
  CHECK_FALSE(work_once(b.store, o));  // nothing waits, so it does not wait either
  CHECK(holders.size() == 1);
}

TEST_CASE("a match beside other load says so in its result and on its page") {
  Board b;
  const int64_t mlp = b.submit("mlp");
  const auto beside = [](double processors) {
    return [processors](const RunOptions& run) {
      RunDocument d = quick(run);
      note_other_load(d.machine, processors);
      return d;
    };
  };
  const auto busy = work_once(b.store, options(beside(1.5)));
  const auto quiet = work_once(b.store, options(beside(0.01)));
  REQUIRE(busy);
  REQUIRE(quiet);
  Queries queries(b.store);
  const Submission s = queries.submission(mlp).value();
  REQUIRE(s.runs.size() == 2);
  CHECK(s.runs[0].load.empty());
  CHECK(s.runs[1].load == "played beside other load: other programs used 1.50 processors meanwhile");
  CHECK(verify_board(b.store).empty());
}

TEST_CASE("a real match from bundles, in sandboxed processes" * doctest::skip(test::kSanitized)) {
  Board b;
  const int64_t mlp = b.submit("mlp", 2);
  WorkOptions o;
  o.hardware = "cpu-mt";
  o.run_class = "smoke";
  o.play = [](const RunOptions& run) {
    RunDocument d = tinymlperf::play(run);
    d.hardware = "cpu-mt";  // wherever this test runs
    return d;
  };
  std::vector<std::string> told;
  o.play = [&, play = o.play](RunOptions run) {
    run.watcher = [&, told_too = run.watcher](const judge::Progress& now) {
      told_too(now);
      told.push_back(Queries(b.store).job(1)->message);
    };
    return play(run);
  };
  const auto worked = work_once(b.store, o);
  REQUIRE(worked);
  CHECK(told.size() == 8);
  CHECK(told.front() == "single_stream: block 1 of 6, against base");
  REQUIRE_MESSAGE(worked->failure.empty(), worked->failure);
  const Submission s = Queries(b.store).submission(mlp).value();
  REQUIRE(s.runs.size() == 1);
  CHECK(s.runs[0].out == "");
  CHECK(s.runs[0].turns.size() == 12);
  CHECK(s.runs[0].ratio);
  const Table t = Queries(b.store).table({"dig", "open", "cpu-mt"}).value();
  for (const auto& row : t.rows) CHECK(row.rank == 0);
  CHECK(t.rows[1].not_ranked == "a smoke run in single_stream ranks nothing");
}

namespace {

// Answers as if every picture were of one digit.
std::string plugin_bundle(const std::string& name, const std::string& digit) {
  bundle::Manifest m = test::manifest(name);
  m.tier = "T2", m.scenarios = {"offline"};
  return bundle::pack(m, {{"plugin.cpp",
                           "#include <tinymlperf/entries/plugin.hpp>\n#include \"digit.hpp\"\n"
                           "using namespace tinymlperf;\n"
                           "int main() {\n"
                           "  return serve([](const Query& query) -> Tensors {\n"
                           "    const auto n = query.inputs.at(0).shape.at(0);\n"
                           "    std::vector<float> scores(static_cast<size_t>(10 * n));\n"
                           "    for (size_t i = digit; i < scores.size(); i += 10) scores[i] = 1;\n"
                           "    return {make_tensor({n, 10}, scores)};\n  });\n}\n"},
                          {"digit.hpp", "constexpr int digit = " + digit + ";\n"}});
}

WorkOptions really(const char* run_class) {
  WorkOptions o;
  o.hardware = "cpu-mt", o.run_class = run_class;
  o.play = [](const RunOptions& run) {
    RunDocument d = tinymlperf::play(run);
    d.hardware = "cpu-mt";  // wherever this test runs
    return d;
  };
  return o;
}

}  // namespace

TEST_CASE("plugins are compiled and played, on a table of their own" * doctest::skip(test::kSanitized) *
          test::takes_minutes()) {
  Board b;
  CHECK_THROWS_WITH_AS(b.store.submit(b.user, plugin_bundle("three", "3")),
                       doctest::Contains("none for dig, open, T2"), Refusal);
  const int64_t base = b.store.submit_baseline(b.user, plugin_bundle("one", "1"));
  const int64_t three = b.store.submit(b.user, plugin_bundle("three", "3")).submission;
  CHECK_THROWS_AS(b.store.request_head_to_head(b.user, three, b.baseline), Refusal);
  const auto worked = work_once(b.store, really("smoke"));
  REQUIRE(worked);
  REQUIRE_MESSAGE(worked->failure.empty(), worked->failure);
  Queries q(b.store);
  CHECK(q.table_keys() == std::vector<TableKey>{{"dig", "open", "cpu-mt"}, {"dig", "open", "cpu-mt", "T2"}});
  CHECK(q.table({"dig", "open", "cpu-mt"})->rows.size() == 1);
  const Table t = q.table({"dig", "open", "cpu-mt", "T2"}).value();
  REQUIRE(t.rows.size() == 2);
  CHECK(t.scenarios.size() == 1);
  for (const auto& row : t.rows) {
    CHECK(row.tier == "T2");
    CHECK(row.cells.size() == 1);
  }
  const Submission s = q.submission(three).value();
  REQUIRE(s.runs.size() == 1);
  CHECK(s.runs[0].baseline == "one");
  CHECK_MESSAGE(s.runs[0].out == "", s.runs[0].out);
  CHECK(s.reasons.empty());
  CHECK(s.files[1].text.find("serve(") != std::string::npos);
  CHECK(s.difference.find("+constexpr int digit = 3;") != std::string::npos);
  CHECK(q.submission(base)->runs.empty());
  CHECK(q.front().tables.size() == 2);
  for (const Category& c : q.front().categories) CHECK(c.key.tier == "T0");
}

TEST_CASE("trainings are played and kept with every attempt; the fastest trainer leads its category" *
          doctest::skip(test::kSanitized) * test::takes_minutes()) {
  Board b;
  const auto trainer = [](const std::string& name, double learning_rate) {
    auto files = test::entry_files(name);
    files.pop_back();
    Json model = Json::parse(files[0].content);
    model["training"] = {{"epochs", 40}, {"learning_rate", learning_rate}, {"batch", 16}};
    files[0].content = model.dump();
    bundle::Manifest m = test::manifest(name);
    m.benchmarks = {"ttq-dig"}, m.scenarios = {"time_to_quality"};
    return bundle::pack(m, files);
  };
  b.store.submit_baseline(b.user, trainer("slow", 2e-2));
  const int64_t fast = b.store.submit(b.user, trainer("fast", 5e-2)).submission;
  RunDocument played;
  WorkOptions o = really("smoke");
  o.play = [&, play = o.play](const RunOptions& run) {
    played = std::get<RunDocument>(play(run));
    for (ContenderRecord& c : played.contenders) CHECK_MESSAGE(c.out.empty(), c.out);
    played.run_class = "ranked";  // as if there had been time for it
    return played;
  };
  const auto worked = work_once(b.store, o);
  REQUIRE(worked);
  REQUIRE_MESSAGE(worked->failure.empty(), worked->failure);
  const RunDocument stored = std::get<RunDocument>(read_run(b.store.database(), worked->run).value());
  CHECK(stored.contenders[1].training.size() == 5);
  CHECK(judge::to_json(stored).at("contenders")[1].at("training") ==
        judge::to_json(played).at("contenders")[1].at("training"));
  Queries q(b.store);
  const Table t = q.table({"ttq-dig", "open", "cpu-mt"}).value();
  REQUIRE(t.rows.size() == 2);
  for (const auto& row : t.rows) CHECK_MESSAGE(row.rank > 0, row.not_ranked);
  const Submission s = q.submission(fast).value();
  CHECK(s.runs.at(0).turns.size() == 5);
  CHECK(s.runs.at(0).baseline_turns.size() == 10);
  bool led = false;
  for (const Category& c : q.front().categories)
    if (c.title == "fastest trainer") led = c.leader && c.key.benchmark == "ttq-dig";
  CHECK(led);
  CHECK(verify_board(b.store).empty());
  // A match of two trainers may be a record; it must not be asked for turns.
  b.store.request_head_to_head(b.user, fast, b.store.baseline("ttq-dig", "open").value());
  CHECK(work_once(b.store, o)->failure.empty());
}

TEST_CASE("what does not compile is told so before the queue is worked off, and nobody plays it" *
          test::takes_minutes()) {
  Board b;
  b.store.submit_baseline(b.user, plugin_bundle("one", "1"));
  const int64_t data = b.submit("data"), good = b.store.submit(b.user, plugin_bundle("two", "2")).submission,
                bad = b.store.submit(b.user, plugin_bundle("three", "3")).submission;
  std::vector<std::string> compiled, played;
  WorkOptions o = options([&](const RunOptions& run) {
    played.push_back(run.entries[1].filename().string());
    return quick(run);
  });
  o.compile = [&](const bundle::Bundle& bundle) {
    compiled.push_back(bundle.manifest.name);
    if (bundle.manifest.name == "three")
      throw Refusal("C2", "compile", "source that compiles", "error: 'diigt' was not declared\x1b[31m\xff");
  };
  REQUIRE(work_once(b.store, o));  // the oldest job, which is of data
  CHECK(played == std::vector<std::string>{std::to_string(data)});
  CHECK(compiled == std::vector<std::string>{"two", "three"});
  const Submission s = Queries(b.store).submission(bad).value();
  REQUIRE(s.jobs.size() == 1);
  CHECK(s.jobs[0].state == JobState::failed);
  CHECK(s.jobs[0].message.find("C2: compile: expected source that compiles, found error: 'diigt'") == 0);
  CHECK(s.jobs[0].message.find('\x1b') == std::string::npos);
  CHECK(Queries(b.store).submission(good)->jobs[0].state == JobState::queued);
  CHECK(b.store.queue().uncompiled("cpu-mt").empty());
  CHECK(b.store.queue().uncompiled("cpu-1t").empty());
  CHECK(b.store.database().integer("SELECT count(*) FROM events WHERE kind = 'C2'") == 2);
  o.compile = [&](const bundle::Bundle&) { throw sandbox::Unavailable("no sandbox here"); };
  const int64_t later = b.store.submit(b.user, plugin_bundle("four", "4")).submission;
  REQUIRE(work_once(b.store, o));
  CHECK(b.store.queue().uncompiled("cpu-mt") == std::vector<int64_t>{later});
  CHECK(verify_board(b.store).empty());
}

TEST_CASE("C2 says what the compiler says" * doctest::skip(test::kSanitized) * test::takes_minutes()) {
  const sandbox::Offers offers = sandbox::probe();
  CHECK_NOTHROW(bundle::check_compiles(bundle::read_bundle(test::bundle_bytes("data")), offers));
  CHECK(bundle::check_compiles(bundle::read_bundle(plugin_bundle("one", "1")), offers).empty());
  const std::string hides = "1;\n#define J(a, b) a##b\nint J(fo, rk)(int, int);\nconstexpr int other = 1";
  CHECK(bundle::check_compiles(bundle::read_bundle(plugin_bundle("hides", hides)), offers) ==
        std::vector<std::string>{"digit.hpp:3: after the preprocessor, starts other programs"});
  CHECK_THROWS_WITH_AS(bundle::check_compiles(bundle::read_bundle(plugin_bundle("bad", "diigt")), offers),
                       doctest::Contains("diigt"), Refusal);
  const std::string endless =
      "1; template <int n> struct t { static constexpr int v = t<n + 1>::v; }; int v = t<0>::v";
  CHECK_THROWS_WITH_AS(bundle::check_compiles(bundle::read_bundle(plugin_bundle("endless", endless)), offers),
                       doctest::Contains("C2: compile"), Refusal);
}
