// The leaderboard's store: users, submissions, jobs and results.
//
//   database.hpp  SQLite      schema.hpp  the tables      runs.hpp  run.json as rows      jobs.hpp  the queue
//   users.hpp  who may submit   hidings.hpp  what is not shown
//   here          bundles, baselines, and the checks of everything that is stored
//
// After a call returns, its changes survive the end of the process and of the machine. If it throws, nothing
// was changed.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <tinymlperf/board/store/appeals.hpp>
#include <tinymlperf/board/store/bundle_rows.hpp>
#include <tinymlperf/board/store/hidings.hpp>
#include <tinymlperf/board/store/jobs.hpp>
#include <tinymlperf/board/store/schema.hpp>
#include <tinymlperf/board/store/settings.hpp>
#include <tinymlperf/board/store/source.hpp>
#include <tinymlperf/board/store/users.hpp>
#include <tinymlperf/bundle/rules.hpp>
#include <tinymlperf/support/foreign_text.hpp>
#include <utility>
#include <vector>

namespace tinymlperf::board {

struct StoreOptions {
  int64_t quota = 20;  // submissions and requested matches of a user on one day (UTC)
  QueueRules queue{};
  double (*clock)() = system_seconds;
};

class Store final : public Uploads {
 public:
  explicit Store(const std::filesystem::path& path, const StoreOptions& options = {})
      : options_(options), db_(path), queue_(db_, options.queue, options.clock) {
    prepare(db_);
  }

  Database& database() { return db_; }
  Queue& queue() { return queue_; }
  const StoreOptions& options() const { return options_; }

  // Returns the token, of which only the digest is stored.
  std::string add_user(const std::string& name, std::optional<int64_t> quota = {}, bool instructor = false) {
    return add_user({name, quota.value_or(options_.quota), "", instructor ? Users::kInstructor : "", ""});
  }
  std::string add_user(const NewUser& u) {
    const std::string token = u.token.empty() ? random_word() : u.token;
    Transaction t(db_);
    const int64_t user = Users(db_).add(u, token, queue_.now());
    note("user", user, {}, u.name);
    t.commit();
    return token;
  }
  std::vector<UserRow> users() { return Users(db_).all(queue_.now()); }

  std::optional<int64_t> user_of(const std::string& token) override { return Users(db_).of_token(token); }

  Accepted submit(int64_t user, std::string bundle_bytes) override {
    const bundle::Bundle b = bundle::read_bundle(bundle_bytes);
    if (const auto known = find(b.id)) return *known;
    bundle::check_rules(b);
    Transaction t(db_);
    if (const auto known = find(b.id)) return *known;
    Settings(db_).require_open(queue_.now());
    require_quota(user);
    for (const std::string& benchmark : b.manifest.benchmarks) require_baseline(b, benchmark);
    const int64_t submission = insert_bundle(db_, user, b, bundle_bytes, queue_.now());
    queue_missing(submission, b.manifest, user);
    note("submission", user, submission, b.id);
    t.commit();
    return {submission, find(b.id)->job, false};
  }

  // Makes it the baseline of its benchmarks and its division, for ever: it defines 100.
  int64_t submit_baseline(int64_t user, const std::string& bundle_bytes) {
    const bundle::Bundle b = bundle::read_bundle(bundle_bytes);
    bundle::check_rules(b);
    Transaction t(db_);
    const auto known = find(b.id);
    const int64_t submission =
        known ? known->submission : insert_bundle(db_, user, b, bundle_bytes, queue_.now());
    for (const std::string& benchmark : b.manifest.benchmarks)
      set_baseline(benchmark, b.manifest, submission);
    if (!known) note("baseline", user, submission, b.id);
    t.commit();
    return submission;
  }

  // Imports a bundle that a user of this name submitted elsewhere; the user gets no token here. Returns true
  // if it is new here.
  bool adopt(const std::string& user_name, const std::string& bundle_bytes, const std::string& created) {
    const bundle::Bundle b = bundle::read_bundle(bundle_bytes);
    bundle::check_rules(b);
    if (find(b.id)) return false;
    require_moment("bundle", created);
    if (!db_.integer("SELECT id FROM users WHERE name = ?", user_name)) add_user(user_name);
    Transaction t(db_);
    if (find(b.id)) return false;
    const int64_t user = db_.integer("SELECT id FROM users WHERE name = ?", user_name).value();
    note("import", user, insert_bundle(db_, user, b, bundle_bytes, created), b.id);
    t.commit();
    return true;
  }
  void adopt_baseline(const std::string& benchmark, const std::string& division, const std::string& digest) {
    Transaction t(db_);
    const auto known = find(digest);
    const auto named = known ? manifest(known->submission) : std::nullopt;
    if (!named || named->division != division ||
        std::find(named->benchmarks.begin(), named->benchmarks.end(), benchmark) == named->benchmarks.end())
      throw Refusal("baseline", benchmark + ", " + division, "a bundle for this table", digest);
    set_baseline(benchmark, *named, known->submission);
    t.commit();
  }

