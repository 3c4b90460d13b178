-- The tables of a board of schema 3, as its program created them.
CREATE TABLE users(
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, token_sha256 TEXT NOT NULL UNIQUE,
  quota INTEGER NOT NULL CHECK(quota >= 0), created TEXT NOT NULL) STRICT;
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
  started TEXT NOT NULL DEFAULT '', ended TEXT NOT NULL DEFAULT '', epoch TEXT NOT NULL DEFAULT '') STRICT;
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
CREATE VIEW job_list AS
  SELECT j.id, j.bundle, b.name, j.kind, j.benchmark, j.scenario, j.state, j.progress, j.message, j.created,
         j.started, j.ended, a.name AS against_name
  FROM jobs j JOIN bundles b ON b.id = j.bundle JOIN bundles a ON a.id = j.against;
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
CREATE TABLE older_runs(run INTEGER PRIMARY KEY REFERENCES runs(id), schema INTEGER NOT NULL) STRICT;
CREATE TRIGGER bundles_no_UPDATE BEFORE UPDATE ON bundles BEGIN SELECT RAISE(ABORT, 'bundles are only ever added'); END;
CREATE TRIGGER bundles_no_DELETE BEFORE DELETE ON bundles BEGIN SELECT RAISE(ABORT, 'bundles are only ever added'); END;
CREATE TRIGGER files_no_UPDATE BEFORE UPDATE ON files BEGIN SELECT RAISE(ABORT, 'files are only ever added'); END;
CREATE TRIGGER files_no_DELETE BEFORE DELETE ON files BEGIN SELECT RAISE(ABORT, 'files are only ever added'); END;
CREATE TRIGGER subjects_no_UPDATE BEFORE UPDATE ON subjects BEGIN SELECT RAISE(ABORT, 'subjects are only ever added'); END;
CREATE TRIGGER subjects_no_DELETE BEFORE DELETE ON subjects BEGIN SELECT RAISE(ABORT, 'subjects are only ever added'); END;
CREATE TRIGGER baselines_no_UPDATE BEFORE UPDATE ON baselines BEGIN SELECT RAISE(ABORT, 'baselines are only ever added'); END;
CREATE TRIGGER baselines_no_DELETE BEFORE DELETE ON baselines BEGIN SELECT RAISE(ABORT, 'baselines are only ever added'); END;
CREATE TRIGGER machines_no_UPDATE BEFORE UPDATE ON machines BEGIN SELECT RAISE(ABORT, 'machines are only ever added'); END;
CREATE TRIGGER machines_no_DELETE BEFORE DELETE ON machines BEGIN SELECT RAISE(ABORT, 'machines are only ever added'); END;
CREATE TRIGGER runs_no_UPDATE BEFORE UPDATE ON runs BEGIN SELECT RAISE(ABORT, 'runs are only ever added'); END;
CREATE TRIGGER runs_no_DELETE BEFORE DELETE ON runs BEGIN SELECT RAISE(ABORT, 'runs are only ever added'); END;
CREATE TRIGGER turns_no_UPDATE BEFORE UPDATE ON turns BEGIN SELECT RAISE(ABORT, 'turns are only ever added'); END;
CREATE TRIGGER turns_no_DELETE BEFORE DELETE ON turns BEGIN SELECT RAISE(ABORT, 'turns are only ever added'); END;
CREATE TRIGGER contenders_no_UPDATE BEFORE UPDATE ON contenders BEGIN SELECT RAISE(ABORT, 'contenders are only ever added'); END;
CREATE TRIGGER contenders_no_DELETE BEFORE DELETE ON contenders BEGIN SELECT RAISE(ABORT, 'contenders are only ever added'); END;
CREATE TRIGGER audits_no_UPDATE BEFORE UPDATE ON audits BEGIN SELECT RAISE(ABORT, 'audits are only ever added'); END;
CREATE TRIGGER audits_no_DELETE BEFORE DELETE ON audits BEGIN SELECT RAISE(ABORT, 'audits are only ever added'); END;
CREATE TRIGGER records_no_UPDATE BEFORE UPDATE ON records BEGIN SELECT RAISE(ABORT, 'records are only ever added'); END;
CREATE TRIGGER records_no_DELETE BEFORE DELETE ON records BEGIN SELECT RAISE(ABORT, 'records are only ever added'); END;
CREATE TRIGGER events_no_UPDATE BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events are only ever added'); END;
CREATE TRIGGER events_no_DELETE BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events are only ever added'); END;
CREATE TRIGGER trainings_no_UPDATE BEFORE UPDATE ON trainings BEGIN SELECT RAISE(ABORT, 'trainings are only ever added'); END;
CREATE TRIGGER trainings_no_DELETE BEFORE DELETE ON trainings BEGIN SELECT RAISE(ABORT, 'trainings are only ever added'); END;
CREATE TRIGGER fingerprints_no_UPDATE BEFORE UPDATE ON fingerprints BEGIN SELECT RAISE(ABORT, 'fingerprints are only ever added'); END;
CREATE TRIGGER fingerprints_no_DELETE BEFORE DELETE ON fingerprints BEGIN SELECT RAISE(ABORT, 'fingerprints are only ever added'); END;
CREATE TRIGGER likenesses_no_UPDATE BEFORE UPDATE ON likenesses BEGIN SELECT RAISE(ABORT, 'likenesses are only ever added'); END;
CREATE TRIGGER likenesses_no_DELETE BEFORE DELETE ON likenesses BEGIN SELECT RAISE(ABORT, 'likenesses are only ever added'); END;
CREATE TRIGGER appeals_no_UPDATE BEFORE UPDATE ON appeals BEGIN SELECT RAISE(ABORT, 'appeals are only ever added'); END;
CREATE TRIGGER appeals_no_DELETE BEFORE DELETE ON appeals BEGIN SELECT RAISE(ABORT, 'appeals are only ever added'); END;
CREATE TRIGGER answers_no_UPDATE BEFORE UPDATE ON answers BEGIN SELECT RAISE(ABORT, 'answers are only ever added'); END;
CREATE TRIGGER answers_no_DELETE BEFORE DELETE ON answers BEGIN SELECT RAISE(ABORT, 'answers are only ever added'); END;
CREATE TRIGGER ops_no_UPDATE BEFORE UPDATE ON ops BEGIN SELECT RAISE(ABORT, 'ops are only ever added'); END;
CREATE TRIGGER ops_no_DELETE BEFORE DELETE ON ops BEGIN SELECT RAISE(ABORT, 'ops are only ever added'); END;
CREATE TRIGGER reviews_no_UPDATE BEFORE UPDATE ON reviews BEGIN SELECT RAISE(ABORT, 'reviews are only ever added'); END;
CREATE TRIGGER reviews_no_DELETE BEFORE DELETE ON reviews BEGIN SELECT RAISE(ABORT, 'reviews are only ever added'); END;
CREATE TRIGGER older_runs_no_UPDATE BEFORE UPDATE ON older_runs BEGIN SELECT RAISE(ABORT, 'older_runs are only ever added'); END;
CREATE TRIGGER older_runs_no_DELETE BEFORE DELETE ON older_runs BEGIN SELECT RAISE(ABORT, 'older_runs are only ever added'); END;
PRAGMA user_version = 3;
