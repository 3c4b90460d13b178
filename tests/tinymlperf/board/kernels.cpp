// Kernels on the board: packed, submitted, played, ranked, shown, verified, exported.
#include <doctest/doctest.h>

#include <support/few.hpp>
#include <support/kernel_runs.hpp>
#include <support/refusals.hpp>
#include <support/sanitized.hpp>
#include <tinymlperf/board/pages/submission.hpp>
#include <tinymlperf/board/store/queries.hpp>
#include <tinymlperf/board/store/transfer.hpp>
#include <tinymlperf/board/store/verify.hpp>
#include <tinymlperf/board/web/json.hpp>
#include <tinymlperf/board/work/worker.hpp>
#include <tinymlperf/commands/pack.hpp>
#include <tinymlperf/commands/show.hpp>
#include <tinytorch/tinytorch.hpp>
#include <tree/source_folder.hpp>

using namespace tinymlperf;
using namespace tinymlperf::board;
using test::holds, test::refusal, test::KernelBoard, test::kernel_bundle;

namespace {

const TableKey kTable{"krn", "kernel", "cpu-mt", "T2"};

const board::Row& row_of(const Table& t, int64_t submission) {
  return *std::ranges::find(t.rows, submission, &board::Row::submission);
}

}  // namespace

TEST_CASE("headers alone are kernels, too; page, text, JSON and runs say which they replace") {
  KernelBoard board;
  bundle::Manifest m = bundle::read_bundle(kernel_bundle("mine")).manifest;
  const std::string header = "tinytorch/backend/cpu/softmax.hpp";
  const auto mine =
      board.store.submit(board.user, bundle::pack(m, {{"include/" + header, "#pragma once\n"}})).submission;
  const auto claim = board.store.queue().claim("cpu-mt");
  REQUIRE(claim);
  judge::kernels::KernelRun played = board.result(*claim);
  played.contenders[1].replaced = {header};
  const int64_t run = board.store.queue().finish(*claim, played);
  const Submission s = Queries(board.store).submission(mine).value();
  CHECK(s.replaced == std::vector<std::string>{header});
  CHECK(to_json(s).at("replaced") == Json{header});
  CHECK(holds(tinymlperf::detail::text_of(s), "replaces " + header + "\n"));
  CHECK(holds(submission_page({}, s), "<li><code>" + header + "</code></li>"));
  Submission data = s;
  data.replaced.clear();
  CHECK_FALSE(holds(submission_page({}, data), "that it replaces"));
  const AnyRun kept = read_run(board.store.database(), run).value();
  CHECK(std::get<judge::kernels::KernelRun>(kept).contenders[1].replaced == std::vector<std::string>{header});
  CHECK(std::get<judge::kernels::KernelRun>(kept).contenders[0].replaced.empty());
}

TEST_CASE("kernels are a division of their own: alone, asked one by one, and code") {
  const auto says = [](const std::function<void(bundle::Manifest&)>& change) {
    bundle::Manifest m = bundle::read_bundle(kernel_bundle("mine")).manifest;
    change(m);
    const std::string bytes = bundle::pack(m, {{"plugin.cpp", "int main() {}\n"}});
    return refusal([&] { bundle::check_rules(bundle::read_bundle(bytes)); });
  };
  CHECK(says([](auto&) {}) == "");
  CHECK(holds(says([](auto& m) { m.division = "open"; }), "expected kernel for krn"));
  CHECK(holds(says([](auto& m) { m.benchmarks = {"dig"}; }), "krn alone"));
  CHECK(holds(says([](auto& m) { m.benchmarks = {"krn", "dig"}; }), "krn alone"));
  CHECK(holds(says([](auto& m) { m.scenarios = {"offline"}; }), "single_stream for krn"));
  CHECK(holds(says([](auto& m) { m.tier = "T0"; }), "T1 or T2, since a kernel is code"));
  bundle::Manifest m = test::manifest("none");
  m.benchmarks = {"nothing"};
  CHECK(holds(
      refusal([&] { bundle::check_rules(bundle::read_bundle(bundle::pack(m, test::entry_files("none")))); }),
      "krn"));
}