  // Each tier has its own baseline, so that like is compared with like.
  std::optional<int64_t> baseline(const std::string& benchmark, const std::string& division,
                                  const std::string& tier = "T0") {
    return db_.integer("SELECT bundle FROM baselines WHERE benchmark = ? AND division = ? AND tier = ?",
                       benchmark, division, tier);
  }

  int64_t request_head_to_head(int64_t user, int64_t submission, int64_t against) override {
    Transaction t(db_);
    const bundle::Manifest ours = require_manifest(submission), theirs = require_manifest(against);
    for (const int64_t one : {submission, against})
      if (Hidings(db_).of(one))
        throw Refusal("head-to-head", "", "submissions that are shown", "hidden: " + std::to_string(one));
    const auto common = [&](const char* what, const auto& a, const auto& b) {
      for (const std::string& name : a)
        if (std::find(b.begin(), b.end(), name) != b.end()) return name;
      throw Refusal("head-to-head", what, "one that both submissions have", "none");
    };
    if (submission == against || ours.division != theirs.division || ours.tier != theirs.tier ||
        ours.hardware != theirs.hardware)
      throw Refusal("head-to-head", "", "two submissions of one division, tier and hardware class",
                    submission == against ? "one submission" : "two that are in different tables");
    const Claim claim{0,
                      "",
                      "head-to-head",
                      submission,
                      against,
                      common("benchmark", ours.benchmarks, theirs.benchmarks),
                      common("scenario", ours.scenarios, theirs.scenarios),
                      ours.hardware};
    const auto waiting = db_.integer(
        "SELECT id FROM jobs WHERE kind = 'head-to-head' AND bundle = ? AND against = ? AND state IN "
        "('queued', 'running')",
        submission, against);
    if (waiting) return *waiting;
    Settings(db_).require_open(queue_.now());
    require_quota(user);
    const int64_t job = queue_.add(claim, user);
    note("head-to-head", user, submission, "against " + std::to_string(against));
    t.commit();
    return job;
  }

  int64_t appeal(int64_t user, int64_t submission, int64_t run, const std::string& text) override {
    Transaction t(db_);
    const int64_t id = Appeals(db_).add(user, submission, run, text, queue_.now());
    note("appeal", user, submission, "against run " + std::to_string(run));
    t.commit();
    return id;
  }
  void answer_appeal(int64_t appeal, const std::string& text) {
    Transaction t(db_);
    note("answer", {}, Appeals(db_).answer(appeal, text, queue_.now()),
         "to appeal " + std::to_string(appeal));
    t.commit();
  }

  // In the next three an empty user is whoever has the board's file, who may do all that an instructor may.
  // They throw Refusal.
  //
  // A job that waits is cancelled by its owner or an instructor.
  void cancel(std::optional<int64_t> user, int64_t job) override {
    Transaction t(db_);
    require_right(user, "job " + std::to_string(job), db_.integer("SELECT user FROM jobs WHERE id = ?", job));
    queue_.cancel(job);
    note("cancel", user, {}, "job " + std::to_string(job));
    t.commit();
  }
  // The owner withdraws a submission, or an instructor hides it: its waiting jobs are cancelled, and it is
  // not shown any more.
  void withdraw(std::optional<int64_t> user, int64_t submission, const std::string& reason) override {
    Transaction t(db_);
    const auto owner = db_.integer("SELECT user FROM bundles WHERE id = ?", submission);
    require_right(user, "submission " + std::to_string(submission), owner);
    hide(user, submission, {true, user && user == owner, reason, queue_.now()});
    t.commit();
  }
  // An instructor lets a failed or cancelled job wait again.
  void retry(std::optional<int64_t> user, int64_t job) override {
    Transaction t(db_);
    require_instructor(user);
    queue_.retry(job);
    const auto of = db_.integer("SELECT bundle FROM jobs WHERE id = ?", job);
    for (const Sql side :
         {Sql("SELECT bundle FROM jobs WHERE id = ?"), Sql("SELECT against FROM jobs WHERE id = ?")})
      if (Hidings(db_).of(db_.integer(side, job).value()))
        throw Refusal("job " + std::to_string(job), "", "one of submissions that are shown",
                      "a hidden one's");
    note("retry", user, of, "job " + std::to_string(job));
    t.commit();
  }
  // Whoever has the board's file shows a hidden submission again. Its cancelled jobs stay cancelled.
  void restore(int64_t submission, const std::string& reason) {
    Transaction t(db_);
    hide({}, submission, {false, false, reason, queue_.now()});
    t.commit();
  }
  // Imports a decision that was made elsewhere.
  void adopt_hiding(int64_t submission, const Hiding& h) {
    require_moment("hidden", h.date);
    Transaction t(db_);
    if (db_.integer("SELECT 1 FROM hidings WHERE bundle = ? AND hidden = ? AND reason = ? AND created = ?",
                    submission, h.hidden, h.reason, h.date))
      return;
    hide({}, submission, h);
    t.commit();
  }

