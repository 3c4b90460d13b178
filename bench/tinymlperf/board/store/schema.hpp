// The tables of the leaderboard. Measurements and submissions are only ever added: triggers refuse to change
// or delete them, so that a rank can be recomputed from the same samples at any time. Ranks are in no table.
//
//   users                                   users who may submit, their teams and roles, digests of tokens
//   bundles  files  subjects  baselines     submissions and their benchmarks; the entry that scores 100
//   jobs                                    matches to be played; rows change, as those of users do
//   runs  contenders  turns  trainings  ops measurements; turns, trainings and ops hold every sample
//   audits  machines                        audits of a run, and the machine that it ran on
//   records  events                         results of direct matches; a log of events
//   fingerprints  likenesses                hashes of each bundle's parts; similarity to earlier bundles
//   appeals  answers                        appeals of owners of refused runs, and the operator's answers
//   reviews                                 decisions on held results, and their reasons
//   older_runs                              runs of judges that kept no evidence of their audits
//   settings                                the deadline of a class, and whether sources are private
//   hidings                                 submissions that were withdrawn or hidden, and the reasons
//   workers                                 machines that may play matches over HTTP, and their keys
//   pseudonyms                              the names under which everybody sees users, if they are on
//
// A board of schema 2 to 5 is brought to this schema when it is opened, in one transaction. Runs keep
// their numbers and digests; those of schema 2 are listed as older ones.
#pragma once

#include <string>
#include <tinymlperf/board/store/database.hpp>