TEST_CASE("ranked by the lower end of the score, with ties; who is out or has none right is not ranked") {
  KernelBoard b;
  const int64_t fast = b.submit("fast");
  b.work_off({.speedup = {4, 1}});
  const int64_t twin = b.submit("twin");
  b.work_off({.speedup = {1, 4}, .noise = 0.2});
  const int64_t half = b.submit("half");  // softmax does not count, for it is wrong
  b.work_off({.speedup = {9, 0.5}, .wrong = "row 3: expected 1, found 2"});
  const int64_t out = b.submit("broken");
  b.work_off({.out = "it ended"});
  const int64_t smoke = b.submit("smoke"),
                waiting = (b.work_off({.run_class = "smoke"}), b.submit("waiting"));
  Queries q(b.store);
  const Table t = q.table(kTable).value();
  CHECK(t.kernels);
  CHECK(t.scenarios.empty());
  REQUIRE(t.rows.size() == 7);
  CHECK(row_of(t, fast).score->estimate == doctest::Approx(200).epsilon(0.02));
  CHECK(row_of(t, fast).rank == 1);
  CHECK(row_of(t, twin).rank == 1);
  CHECK(row_of(t, b.baseline).rank == 3);
  CHECK(row_of(t, b.baseline).score->low == 100);
  CHECK(row_of(t, half).rank == 4);
  CHECK(row_of(t, half).score->estimate == doctest::Approx(50).epsilon(0.02));
  CHECK(row_of(t, half).kernels->right == 1);
  CHECK(row_of(t, half).kernels->ops == 2);
  CHECK(*row_of(t, fast).kernels->fast == std::array<double, 3>{0.5, 0.5, 0.5});
  CHECK(row_of(t, fast).peak_bytes == 4096);
  CHECK(row_of(t, fast).level == Level::audited);
  CHECK(holds(row_of(t, out).not_ranked, "out: it ended"));
  CHECK(row_of(t, out).rank == 0);
  CHECK(holds(row_of(t, smoke).not_ranked, "a smoke run"));
  CHECK(row_of(t, waiting).not_ranked == "not measured yet");
  for (const board::Row& r : t.rows) CHECK_FALSE(r.on_front);
  const auto history = q.history(kTable);
  REQUIRE(history.size() == 1);
  CHECK(history[0].submission == fast);
  const Json row = to_json(row_of(t, fast));
  CHECK(row.at("kernels") ==
        Json{{"ops_right", 2}, {"ops", 2}, {"fast", {{"1", 0.5}, {"1.5", 0.5}, {"2", 0.5}}}});
  CHECK(holds(tinymlperf::detail::text_of(t), "1 of 2"));
}

TEST_CASE("a submission shows its match op by op, and why an op is wrong") {
  KernelBoard b;
  const int64_t mine = b.submit("mine");
  b.work_off({.wrong = "softmax [8, 3]: row 3: expected 1, found nan"});
  const Submission s = Queries(b.store).submission(mine).value();
  REQUIRE(s.runs.size() == 1);
  const Run& r = s.runs[0];
  CHECK(r.benchmark == "krn");
  CHECK(r.baseline == "library");
  CHECK(r.ratio->estimate == doctest::Approx(0.5).epsilon(0.02));
  REQUIRE(r.ops.size() == 2);
  CHECK(r.ops[0].state == "wrong");
  CHECK(holds(r.ops[0].reason, "found nan"));
  CHECK_FALSE(r.ops[0].ratio);
  CHECK(r.ops[1].ratio->estimate == doctest::Approx(0.5).epsilon(0.02));
  CHECK(r.ops[1].hidden->estimate == doctest::Approx(0.5).epsilon(0.02));
  CHECK(s.difference.find("+// mine") != std::string::npos);
  const Json j = to_json(r);
  CHECK(j.at("ops")[0].at("times_the_baseline").is_null());
  CHECK(j.at("kernels").at("ops_right") == 1);
  const std::string shown = tinymlperf::detail::text_of(s);
  CHECK(holds(shown, "1 of 2 ops right"));
  CHECK(holds(shown, "found nan"));
}