  // The operator of the board releases or refuses a held result. Throws Refusal.
  void review(int64_t submission, int64_t run, bool released, const std::string& reason) {
    Transaction t(db_);
    Reviews(db_).add(submission, run, released, reason, queue_.now());
    note("review", {}, submission, (released ? "released run " : "refused run ") + std::to_string(run));
    t.commit();
  }
  // Imports a review that was made elsewhere. Returns true if it is new here.
  bool adopt_review(int64_t submission, int64_t run, const Review& review) {
    require_moment("review", review.date);
    Transaction t(db_);
    for (const Review& known : Reviews(db_).of(run, submission))
      if (known.date == review.date && known.reason == review.reason && known.released == review.released)
        return false;
    Reviews(db_).add(submission, run, review.released, review.reason, review.date);
    note("review", {}, submission, "run " + std::to_string(run) + ", of " + review.date);
    t.commit();
    return true;
  }

  // Stores a run that was measured elsewhere; a known run is not stored again. Throws Refusal if a bundle of
  // it is unknown.
  // `older_schema`: the schema of the board on which an older run was kept (schema.hpp); 0: it is not one.
  int64_t ingest(const AnyRun& d, int64_t older_schema = 0) {
    Transaction t(db_);
    if (const auto known = db_.integer("SELECT id FROM runs WHERE sha256 = ?", digest_of(d))) return *known;
    const auto require_known = [&](const auto& run) {
      for (const auto& c : run.contenders)
        if (c.bundle.empty() || !find(c.bundle))
          throw Refusal("run", c.name, "a bundle that is on this board",
                        c.bundle.empty() ? "none" : c.bundle);
    };
    std::visit(require_known, d);
    const int64_t run = insert_run(db_, d, {}, queue_.now());
    if (older_schema > 0) db_.run("INSERT INTO older_runs VALUES(?, ?)", run, older_schema);
    note("ingest", {}, {}, "run " + std::to_string(run));
    t.commit();
    return run;
  }

  // Completes an import when all baselines are stored: checks the rules of the closed division, and queues
  // the bundle unless it was measured. Throws Refusal.
  void settle(const std::string& digest) {
    Transaction t(db_);
    const auto known = find(digest);
    if (!known) return;
    const bundle::Manifest m = manifest(known->submission).value();
    for (const std::string& benchmark : m.benchmarks)
      if (const auto base = baseline(benchmark, m.division, m.tier); base && m.division == "closed")
        require_layers(model_of(known->submission), model_of(*base), benchmark);
    queue_missing(known->submission, m,
                  db_.integer("SELECT user FROM bundles WHERE id = ?", known->submission).value());
    t.commit();
  }

  // The submission's bundle as it was sent.
  std::optional<std::string> bundle_bytes(int64_t submission) {
    return db_.text("SELECT content FROM bundles WHERE id = ?", submission);
  }

  std::optional<bundle::Manifest> manifest(int64_t submission) {
    const auto text = db_.text("SELECT manifest FROM bundles WHERE id = ?", submission);
    if (!text) return std::nullopt;
    return bundle::parse_manifest(*text);
  }

  // Adds to the log of events. Call it inside a transaction.
  void note(const char* kind, std::optional<int64_t> user, std::optional<int64_t> submission,
            const std::string& detail) {
    db_.run("INSERT INTO events(date, kind, user, bundle, detail) VALUES(?, ?, ?, ?, ?)", queue_.now(), kind,
            user, submission, detail);
  }

