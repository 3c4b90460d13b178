// The queue: each job is measured by one worker at a time, and its result is kept once.
//
// A worker that claims a job holds a lease, which it renews while it works. If the worker is killed, the
// lease ends and the next claim takes the job again, a few times at most. Leases are measured by the time
// since the machine started, which nobody sets, so a wrong clock neither prolongs nor ends them. A lease
// names the start of the machine (its epoch), and does not outlive it. The file of a board is used by one
// machine. The worker shows the claim's owner token when it finishes. A slow worker that lost its job to
// another one shows an old token, and its result is refused.
//
// Users take turns, however many jobs each of them has. A job that fails says what it failed for. If that is
// the machine, it waits again by itself, once; the instructor may let any failed job wait again. A job that
// still waits can be cancelled.
#pragma once

#include <chrono>
#include <ctime>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <tinymlperf/board/store/runs.hpp>
#include <tinymlperf/board/store/users.hpp>
#include <tinymlperf/support/machine.hpp>

namespace tinymlperf::board {

inline double system_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

struct Claim {
  int64_t job = 0;
  std::string owner;  // the token
  std::string kind;
  int64_t submission = 0, against = 0;
  std::string benchmark, scenario, hardware;
};

// Another worker has the job by now, or it was finished.
class LeaseLost : public std::runtime_error {
 public:
  explicit LeaseLost(int64_t job)
      : std::runtime_error("job " + std::to_string(job) + " is not this worker's any more") {}
};

// Seconds since the machine started, also while it slept.
inline double boot_seconds() {
  timespec t{};
  clock_gettime(CLOCK_BOOTTIME, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}
// Names this start of the machine.
inline std::string boot_epoch() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  return std::getline(file, id) ? id : "unknown";
}

// The cause of a job's failure: the entry, the machine or its worker, or a user who cancelled it.
enum class Fault { entry, machine, user };
inline const char* name_of(Fault f) {
  return f == Fault::entry ? "entry" : f == Fault::machine ? "machine" : "user";
}

struct QueueRules {
  double lease = 60;     // seconds
  int64_t attempts = 3;  // claims of a job, at most
  double (*monotonic)() = boot_seconds;
  std::string (*epoch)() = boot_epoch;
};

class Queue {
 public:
  Queue(Database& db, QueueRules rules, double (*clock)()) : db_(db), rules_(rules), clock_(clock) {}

  int64_t add(const Claim& what, int64_t user) {
    return db_.insert(
        "INSERT INTO jobs(kind, bundle, against, user, benchmark, scenario, hardware, state, created) "
        "VALUES(?, ?, ?, ?, ?, ?, ?, 'queued', ?)",
        what.kind, what.submission, what.against, user, what.benchmark, what.scenario, what.hardware, now());
  }

  // Returns true if claim() would give a job.
  bool has_job(const std::string& hardware) {
    return db_
        .integer(
            "SELECT 1 FROM jobs WHERE hardware = ? AND (state = 'queued' OR (state = 'running' AND "
            "(epoch <> ? OR lease_until < ?)))",
            hardware, rules_.epoch(), rules_.monotonic())
        .has_value();
  }

  // The next job for this hardware that no worker has: users take turns (schema.hpp). Empty if there is none.
  std::optional<Claim> claim(const std::string& hardware) {
    Transaction t(db_);
    const double moment = rules_.monotonic();
    const std::string epoch = rules_.epoch();
    db_.run(
        "UPDATE jobs SET state = 'failed', fault = 'machine', ended = ?, message = 'every worker that tried "
        "it was lost' WHERE state = 'running' AND (epoch <> ? OR lease_until < ?) AND attempts >= ?",
        now(), epoch, moment, rules_.attempts);
    std::optional<Claim> claim;
    {
      Rows row = db_.query(
          "SELECT j.id, j.kind, j.bundle, j.against, j.benchmark, j.scenario FROM jobs j JOIN job_list l ON "
          "l.id = j.id WHERE j.hardware = ? AND (j.state = 'queued' OR (j.state = 'running' AND (epoch <> ? "
          "OR lease_until < ?))) ORDER BY l.turn, j.id LIMIT 1",
          hardware, epoch, moment);
      if (row.next())
        claim = Claim{row.integer(0), random_word(), row.text(1), row.integer(2),
                      row.integer(3), row.text(4),   row.text(5), hardware};
    }
    if (claim)
      db_.run(
          "UPDATE jobs SET state = 'running', owner = ?, epoch = ?, lease_until = ?, "
          "attempts = attempts + 1, started = ?, progress = 0, message = 'a worker has it' WHERE id = ?",
          claim->owner, epoch, moment + rules_.lease, now(), claim->job);
    t.commit();
    return claim;
  }