TEST_CASE("nothing supposes a tier or hardware") {
  KernelBoard b("gpu(Some Card)");
  const int64_t fast = b.submit("fast");
  b.work_off({.speedup = {3, 3}});
  Queries q(b.store);
  CHECK(q.table_keys() == std::vector<TableKey>{{"krn", "kernel", "gpu(Some Card)", "T2"}});
  CHECK(q.table(q.table_keys()[0])->rows[0].submission == fast);
  const FrontPage page = q.front();
  bool led = false;
  for (const Category& c : page.categories) {
    if (c.title == "fastest kernels") led = c.leader.has_value();
    if (c.title != "fastest kernels") CHECK_FALSE(c.leader);
  }
  CHECK(led);
}

TEST_CASE("a run of kernels comes out as it went in, sample by sample, and is only ever added") {
  KernelBoard b;
  const int64_t mine = b.submit("mine");
  const int64_t run = b.work_off({.wrong = "it is"});
  auto d = b.result({2, "", "run", mine, b.baseline, "krn", "single_stream", "cpu-mt"});
  const AnyRun back = read_run(b.store.database(), run).value();
  CHECK(std::get<KernelRun>(back).contenders[1].ops[0].cases[1].turns.size() == 24);
  const int64_t again = b.store.ingest(d);
  d.machine.erase("date");
  CHECK(judge::to_json(read_run(b.store.database(), again).value()) == to_json(d));
  CHECK(b.store.ingest(back) == run);
  Database& db = b.store.database();
  CHECK_THROWS_AS(db.script("DELETE FROM ops"), DatabaseError);
  CHECK_THROWS_AS(db.script("UPDATE ops SET rowid = rowid"), DatabaseError);
  CHECK(verify_board(b.store).empty());
  db.script("DROP TRIGGER ops_no_UPDATE; UPDATE ops SET cases = replace(cases, '0.00', '0.01') WHERE run = " +
            std::to_string(run));
  bool told = false;
  for (const std::string& c : verify_board(b.store)) told = told || holds(c, "not what was measured");
  CHECK(told);
}

TEST_CASE("a result of something else is refused; a clear win in a direct match is a record") {
  KernelBoard b;
  const int64_t mine = b.submit("mine");
  const auto claim = b.store.queue().claim("cpu-mt").value();
  auto d = b.result(claim);
  d.hardware = "cpu-1t";
  CHECK_THROWS_AS(b.store.queue().finish(claim, d), std::invalid_argument);
  d.hardware = "cpu-mt";
  CHECK_THROWS_AS(b.store.queue().finish(claim, test::run_document(b.who(b.baseline), b.who(mine))),
                  std::invalid_argument);
  b.store.queue().finish(claim, d);
  const int64_t other = b.submit("other");
  b.work_off();
  b.store.request_head_to_head(b.user, other, mine);
  const int64_t won = b.work_off({.speedup = {1.5, 1.5}});
  CHECK(b.store.database().integer("SELECT run FROM records WHERE challenger = ?", other) == won);
  b.store.request_head_to_head(b.user, mine, other);
  b.work_off({.speedup = {2, 0.5}, .noise = 0.3});
  CHECK(b.store.database().integer("SELECT count(*) FROM records") == 1);
  // A direct match is not one against the table's baseline.
  CHECK(row_of(Queries(b.store).table(kTable).value(), other).score->estimate ==
        doctest::Approx(100).epsilon(0.02));
}

TEST_CASE("who was thrown out may appeal; whose op is wrong has a rank and nothing to appeal against") {
  KernelBoard b;
  const int64_t broken = b.submit("broken");
  const int64_t out = b.work_off({.out = "it ended"});
  CHECK_NOTHROW(b.store.appeal(b.user, broken, out, "it did not"));
  const int64_t half = b.submit("half");
  const int64_t wrong = b.work_off({.wrong = "it is"});
  CHECK(holds(refusal([&] { b.store.appeal(b.user, half, wrong, "it is not"); }), "one that was refused"));
}

