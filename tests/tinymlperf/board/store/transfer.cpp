// Export and import of boards, and imports of boards that were tampered with.
#include <doctest/doctest.h>

#include <functional>
#include <support/board.hpp>
#include <support/few.hpp>
#include <support/refusals.hpp>
#include <tinymlperf/board/store/transfer.hpp>
#include <tinymlperf/board/store/verify.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
using namespace tinymlperf::board;
using test::Board;
using test::holds, test::refusal;

namespace {

struct Full : Board {
  Full() {
    submit("fast", 2), submit("slow", 3);
    work_off({.speedup = 2, .audits = {{"A8", "claims", true, "nothing was promised of this"}}});
  }
};

// The export with one of its files changed.
std::string changed(const std::string& bytes, const std::string& path,
                    const std::function<void(Json&)>& change) {
  auto files = bundle::read_archive(bytes, kBoardLimits);
  for (bundle::ArchiveFile& file : files) {
    if (file.path != path) continue;
    Json j = Json::parse(file.content);
    change(j);
    file.content = j.dump();
  }
  return bundle::write_archive(files);
}

std::string first_complaint(Store& store) {
  const auto all = verify_board(store);
  return all.empty() ? "" : all.front();
}

}  // namespace

TEST_CASE("an imported board has the same bundles, runs and ranks, and a second import changes nothing") {
  Full from;
  const std::string bytes = export_board(from.store);
  CHECK(bytes == export_board(from.store));
  const test::BoardFolder f;
  Store to(f.path, Board::with_clock({}));
  const Imported first = import_board(to, bytes);
  CHECK(first.bundles == 3);
  CHECK(first.runs == 4);
  CHECK(ranks(to) == ranks(from.store));
  CHECK(ranks(to)[0].at("rows").size() == 3);
  CHECK(verify_board(to).empty());
  const Imported again = import_board(to, bytes);
  CHECK(again.bundles + again.runs == 0);
  CHECK(again.known_bundles == 3);
  CHECK(again.known_runs == 4);
  CHECK(export_board(to) == bytes);
  CHECK(to.bundle_bytes(2) == from.store.bundle_bytes(2));
}

TEST_CASE("the verdict on an area under the ROC curve can be formed again from what a board carries") {
  Board from;
  const int64_t submission = from.submit("other", 2);
  judge::RunDocument d = test::run_document(from.who(from.baseline), from.who(submission));
  for (judge::ContenderRecord& c : d.contenders) {
    c.wins = {{6, 8}, {8, 6}};
    c.quality = judge::Interval{0.875, 0.8, 0.9};
  }
  d.contenders[1].wins.positives = {8, 6};
  const int64_t run = from.store.ingest(d);
  const auto kept = [](Store& store, int64_t id) {
    return std::get<judge::RunDocument>(read_run(store.database(), id).value());
  };
  CHECK(kept(from.store, run).contenders[1].wins == d.contenders[1].wins);
  Store to(":memory:", Board::with_clock({}));
  import_board(to, export_board(from.store));
  CHECK(kept(to, 1).contenders[1].wins == d.contenders[1].wins);
  CHECK(verify_board(to).empty());
}

TEST_CASE("what was not measured yet is queued where it arrives, once") {
  Full from;
  from.submit("waiting", 5);
  const auto claim = from.store.queue().claim("cpu-mt").value();
  from.store.queue().finish(claim, from.result(claim));
  const test::BoardFolder f;
  Store to(f.path, Board::with_clock({}));
  for (int i = 0; i < 2; ++i) {
    import_board(to, export_board(from.store));
    CHECK(to.database().integer("SELECT count(*) FROM jobs") == 1);
  }
  const auto here = to.queue().claim("cpu-mt");
  REQUIRE(here);
  CHECK(here->scenario == "offline");
  CHECK(here->against == 1);
}

