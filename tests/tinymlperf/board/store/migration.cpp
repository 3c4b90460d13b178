// A board of schema 2 or 3 is opened by this program: it keeps its numbers, its seal and its ranks. Runs of
// schema 2 are listed as older ones, whose audits have no evidence. New runs do not profit from that.
#include <doctest/doctest.h>

#include <map>
#include <support/audited_run.hpp>
#include <support/board.hpp>
#include <support/refusals.hpp>
#include <tinymlperf/board/store/transfer.hpp>
#include <tinymlperf/board/store/verify.hpp>
#include <tinytorch/tinytorch.hpp>
#include <tree/source_folder.hpp>

using namespace tinymlperf;
using namespace tinymlperf::board;
using test::Board;
using test::holds;

namespace {

// A populated board, and the same rows in a file of an earlier schema.
struct OldBoard {
  Board board;
  test::BoardFolder folder;
  std::string seal;
  Json old_ranks;

  explicit OldBoard(int schema = 2) {
    board.submit("fast", 2), board.submit("slow", 3);
    board.work_off(
        {.speedup = 2,
         .audits = {{"A1", "agreement", true, "512 timed answers are the graded ones"},
                    {"A2", "same sample", true, "the same sample again is answered 1.00 times as fast"}}});
    seal = seal_of_board(board.store.database());
    old_ranks = ranks(board.store);
    const std::string tables =
        read_text("tests/tinymlperf/board/store/schema_" + std::to_string(schema) + ".sql");
    Database old(folder.path);
    old.script("PRAGMA journal_mode = WAL;" + tables);
    old.script("PRAGMA foreign_keys = OFF; ATTACH '" + board.path.string() + "' AS present");
    std::map<std::string, std::string> columns;  // of each table
    for (board::Rows r = old.query("SELECT t.name, c.name FROM main.sqlite_schema t JOIN "
                                   "pragma_table_info(t.name, 'main') c WHERE t.type = 'table'");
         r.next();)
      columns[r.text(0)] += (columns[r.text(0)].empty() ? "" : ", ") + r.text(1);
    for (const auto& [name, names] : columns)
      old.script("INSERT INTO main." + name + "(" + names + ") SELECT " + names + " FROM present." + name);
  }

  static std::string read_text(const std::string& path) {
    return tinymlperf::detail::read_limited(std::filesystem::path(tinytorch_tree::kSourceFolder) / path,
                                            int64_t{1} << 20);
  }
};

std::string complaints(Store& store) {
  std::string out;
  for (const std::string& c : verify_board(store)) out += c + "\n";
  return out;
}

}  // namespace

TEST_CASE("a board of schema 2 keeps its runs, ranks and seal, verifies, and is migrated once") {
  OldBoard old;
  for (int time = 0; time < 2; ++time) {
    Store store(old.folder.path, Board::with_clock({}));
    Database& db = store.database();
    CHECK(db.integer("PRAGMA user_version") == kSchemaVersion);
    CHECK(db.integer("SELECT count(*) FROM older_runs") == 4);
    CHECK(complaints(store) == "");
    CHECK(ranks(store) == old.old_ranks);
    CHECK(seal_of_board(db) == old.seal);
    CHECK_THROWS_AS(db.run("DELETE FROM older_runs"), DatabaseError);
  }
}

TEST_CASE("a board of schema 3 keeps everything, too, and its runs are no older ones") {
  OldBoard old(3);
  Store store(old.folder.path, Board::with_clock({}));
  CHECK(store.database().integer("SELECT count(*) FROM older_runs") == 0);
  // Made-up runs have no evidence of their audits; the schema and everything else is as it must be.
  for (const std::string& c : verify_board(store)) CHECK_MESSAGE(holds(c, "evidence"), c);
  CHECK(ranks(store) == old.old_ranks);
  CHECK(seal_of_board(store.database()) == old.seal);
  const auto job = store.queue().add({0, "", "run", 2, 1, "dig", "offline", "cpu-mt"}, 1);
  store.cancel({}, job);
  CHECK(Queries(store).job(job)->state == JobState::cancelled);
  store.withdraw({}, 2, "It was a test.");
  CHECK_THROWS_AS(store.database().run("DELETE FROM hidings"), DatabaseError);
}

TEST_CASE("a migrated board takes new runs, and from these the evidence of audits is demanded") {
  OldBoard old;
  Store store(old.folder.path, Board::with_clock({}));
  const auto bundle = [&](int64_t id) {
    return store.database().text("SELECT sha256 FROM bundles WHERE id = ?", id).value();
  };
  judge::RunDocument d = test::audited_run(judge::Scenario::single_stream);
  d.contenders[0].bundle = bundle(1), d.contenders[1].bundle = bundle(2);
  d.contenders[0].name = "base", d.contenders[1].name = "fast";
  store.ingest(d);
  CHECK(complaints(store) == "");
  d.seed = 8;
  d.contenders[1].evidence = {};
  store.ingest(d);
  CHECK(holds(complaints(store), "does not follow from any evidence"));
}

TEST_CASE("an export of a migrated board names its older runs, and an export of schema 1 holds only such") {
  OldBoard old;
  Store store(old.folder.path, Board::with_clock({}));
  const std::string bytes = export_board(store);
  const auto changed = [&](const std::function<void(Json&)>& change, bool chains) {
    auto files = bundle::read_archive(bytes, kBoardLimits);
    for (bundle::ArchiveFile& file : files) {
      if (!file.path.ends_with(".json")) continue;
      Json j = Json::parse(file.content);
      if (file.path == kBoardFile) change(j);
      if (!chains) j.erase(judge::kChain);
      file.content = j.dump();
    }
    return bundle::write_archive(files);
  };
  const auto imported = [](const std::string& archive) {
    const test::BoardFolder f;
    Store to(f.path, Board::with_clock({}));
    std::string wrong;
    try {
      import_board(to, archive);
    } catch (const Refusal& r) {
      return std::string(r.what());
    }
    CHECK(to.database().integer("SELECT count(*) FROM older_runs") == 4);
    return complaints(to);
  };
  CHECK(imported(bytes) == "");
  const auto first = [](Json& j) { j["schema"] = "tinymlperf-board-1", j.erase("older"); };
  CHECK(imported(changed(first, false)) == "");
  // Without the list, the audits of its runs are demanded.
  CHECK(holds(imported(changed([](Json& j) { j["older"] = Json::array(); }, true)),
              "does not follow from any evidence"));
}

TEST_CASE("a file of schema 2 that is not a board, and one of schema 1, are left alone") {
  const TemporaryFolder folder;
  Database one(folder.path() / "one.db"), two(folder.path() / "two.db");
  one.script("CREATE TABLE runs(id INTEGER); PRAGMA user_version = 1");
  two.script("CREATE TABLE things(id INTEGER); PRAGMA user_version = 2");
  CHECK_THROWS_AS(prepare(one), DatabaseError);
  CHECK_THROWS_AS(prepare(two), DatabaseError);
  CHECK(two.integer("PRAGMA user_version") == 2);
  CHECK(two.integer("SELECT count(*) FROM sqlite_schema") == 1);
}