TEST_CASE("carried to another board, kernels have the same ranks; changed samples are refused") {
  KernelBoard b;
  b.submit("fast"), b.work_off({.speedup = {3, 3}});
  const std::string bytes = export_board(b.store);
  const test::BoardFolder other;
  Store store(other.path, test::Board::with_clock({}));
  const Imported i = import_board(store, bytes);
  CHECK(i.bundles == 2);
  CHECK(i.runs == 1);
  CHECK(ranks(store) == ranks(b.store));
  CHECK(verify_board(store).empty());
  auto files = bundle::read_archive(bytes, kBoardLimits);
  for (bundle::ArchiveFile& file : files) {
    if (!file.path.starts_with("runs/")) continue;
    Json run = Json::parse(file.content);
    run["contenders"][1]["ops"][0]["cases"][0]["turns"][0] = {1e-9};
    file.content = run.dump();
  }
  CHECK(holds(refusal([&] { import_board(store, bundle::write_archive(files)); }),
              "a run whose numbers follow from its samples"));
}

TEST_CASE("a plugin of kernels is played against the library's own, from bundles" *
          doctest::skip(test::kSanitized) * test::takes_minutes()) {
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  const fs::path source = tinytorch_tree::kSourceFolder, student = folder / "student";
  fs::create_directory(student);
  for (const char* file : {"honest.cpp", "plain.hpp"})
    fs::copy_file(source / "tests/exploits/kernels" / file,
                  student / (file == std::string("honest.cpp") ? "plugin.cpp" : file));
  const auto packed = [&](const fs::path& from) {
    PackOptions o;
    o.folder = from, o.out = folder / "packed.tmlp", o.author = "Ada", o.licence = "MIT";
    o.benchmarks = {"krn"};
    std::FILE* nowhere = std::tmpfile();
    CHECK(run_pack(o, nowhere) == kPass);
    std::fclose(nowhere);
    return tinymlperf::detail::read_bundle_file(o.out);
  };
  const test::BoardFolder place;
  Store store(place.path);
  const int64_t user = store.user_of(store.add_user("Ada")).value();
  store.submit_baseline(user, packed(source / "bench/tinymlperf/kernels/library"));
  const int64_t mine = store.submit(user, packed(student)).submission;
  CHECK(store.manifest(mine)->division == "kernel");
  std::vector<std::string> told;
  WorkOptions o;
  o.hardware = "cpu-mt", o.run_class = "smoke";
  o.play = [&](RunOptions run) {
    CHECK(run.benchmark == kKernelBenchmark);
    run.watcher = [&, further = run.watcher](const judge::Progress& now) {
      further(now), told.push_back(now.text());
    };
    std::vector<judge::kernels::KernelTask> tasks{judge::kernels::task_named("softmax")};
    for (Shape& sides : tasks[0].shapes) sides = {64, 32};
    tasks[0].most = {29, 29};
    KernelRun d = tinymlperf::play_kernels(run, tasks);
    d.hardware = "cpu-mt";  // wherever this test runs
    return d;
  };
  const auto worked = work_once(store, o);
  REQUIRE(worked);
  REQUIRE_MESSAGE(worked->failure.empty(), worked->failure);
  CHECK(told.size() == 6);
  const Submission s = Queries(store).submission(mine).value();
  REQUIRE(s.runs.size() == 1);
  CHECK_MESSAGE(s.runs[0].out == "", s.runs[0].out);
  CHECK(s.runs[0].baseline == "library");
  CHECK(s.runs[0].kernels->right == 1);
  CHECK(s.runs[0].ops.at(0).ratio);
  for (const char* id : {"A8", "A11"})  // what the worker adds, which alone knows the claims and the table
    CHECK(std::ranges::count(s.runs[0].audits, id, &Audit::id) == 1);
  CHECK(verify_board(store).empty());
}

TEST_CASE("claims about kernels are compared with the measurement") {
  const KernelRun d = test::kernel_run({"library", ""}, {"mine", ""}, {.speedup = {2, 2}});
  const auto audit = [&](const char* metric, double promised) {
    return judge::kernels::claims_audit(d, d.contenders[1], {{metric, promised}});
  };
  CHECK(audit("ops_right", 2).passed);
  CHECK_FALSE(audit("ops_right", 3).passed);
  CHECK(audit("times_the_baseline", 2.1).passed);
  CHECK_FALSE(audit("times_the_baseline", 2.3).passed);
  CHECK(audit("accuracy", 2).detail == "nothing was promised of this");
}