 private:
  void require_instructor(std::optional<int64_t> user) {
    if (user && !Users(db_).is_instructor(*user))
      throw Refusal("token", "", "that of an instructor", "another one");
  }
  // `what`: "job 7", whose owner may do it, too; empty: there is no such thing.
  void require_right(std::optional<int64_t> user, const std::string& what, std::optional<int64_t> owner) {
    if (!owner) throw Refusal(what, "", "one of this board", "none");
    if (user && user != owner && !Users(db_).is_instructor(*user))
      throw Refusal(what, "", "one of the user whose token this is", "one of somebody else");
  }
  void hide(std::optional<int64_t> user, int64_t submission, const Hiding& h) {
    Hidings(db_).add(submission, h);
    if (h.hidden) queue_.cancel_waiting(submission);
    note(h.hidden ? "hide" : "restore", user, submission, h.reason);
  }
  void require_moment(const char* of, const std::string& created) const {
    if (created.size() != queue_.now().size() || created > queue_.now() ||
        created.find_first_not_of("0123456789-:TZ") != std::string::npos)
      throw Refusal(of, "created", "a moment such as " + queue_.now() + ", not later than that",
                    tinymlperf::detail::show(Json(created)));
  }

  std::optional<Accepted> find(const std::string& digest) {
    const auto submission = db_.integer("SELECT id FROM bundles WHERE sha256 = ?", digest);
    if (!submission) return std::nullopt;
    return Accepted{*submission,
                    db_.integer("SELECT min(id) FROM jobs WHERE bundle = ?", *submission).value_or(0), true};
  }

  void set_baseline(const std::string& benchmark, const bundle::Manifest& m, int64_t submission) {
    const auto present = baseline(benchmark, m.division, m.tier);
    if (present && *present != submission)
      throw Refusal("baseline", benchmark + ", " + m.division + ", " + m.tier, "a table without one",
                    "submission " + std::to_string(*present));
    if (!present)
      db_.run("INSERT INTO baselines VALUES(?, ?, ?, ?, ?)", benchmark, m.division, m.tier, submission,
              queue_.now());
  }

  bundle::Manifest require_manifest(int64_t submission) {
    auto m = manifest(submission);
    if (!m)
      throw Refusal("head-to-head", "", "submissions of this board",
                    "no number " + std::to_string(submission));
    return *std::move(m);
  }

  void require_quota(int64_t user) { Users(db_).require_quota(user, queue_.now()); }

  // Adds a job against the baseline for every scenario with neither a job nor a run.
  void queue_missing(int64_t submission, const bundle::Manifest& m, int64_t user) {
    if (Hidings(db_).of(submission)) return;
    for (const std::string& benchmark : m.benchmarks) {
      const auto against = baseline(benchmark, m.division, m.tier);
      if (!against || *against == submission) continue;
      for (const std::string& scenario : m.scenarios) {
        const bool present =
            db_.integer(
                "SELECT 1 FROM jobs WHERE bundle = ? AND against = ? AND benchmark = ? AND scenario = ?",
                submission, *against, benchmark, scenario) ||
            db_.integer(
                "SELECT 1 FROM bundles b JOIN contenders c ON c.bundle = b.sha256 JOIN runs r ON r.id = "
                "c.run "
                "WHERE b.id = ? AND r.benchmark = ? AND r.scenario = ?",
                submission, benchmark, scenario);
        if (!present) queue_.add({0, "", "run", submission, *against, benchmark, scenario, m.hardware}, user);
      }
    }
  }

  void require_baseline(const bundle::Bundle& b, const std::string& benchmark) {
    const bundle::Manifest& m = b.manifest;
    const auto base = baseline(benchmark, m.division, m.tier);
    if (!base)
      throw Refusal("bundle", "benchmark", "a table with a baseline (`tinymlperf baseline` sets one)",
                    "none for " + benchmark + ", " + m.division + ", " + m.tier);
    if (m.division == "closed") require_layers(*b.find(kModelFile), model_of(*base), benchmark);
  }
  std::string model_of(int64_t submission) {
    return db_.text("SELECT text FROM files WHERE bundle = ? AND path = ?", submission, kModelFile).value();
  }

  StoreOptions options_;
  Database db_;
  Queue queue_;
};

}  // namespace tinymlperf::board