namespace tinymlperf::board {

constexpr int64_t kSchemaVersion = 6;

namespace detail {

constexpr const char* kTables = R"sql(
CREATE TABLE users(
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, token_sha256 TEXT NOT NULL UNIQUE,
  quota INTEGER NOT NULL CHECK(quota >= 0), created TEXT NOT NULL, team TEXT NOT NULL DEFAULT '', role TEXT NOT NULL DEFAULT '') STRICT;
CREATE TABLE bundles(
  id INTEGER PRIMARY KEY, sha256 TEXT NOT NULL UNIQUE, user INTEGER NOT NULL REFERENCES users(id),
  name TEXT NOT NULL, division TEXT NOT NULL, tier TEXT NOT NULL, hardware TEXT NOT NULL, manifest TEXT NOT NULL,
  content BLOB NOT NULL, created TEXT NOT NULL) STRICT;
CREATE INDEX bundles_of_user ON bundles(user, created);
CREATE TABLE files(
  bundle INTEGER NOT NULL REFERENCES bundles(id), path TEXT NOT NULL, bytes INTEGER NOT NULL,
  sha256 TEXT NOT NULL, text TEXT NOT NULL, PRIMARY KEY(bundle, path)) STRICT;
CREATE TABLE subjects(
  bundle INTEGER NOT NULL REFERENCES bundles(id), benchmark TEXT NOT NULL,
  PRIMARY KEY(bundle, benchmark)) STRICT;
CREATE TABLE baselines(
  benchmark TEXT NOT NULL, division TEXT NOT NULL, tier TEXT NOT NULL,
  bundle INTEGER NOT NULL REFERENCES bundles(id), created TEXT NOT NULL,
  PRIMARY KEY(benchmark, division, tier)) STRICT;
CREATE TABLE jobs(
  id INTEGER PRIMARY KEY, kind TEXT NOT NULL CHECK(kind IN ('run', 'head-to-head')),
  bundle INTEGER NOT NULL REFERENCES bundles(id), against INTEGER NOT NULL REFERENCES bundles(id),
  user INTEGER NOT NULL REFERENCES users(id), benchmark TEXT NOT NULL, scenario TEXT NOT NULL,
  hardware TEXT NOT NULL, state TEXT NOT NULL CHECK(state IN ('queued', 'running', 'done', 'failed')),
  attempts INTEGER NOT NULL DEFAULT 0, owner TEXT NOT NULL DEFAULT '', lease_until REAL NOT NULL DEFAULT 0,
  progress REAL NOT NULL DEFAULT 0, message TEXT NOT NULL DEFAULT '', created TEXT NOT NULL,
  started TEXT NOT NULL DEFAULT '', ended TEXT NOT NULL DEFAULT '', epoch TEXT NOT NULL DEFAULT '', fault TEXT NOT NULL DEFAULT '', retries INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE INDEX jobs_by_state ON jobs(state, hardware, id);
CREATE INDEX jobs_of_bundle ON jobs(bundle);
CREATE TABLE machines(id INTEGER PRIMARY KEY, description TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE runs(
  id INTEGER PRIMARY KEY, job INTEGER UNIQUE REFERENCES jobs(id), sha256 TEXT NOT NULL UNIQUE,
  benchmark TEXT NOT NULL, scenario TEXT NOT NULL, division TEXT NOT NULL, class TEXT NOT NULL, hardware TEXT NOT NULL,
  date TEXT NOT NULL, seed INTEGER NOT NULL, hidden_samples INTEGER NOT NULL, quality_metric TEXT NOT NULL,
  quality_floor REAL NOT NULL, machine INTEGER NOT NULL REFERENCES machines(id), sandbox TEXT NOT NULL,
  created TEXT NOT NULL) STRICT;
CREATE TABLE contenders(
  run INTEGER NOT NULL REFERENCES runs(id), place INTEGER NOT NULL, name TEXT NOT NULL,
  bundle TEXT REFERENCES bundles(sha256), tier TEXT NOT NULL, out TEXT NOT NULL,
  quality REAL, quality_low REAL, quality_high REAL, credit TEXT NOT NULL, model_bytes INTEGER NOT NULL,
  peak_bytes INTEGER NOT NULL, multiply_adds INTEGER NOT NULL, minus_bits BLOB NOT NULL,
  positive_wins BLOB NOT NULL, negative_wins BLOB NOT NULL, evidence TEXT NOT NULL DEFAULT '',
  PRIMARY KEY(run, place)) STRICT;
CREATE INDEX contenders_of_bundle ON contenders(bundle);
CREATE TABLE turns(
  run INTEGER NOT NULL, place INTEGER NOT NULL, turn INTEGER NOT NULL, seconds REAL NOT NULL,
  samples INTEGER NOT NULL, latencies BLOB NOT NULL, rate REAL NOT NULL, tokens BLOB NOT NULL, to_first BLOB NOT NULL,
  PRIMARY KEY(run, place, turn),
  FOREIGN KEY(run, place) REFERENCES contenders(run, place)) STRICT;
CREATE TABLE trainings(
  run INTEGER NOT NULL, place INTEGER NOT NULL, number INTEGER NOT NULL, seed INTEGER NOT NULL,
  time_limit REAL NOT NULL, times BLOB NOT NULL, qualities BLOB NOT NULL, ended TEXT NOT NULL,
  PRIMARY KEY(run, place, number),
  FOREIGN KEY(run, place) REFERENCES contenders(run, place)) STRICT;
CREATE TABLE ops(
  run INTEGER NOT NULL, place INTEGER NOT NULL, number INTEGER NOT NULL, op TEXT NOT NULL, state TEXT NOT NULL,
  reason TEXT NOT NULL, cases TEXT NOT NULL, PRIMARY KEY(run, place, number),
  FOREIGN KEY(run, place) REFERENCES contenders(run, place)) STRICT;
CREATE TABLE audits(
  run INTEGER NOT NULL, place INTEGER NOT NULL, number INTEGER NOT NULL, code TEXT NOT NULL,
  name TEXT NOT NULL, passed INTEGER NOT NULL, detail TEXT NOT NULL, PRIMARY KEY(run, place, number),
  FOREIGN KEY(run, place) REFERENCES contenders(run, place)) STRICT;
CREATE TABLE records(
  run INTEGER PRIMARY KEY REFERENCES runs(id), holder INTEGER NOT NULL REFERENCES bundles(id),
  challenger INTEGER NOT NULL REFERENCES bundles(id), speedup REAL NOT NULL, p REAL NOT NULL) STRICT;
CREATE TABLE events(
  id INTEGER PRIMARY KEY, date TEXT NOT NULL, kind TEXT NOT NULL, user INTEGER REFERENCES users(id),
  bundle INTEGER REFERENCES bundles(id), detail TEXT NOT NULL) STRICT;
CREATE TRIGGER jobs_no_delete BEFORE DELETE ON jobs
  BEGIN SELECT RAISE(ABORT, 'jobs are never deleted'); END;
CREATE TABLE fingerprints(
  bundle INTEGER NOT NULL REFERENCES bundles(id), kind TEXT NOT NULL CHECK(kind IN ('code', 'weights')),
  hashes BLOB NOT NULL, PRIMARY KEY(bundle, kind)) STRICT;
CREATE TABLE likenesses(
  bundle INTEGER NOT NULL REFERENCES bundles(id), kind TEXT NOT NULL CHECK(kind IN ('code', 'weights')),
  other INTEGER NOT NULL REFERENCES bundles(id), shared INTEGER NOT NULL, total INTEGER NOT NULL,
  PRIMARY KEY(bundle, kind, other)) STRICT;
CREATE TABLE appeals(
  id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES runs(id), bundle INTEGER NOT NULL REFERENCES bundles(id),
  user INTEGER NOT NULL REFERENCES users(id), note TEXT NOT NULL, created TEXT NOT NULL, UNIQUE(run, bundle)) STRICT;
CREATE TABLE answers(
  appeal INTEGER PRIMARY KEY REFERENCES appeals(id), text TEXT NOT NULL, created TEXT NOT NULL) STRICT;
CREATE TABLE reviews(
  id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES runs(id), bundle INTEGER NOT NULL REFERENCES bundles(id),
  released INTEGER NOT NULL CHECK(released IN (0, 1)), reason TEXT NOT NULL, created TEXT NOT NULL) STRICT;
CREATE VIEW appeal_list AS
  SELECT a.id, a.run, a.bundle, b.name, a.note, a.created, coalesce(w.text, '') AS answer,
         coalesce(w.created, '') AS answered
  FROM appeals a JOIN bundles b ON b.id = a.bundle LEFT JOIN answers w ON w.appeal = a.id;
)sql";

// Audits of these runs cannot be decided again. `schema`: the schema of the board on which they were kept.
constexpr const char* kOlderRuns =
    "CREATE TABLE older_runs(run INTEGER PRIMARY KEY REFERENCES runs(id), schema INTEGER NOT NULL) STRICT";

// `fault`: what a failed job failed for, "entry" or "machine"; "user": it was cancelled. `turn`: the number
// of earlier jobs of the same user that waited at the same time. The queue is played in the order of turns,
// so that users take turns, however many jobs each of them has.
constexpr const char* kJobList =
    "CREATE VIEW job_list AS SELECT j.id, j.bundle, b.name, j.kind, j.benchmark, j.scenario, j.state, "
    "j.progress, j.message, j.created, j.started, j.ended, a.name AS against_name, j.fault, "
    "CASE j.state WHEN 'queued' THEN (SELECT count(*) FROM jobs o WHERE o.user = j.user AND "
    "o.hardware = j.hardware AND o.id < j.id AND (o.state IN ('queued', 'running') OR "
    "o.started >= j.created)) ELSE 0 END AS turn, j.hardware "
    "FROM jobs j JOIN bundles b ON b.id = j.bundle JOIN bundles a ON a.id = j.against";
constexpr const char* kSettings = "CREATE TABLE settings(name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT";
constexpr const char* kJobsOfUser = "CREATE INDEX jobs_of_user ON jobs(user, id)";
// `by`: "owner" or "instructor". The last row of a submission counts.
constexpr const char* kHidings =
    "CREATE TABLE hidings(id INTEGER PRIMARY KEY, bundle INTEGER NOT NULL REFERENCES bundles(id), hidden "
    "INTEGER NOT NULL CHECK(hidden IN (0, 1)), by TEXT NOT NULL CHECK(by IN ('owner', 'instructor')), reason "
    "TEXT NOT NULL, created TEXT NOT NULL) STRICT";

// `key`: a secret with which a worker signs; the board must have it to check that. Empty: it was revoked.
constexpr const char* kWorkers =
    "CREATE TABLE workers(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, token_sha256 TEXT NOT NULL "
    "UNIQUE, key TEXT NOT NULL, created TEXT NOT NULL, hardware TEXT NOT NULL DEFAULT '', seen TEXT NOT NULL "
    "DEFAULT '') STRICT";

constexpr const char* kPseudonyms =
    "CREATE TABLE pseudonyms(user INTEGER PRIMARY KEY REFERENCES users(id), pseudonym TEXT NOT NULL UNIQUE) "
    "STRICT";

constexpr const char* kAppendOnly[] = {"bundles", "files",     "subjects",     "baselines",  "machines",
                                       "runs",    "turns",     "contenders",   "audits",     "records",
                                       "events",  "trainings", "fingerprints", "likenesses", "appeals",
                                       "answers", "ops",       "reviews",      "older_runs", "hidings"};

inline void forbid_changes(Database& db, const std::string& table) {
  for (const std::string what : {"UPDATE", "DELETE"})
    db.script("CREATE TRIGGER " + table + "_no_" + what + " BEFORE " + what + " ON " + table +
              " BEGIN SELECT RAISE(ABORT, '" + table + " are only ever added'); END");
}

inline void migrate_from_2(Database& db) {
  db.script("ALTER TABLE contenders ADD COLUMN evidence TEXT NOT NULL DEFAULT ''");
  db.script("ALTER TABLE jobs ADD COLUMN epoch TEXT NOT NULL DEFAULT ''");  // so leases of before are over
  db.script(kOlderRuns);
  db.script("INSERT INTO older_runs SELECT id, 2 FROM runs ORDER BY id");
  forbid_changes(db, "older_runs");
}

inline void migrate_from_3(Database& db) {
  for (const char* column :
       {"users ADD COLUMN team TEXT NOT NULL DEFAULT ''", "users ADD COLUMN role TEXT NOT NULL DEFAULT ''",
        "jobs ADD COLUMN fault TEXT NOT NULL DEFAULT ''",
        "jobs ADD COLUMN retries INTEGER NOT NULL DEFAULT 0"})
    db.script(std::string("ALTER TABLE ") + column);
  db.script("DROP VIEW job_list");
  db.script(kJobList);
  db.script(kJobsOfUser);
  db.script(kSettings);
  db.script(kHidings);
  forbid_changes(db, "hidings");
}

inline void migrate_from_4(Database& db) { db.script(kWorkers); }
inline void migrate_from_5(Database& db) { db.script(kPseudonyms); }

}  // namespace detail

// Creates the tables if there are none, and migrates those of schema 2 to 5. Throws DatabaseError for a
// file with other tables.
inline void prepare(Database& db) {
  // A commit that returned is on the disk, even after a power failure. REPLACE counts as a deletion
  // (recursive_triggers).
  db.script(
      "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;"
      "PRAGMA recursive_triggers = ON;");
  Transaction t(db);
  const int64_t version = db.integer("PRAGMA user_version").value_or(0);
  if (version == kSchemaVersion) return;
  const bool empty = db.integer("SELECT count(*) FROM sqlite_schema").value_or(0) == 0;
  if (version >= 2 && version < kSchemaVersion && !empty) {
    if (version == 2) detail::migrate_from_2(db);
    if (version <= 3) detail::migrate_from_3(db);
    if (version <= 4) detail::migrate_from_4(db);
    detail::migrate_from_5(db);
  } else if (version == 0 && empty) {
    db.script(detail::kTables);
    for (const char* text : {detail::kOlderRuns, detail::kJobList, detail::kJobsOfUser, detail::kSettings,
                             detail::kHidings, detail::kWorkers, detail::kPseudonyms})
      db.script(text);
    for (const std::string table : detail::kAppendOnly) detail::forbid_changes(db, table);
  } else {
    throw DatabaseError("expected a leaderboard with tables of version 2 to " +
                        std::to_string(kSchemaVersion) + ", found something else (version " +
                        std::to_string(version) + ")");
  }
  db.script("PRAGMA user_version = " + std::to_string(kSchemaVersion));
  t.commit();
}

}  // namespace tinymlperf::board