TEST_CASE("an import is checked as if it were new, before anything is kept") {
  Full from;
  const std::string bytes = export_board(from.store);
  const test::BoardFolder f;
  Store to(f.path, Board::with_clock({}));
  const auto refused = [&](const std::string& changed_bytes) {
    const std::string why = refusal([&] { import_board(to, changed_bytes); });
    CHECK(to.database().integer("SELECT count(*) FROM bundles") == 0);
    return why;
  };
  CHECK(
      holds(refused(changed(bytes, "runs/000001.json", [](Json& j) { j["contenders"][1]["value"] = 1e-9; })),
            "numbers follow from its samples"));
  CHECK(holds(refused(changed(bytes, "runs/000001.json",
                              [](Json& j) {
                                for (Json& c : j["contenders"]) c["turns"] = Json::array();
                              })),
              "runs/000001.json"));
  CHECK(holds(refused(changed(bytes, "runs/000001.json",
                              [](Json& j) { j["contenders"][1]["turns"][0]["latencies"][0] = -1; })),
              "positive times"));
  CHECK(holds(refused(changed(bytes, "runs/000002.json", [](Json& j) { j.erase("scenario"); })),
              "runs/000002.json"));
  CHECK(holds(refused(changed(bytes, "board.json", [](Json& j) { j["ranks"][0]["rows"][0]["rank"] = 7; })),
              "those that follow from the samples"));
  CHECK(holds(refused(changed(bytes, "board.json", [](Json& j) { j["schema"] = "other"; })), "schema"));
  CHECK(holds(refused(changed(bytes, "board.json", [](Json& j) { j["runs"][0] = "runs/9.json"; })),
              "only files of this"));
  CHECK(holds(refused(changed(bytes, "board.json",
                              [](Json& j) { j["bundles"][0]["created"] = "9999-01-01T00:00:00Z"; })),
              "created"));
  CHECK(
      holds(refused(changed(bytes, "board.json", [](Json& j) { j["baselines"][0]["division"] = "closed"; })),
            "a bundle for this table"));
  Json deep;
  for (int i = 0; i < 100; ++i) deep = Json::array({deep});
  CHECK(holds(refused(changed(bytes, "runs/000002.json", [&](Json& j) { j["sandbox"] = deep; })),
              "runs/000002.json: expected a run"));
  CHECK(holds(refused(changed(bytes, "board.json", [&](Json& j) { j["ranks"] = deep; })), "64 levels"));
  CHECK_FALSE(refused(bytes.substr(0, bytes.size() / 2)).empty());
  CHECK(refusal([&] { import_board(to, bytes); }).empty());
}

TEST_CASE("the closed division's rule holds for what is imported") {
  const auto closed = [](const std::string& name, const char* pool) {
    bundle::Manifest m = test::manifest(name);
    m.division = "closed";
    auto files = test::entry_files(name);
    for (bundle::ArchiveFile& file : files)
      if (file.path == kModelFile)
        file.content.replace(file.content.find("avg_pool2d"), std::string("avg_pool2d").size(), pool);
    return bundle::pack(m, std::move(files));
  };
  Board from;
  from.store.submit_baseline(from.user, closed("model", "avg_pool2d"));
  from.store.submit(from.user, closed("same", "avg_pool2d"));
  const std::string good = export_board(from.store);
  Store to(":memory:", Board::with_clock({}));
  CHECK(refusal([&] { import_board(to, good); }).empty());
  // Carried over by somebody who slipped another model in.
  auto files = bundle::read_archive(good, kBoardLimits);
  for (bundle::ArchiveFile& file : files)
    if (file.path == "bundles/000003.tmlp") file.content = closed("same", "max_pool2d");
  Store other(":memory:", Board::with_clock({}));
  CHECK(holds(refusal([&] { import_board(other, bundle::write_archive(files)); }), "those of the baseline"));
  CHECK(other.database().integer("SELECT count(*) FROM bundles") == 0);
}

