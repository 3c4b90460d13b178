// The wrapper of SQLite: values are never parsed as SQL, transactions are all or nothing, errors are thrown.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <thread>
#include <tinymlperf/board/store/schema.hpp>
#include <tinymlperf/bundle/bundle.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
using namespace tinymlperf::board;

namespace {

struct Fixture {
  TemporaryFolder folder;
  Database db{folder.path() / "test.db"};
  Fixture() { db.script("CREATE TABLE things(id INTEGER PRIMARY KEY, name TEXT, value REAL, bytes BLOB)"); }
};

}  // namespace

TEST_CASE("values come back as they went in, however they are spelled") {
  Fixture f;
  const std::string names[] = {"Robert'); DROP TABLE things;--", "\" OR 1=1 --",
                               std::string("nul\0inside", 10), "", "\xC3\xA4?1:a@b$c"};
  for (const std::string& name : names) {
    const int64_t id = f.db.insert("INSERT INTO things(name) VALUES(?)", name);
    CHECK(f.db.text("SELECT name FROM things WHERE id = ?", id) == name);
    CHECK(f.db.integer("SELECT id FROM things WHERE name = ?", name) == id);
  }
  CHECK(f.db.integer("SELECT count(*) FROM things") == 5);
  const std::string bytes("\0\xff\0", 3);
  const double value = std::nextafter(0.1, 1.0);
  const int64_t id = f.db.insert("INSERT INTO things(value, bytes, id) VALUES(?, ?, ?)", value, Blob{bytes},
                                 std::numeric_limits<int64_t>::min());
  board::Rows row = f.db.query("SELECT value, bytes, name, id FROM things WHERE id = ?", id);
  REQUIRE(row.next());
  CHECK(row.number(0) == value);
  CHECK(row.text(1) == bytes);
  CHECK(row.is_null(2));
  CHECK(row.integer(3) == std::numeric_limits<int64_t>::min());
  CHECK_FALSE(row.next());
  CHECK_FALSE(f.db.text("SELECT name FROM things WHERE id = ?", id));
}

TEST_CASE("a transaction that is not committed never happened") {
  Fixture f;
  {
    Transaction t(f.db);
    f.db.run("INSERT INTO things(name) VALUES(?)", "lost");
  }
  CHECK(f.db.integer("SELECT count(*) FROM things") == 0);
  {
    Transaction t(f.db);
    f.db.run("INSERT INTO things(name) VALUES(?)", "kept");
    t.commit();
  }
  CHECK(Database(f.folder.path() / "test.db").text("SELECT name FROM things") == "kept");
}

TEST_CASE("errors are thrown, and leave the connection usable") {
  Fixture f;
  CHECK_THROWS_AS(f.db.run("INSERT INTO nothing VALUES(?)", 1), DatabaseError);
  CHECK_THROWS_AS(f.db.run("SELECT ?", 1, 2), DatabaseError);
  CHECK_THROWS_AS(f.db.script("CREATE"), DatabaseError);
  CHECK_THROWS_AS(Database(f.folder.path() / "no" / "such.db"), DatabaseError);
  CHECK(f.db.integer("SELECT 7") == 7);
}

TEST_CASE("threads share a connection: none sees half of another's transaction") {
  Fixture f;
  f.db.run("INSERT INTO things(id, value) VALUES(1, 0)");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 50; ++k) {
        Transaction t(f.db);
        const auto value = f.db.integer("SELECT value FROM things WHERE id = 1").value();
        f.db.run("UPDATE things SET value = ? WHERE id = 1", value + 1);
        t.commit();
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(f.db.integer("SELECT value FROM things WHERE id = 1") == 200);
}

TEST_CASE("the tables are made once, and another file is not taken for a leaderboard") {
  const TemporaryFolder folder;
  Database db(folder.path() / "board.db");
  prepare(db);
  prepare(db);
  CHECK(db.integer("SELECT count(*) FROM sqlite_schema WHERE type = 'trigger'") == 41);
  CHECK(db.text("PRAGMA journal_mode") == "wal");
  CHECK(db.integer("PRAGMA synchronous") == 2);
  CHECK(db.integer("PRAGMA foreign_keys") == 1);
  Fixture f;
  CHECK_THROWS_AS(prepare(f.db), DatabaseError);
  Database later(folder.path() / "later.db");
  later.script("PRAGMA user_version = 99");
  CHECK_THROWS_AS(prepare(later), DatabaseError);
}