  // Submissions with source that wait for this hardware and were not compiled yet, oldest first.
  std::vector<int64_t> uncompiled(const std::string& hardware) {
    std::vector<int64_t> out;
    for (Rows r =
             db_.query("SELECT DISTINCT j.bundle FROM jobs j JOIN bundles b ON b.id = j.bundle "
                       "WHERE j.state = 'queued' AND j.hardware = ? AND b.tier <> 'T0' AND NOT EXISTS "
                       "(SELECT 1 FROM events e WHERE e.bundle = b.id AND e.kind = 'C2') ORDER BY j.bundle",
                       hardware);
         r.next();)
      out.push_back(r.integer(0));
    return out;
  }

  // Records check C2. With a reason it failed: the submission's waiting jobs fail, too, and are not played.
  void note_compiled(int64_t submission, const std::string& why_not) {
    Transaction t(db_);
    if (!why_not.empty())
      db_.run(
          "UPDATE jobs SET state = 'failed', fault = 'entry', message = ?, ended = ? WHERE bundle = ? AND "
          "state = 'queued'",
          why_not, now(), submission);
    db_.run("INSERT INTO events(date, kind, user, bundle, detail) VALUES(?, 'C2', NULL, ?, ?)", now(),
            submission, why_not.empty() ? "it compiles" : why_not);
    t.commit();
  }

  // Stores the progress of a job and renews its lease. Throws LeaseLost.
  void report(const Claim& c, double progress, const std::string& message) {
    const int64_t changed = db_.run(
        "UPDATE jobs SET progress = ?, message = ?, lease_until = ? "
        "WHERE id = ? AND owner = ? AND state = 'running'",
        progress, message, rules_.monotonic() + rules_.lease, c.job, c.owner);
    if (changed != 1) throw LeaseLost(c.job);
  }

  // The claim that the worker with this owner token has or had. Throws LeaseLost.
  Claim claim_of(int64_t job, const std::string& owner) {
    Rows r = db_.query(
        "SELECT kind, bundle, against, benchmark, scenario, hardware FROM jobs "
        "WHERE id = ? AND owner = ? AND owner <> ''",
        job, owner);
    if (!r.next()) throw LeaseLost(job);
    return {job, owner, r.text(0), r.integer(1), r.integer(2), r.text(3), r.text(4), r.text(5)};
  }

  // Stores the result and ends the job in one transaction. The same result of the same claim may come again,
  // from a worker that did not hear the answer. Throws LeaseLost, and then keeps nothing of the result.
  // Throws std::invalid_argument if the result is that of another job.
  int64_t finish(const Claim& c, const AnyRun& d) {
    Transaction t(db_);
    require_same(c, d);
    const std::string digest = digest_of(d);
    if (const auto known = db_.integer("SELECT r.id FROM runs r JOIN jobs j ON j.id = r.job WHERE r.sha256 = "
                                       "? AND j.id = ? AND j.owner = ?",
                                       digest, c.job, c.owner))
      return *known;
    if (db_.integer("SELECT 1 FROM runs WHERE sha256 = ?", digest))
      throw std::invalid_argument("job " + std::to_string(c.job) +
                                  ": the run is on the board already, as that of another job");
    const int64_t changed = db_.run(
        "UPDATE jobs SET state = 'done', progress = 1, message = '', ended = ? "
        "WHERE id = ? AND owner = ? AND state = 'running'",
        now(), c.job, c.owner);
    if (changed != 1) throw LeaseLost(c.job);
    const int64_t run = insert_run(db_, d, c.job, now());
    if (c.kind == "head-to-head") note_record(c, d, run);
    db_.run("INSERT INTO events(date, kind, user, bundle, detail) VALUES(?, 'run', NULL, ?, ?)", now(),
            c.submission, "job " + std::to_string(c.job) + " ended with run " + std::to_string(run));
    t.commit();
    return run;
  }