TEST_CASE("a board with another baseline takes no import") {
  Full from;
  Board to;
  to.store.submit(to.user, test::bundle_bytes("own", 9));
  const test::BoardFolder f;
  Store other(f.path, Board::with_clock({}));
  other.submit_baseline(other.user_of(other.add_user("Eve")).value(), test::bundle_bytes("another", 8));
  CHECK(holds(refusal([&] { import_board(other, export_board(from.store)); }), "a table without one"));
  CHECK(refusal([&] { import_board(to.store, export_board(from.store)); }).empty());
}

TEST_CASE("a sound board verifies") {
  Full b;
  CHECK(first_complaint(b.store) == "");
}

TEST_CASE(
    "a seal that was noted stays valid while a board grows, and finds runs whose digests were changed too") {
  Full b;
  const std::string seal = seal_of_board(b.store.database());
  CHECK(seal.starts_with("4:"));
  CHECK(seal_complaint(b.store.database(), seal) == "");
  b.submit("later", 4), b.work_off();
  CHECK(seal_of_board(b.store.database()) != seal);
  CHECK(seal_complaint(b.store.database(), seal) == "");
  for (const char* wrong : {"", "4", ":", "x:1", "4:", "99999999999999999999:1"})
    CHECK_FALSE(seal_complaint(b.store.database(), wrong).empty());
  b.store.database().script(
      "DROP TRIGGER runs_no_UPDATE; UPDATE runs SET sha256 = lower(hex(randomblob(32))) WHERE id = 2");
  CHECK(holds(seal_complaint(b.store.database(), seal), "a run was changed or removed"));
}

TEST_CASE("whatever is changed behind the triggers is found") {
  struct Tampering {
    const char *sql, *found;
  };
  const std::vector<Tampering> all{
      {"UPDATE turns SET seconds = seconds / 2 WHERE place = 1 AND turn = 3", "not what was measured"},
      {"UPDATE turns SET latencies = zeroblob(160) WHERE place = 1 AND turn = 3", "run 1: "},
      {"UPDATE contenders SET quality_low = 0.99 WHERE place = 1", "not what was measured"},
      {"UPDATE contenders SET out = 'slandered' WHERE run = 2 AND place = 1", "run 2: "},
      {"DELETE FROM turns WHERE run = 1 AND place = 1 AND turn > 21", "not what was measured"},
      {"UPDATE runs SET class = 'official'", "not what was measured"},
      {"UPDATE bundles SET name = 'other' WHERE id = 2", "submission 2: its row"},
      {"UPDATE bundles SET content = (SELECT content FROM bundles WHERE id = 3) WHERE id = 2",
       "submission 2: "},
      {"UPDATE files SET text = 'harmless' WHERE path = 'model.json' AND bundle = 2",
       "submission 2: model.json"},
      {"DELETE FROM files WHERE path = 'model.json' AND bundle = 3", "submission 3: files"},
      {"UPDATE jobs SET state = 'failed' WHERE id = 1", "job 1: "},
      {"CREATE TRIGGER evil AFTER INSERT ON runs BEGIN DELETE FROM events; END", "schema: evil"}};
  for (const Tampering& t : test::some_of(all, 4)) {
    CAPTURE(std::string(t.sql));
    Full b;
    Database& db = b.store.database();
    std::vector<std::string> triggers;
    for (board::Rows r = db.query("SELECT sql FROM sqlite_schema WHERE type = 'trigger'"); r.next();)
      triggers.push_back(r.text(0));
    std::vector<std::string> names;
    for (board::Rows r = db.query("SELECT name FROM sqlite_schema WHERE type = 'trigger'"); r.next();)
      names.push_back(r.text(0));
    for (const std::string& name : names) db.script("DROP TRIGGER " + name);
    CHECK(first_complaint(b.store).find("is missing or changed") != std::string::npos);
    db.script(t.sql);
    for (const std::string& trigger : triggers) db.script(trigger);
    CHECK(holds(first_complaint(b.store), t.found));
  }
}