  // Ends the job without a result. Returns true if it waits again instead, because the machine failed for the
  // first time. Throws LeaseLost.
  bool fail(const Claim& c, const std::string& why, Fault fault) {
    Transaction t(db_);
    const bool again = fault == Fault::machine &&
                       db_.integer("SELECT 1 FROM jobs WHERE id = ? AND retries = 0", c.job).has_value();
    const int64_t changed =
        again ? db_.run(
                    "UPDATE jobs SET state = 'queued', retries = 1, owner = '', progress = 0, message = ? "
                    "WHERE id = ? AND owner = ? AND state = 'running'",
                    "it waits again, since the machine failed: " + why, c.job, c.owner)
              : db_.run(
                    "UPDATE jobs SET state = 'failed', fault = ?, message = ?, ended = ? WHERE id = ? AND "
                    "owner = ? AND state = 'running'",
                    name_of(fault), why, now(), c.job, c.owner);
    if (changed != 1) throw LeaseLost(c.job);
    db_.run("INSERT INTO events(date, kind, user, bundle, detail) VALUES(?, 'failure', NULL, ?, ?)", now(),
            c.submission, "job " + std::to_string(c.job) + ": " + why);
    t.commit();
    return again;
  }

  // Lets a failed or cancelled job wait again, as if it were new. Call it inside a transaction. Throws
  // Refusal.
  void retry(int64_t job) {
    require_state(job, "failed", "one that failed or was cancelled");
    db_.run(
        "UPDATE jobs SET state = 'queued', fault = '', attempts = 0, retries = 0, owner = '', progress = 0, "
        "message = 'it waits again, as the instructor asked', started = '', ended = '' WHERE id = ?",
        job);
  }

  // Call it inside a transaction. Throws Refusal.
  void cancel(int64_t job) {
    require_state(job, "queued", "one that still waits");
    db_.run("UPDATE jobs SET state = 'failed', fault = 'user', message = 'cancelled', ended = ? WHERE id = ?",
            now(), job);
  }
  // Call it inside a transaction.
  void cancel_waiting(int64_t submission) {
    db_.run(
        "UPDATE jobs SET state = 'failed', fault = 'user', message = 'its submission was withdrawn', ended = "
        "? WHERE state = 'queued' AND (bundle = ? OR against = ?)",
        now(), submission, submission);
  }

  std::string now() const { return utc_text(static_cast<std::time_t>(clock_())); }

 private:
  void require_state(int64_t job, const char* state, const char* expected) {
    const std::string found = db_.text("SELECT state FROM jobs WHERE id = ?", job).value_or("");
    if (found == state) return;
    throw Refusal("job " + std::to_string(job), "", expected,
                  found == "queued"    ? "one that waits"
                  : found == "running" ? "one that is being played"
                  : found == "done"    ? "one that was played"
                  : found == "failed"  ? "one that has ended"
                                       : "no such job");
  }
  void require_same(const Claim& c, const AnyRun& run) {
    const judge::Measured what = judge::measured_by(run);
    const auto digest = [&](int64_t submission) {
      return db_.text("SELECT sha256 FROM bundles WHERE id = ?", submission).value_or("");
    };
    const bool same = what.benchmark == c.benchmark && what.scenario == c.scenario &&
                      std::visit(
                          [&](const auto& d) {
                            return d.hardware == c.hardware && d.contenders.size() == 2 &&
                                   d.contenders[0].bundle == digest(c.against) &&
                                   d.contenders[1].bundle == digest(c.submission);
                          },
                          run);
    if (!same)
      throw std::invalid_argument("job " + std::to_string(c.job) +
                                  ": the run is of another benchmark, scenario, hardware or pair of bundles");
  }
  void note_record(const Claim& c, const AnyRun& played, int64_t run) {
    const auto trial = std::visit([](const auto& d) { return record_trial(d); }, played);
    const bool smoke = std::visit([](const auto& d) { return d.run_class == "smoke"; }, played);
    if (trial && trial->accepted && !smoke)
      db_.run("INSERT INTO records VALUES(?, ?, ?, ?, ?)", run, c.against, c.submission, trial->speedup,
              trial->p);
  }

  Database& db_;
  QueueRules rules_;
  double (*clock_)();
};

}  // namespace tinymlperf::board
