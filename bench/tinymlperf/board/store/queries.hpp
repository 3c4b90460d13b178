// Everything that the leaderboard shows, computed from its tables on request. Ranks follow from the samples
// (ranking.hpp). The results of a run are cached, since runs never change.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tinymlperf/benchmarks/benchmarks.hpp>
#include <tinymlperf/board/store/appeals.hpp>
#include <tinymlperf/board/store/categories.hpp>
#include <tinymlperf/board/store/line_diff.hpp>
#include <tinymlperf/board/store/pareto.hpp>
#include <tinymlperf/board/store/pseudonyms.hpp>
#include <tinymlperf/board/store/run_views.hpp>
#include <tinymlperf/board/store/sealing.hpp>
#include <tinymlperf/board/store/store.hpp>
#include <utility>
#include <vector>

namespace tinymlperf::board {

inline constexpr const char* kKernelTask =
    "kernels, op by op: all that both have right, against the baseline's";

class Queries final : public Source {
 public:
  // `viewer`: who looks, unless a question names another one.
  explicit Queries(Store& store, const Viewer& viewer = {})
      : store_(store), db_(store.database()), viewer_(viewer) {}

  FrontPage front() override {
    constexpr size_t kRows = 10;
    FrontPage page;
    for (const TableKey& key : table_keys()) page.tables.push_back(*table(key));
    page.categories = categories(page.tables);
    for (Table& t : page.tables)
      if (t.rows.size() > kRows) t.rows.resize(kRows);
    for (Job& j : queue())
      if (j.state == JobState::queued || j.state == JobState::running) page.queue.push_back(std::move(j));
    return page;
  }

  // A table exists as soon as something was submitted to it.
  std::vector<TableKey> table_keys() {
    std::vector<TableKey> keys;
    for (Rows r = db_.query(
             "SELECT DISTINCT s.benchmark, b.division, b.hardware, b.tier FROM bundles b JOIN subjects s ON "
             "s.bundle = b.id JOIN baselines l ON l.benchmark = s.benchmark AND l.division = b.division "
             "AND l.tier = b.tier ORDER BY 4, 1, 2, 3");
         r.next();)
      keys.push_back({r.text(0), r.text(1), r.text(2), r.text(3)});
    return keys;
  }

  std::optional<Table> table(const TableKey& key) override {
    const std::vector<TableKey> known = table_keys();
    if (std::find(known.begin(), known.end(), key) == known.end()) return std::nullopt;
    const std::vector<std::string> scenarios = scenarios_of(key);
    Table t{key, kKernelTask, "", 0, {}, {}, key.benchmark == kKernelBenchmark};
    if (!t.kernels) {
      const auto benchmark = judge::make_benchmark(key.benchmark);
      t.task = benchmark->task(), t.quality_metric = benchmark->metric();
      t.quality_floor = benchmark->floor();
      for (const std::string& s : scenarios) t.scenarios.emplace_back(s, measure_text(s));
    }
    const bool sealed = Settings(db_).sealed_until(store_.queue().now()).has_value();
    Mask masked(db_, viewer_);
    for (Standing& s : standings(results(key), scenarios)) {
      t.rows.push_back(row(std::move(s)));
      std::string& why = t.rows.back().not_ranked;
      if (const size_t at = why.find(judge::kOutText); at != std::string::npos)
        why.replace(
            at + judge::kOutText.size(), std::string::npos,
            seal(viewer_).reason(why.substr(at + judge::kOutText.size()), "entry", t.rows.back().submission));
      if (sealed) t.rows.back().note.clear();
      mask(masked, t.rows.back());
    }
    mark_front(t, store_.baseline(key.benchmark, key.division, key.tier).value_or(0));
    return t;
  }

  std::vector<HistoryPoint> history(const TableKey& key) override {
    std::vector<HistoryPoint> points = leaders(results(key), scenarios_of(key));
    const Mask masked(db_, viewer_);
    for (HistoryPoint& p : points) p.name = masked.entry(facts(p.submission).manifest.name);
    return points;
  }

  std::optional<Submission> submission(int64_t id, const Viewer& viewer = {}) override {
    std::optional<Submission> out = named_submission(id, viewer);
    Mask masked(db_, whom(viewer));
    if (out) mask(masked, *out);
    return out;
  }

  std::vector<Job> queue() override {
    constexpr int kEnded = 50;
    std::vector<Job> jobs = collect(db_.query("SELECT * FROM job_list WHERE state IN ('running', 'queued') "
                                              "ORDER BY state = 'queued', turn, id"),
                                    viewer_);
    for (Job& j : collect(db_.query("SELECT * FROM job_list WHERE state IN ('done', 'failed') "
                                    "ORDER BY ended DESC, id DESC LIMIT ?",
                                    kEnded),
                          viewer_))
      jobs.push_back(std::move(j));
    return jobs;
  }

  std::optional<Job> job(int64_t id, const Viewer& viewer = {}) override {
    auto jobs = collect(db_.query("SELECT * FROM job_list WHERE id = ?", id), whom(viewer));
    if (jobs.empty()) return std::nullopt;
    if (jobs.front().state == JobState::queued) estimate_wait(jobs.front());
    return std::move(jobs.front());
  }

  // Everything on its page is only ever added, except for its jobs.
  std::string revision(int64_t submission) override {
    Rows r = db_.query(
        "SELECT (SELECT max(id) FROM runs), (SELECT max(id) FROM reviews), (SELECT max(id) FROM appeals), "
        "(SELECT count(*) FROM answers), (SELECT count(*) FROM baselines), (SELECT max(id) FROM hidings), "
        "(SELECT group_concat(state || fault || progress || message || started || ended, '\n') "
        "FROM jobs WHERE bundle = b.id) FROM bundles b WHERE b.id = ?",
        submission);
    std::string out;
    const auto sealed = Settings(db_).sealed_until(store_.queue().now());
    if (sealed) out = "sealed until " + *sealed + "\n";
    if (Settings(db_).has_pseudonyms()) out += "as " + Mask(db_, {}).owner(submission) + "\n";
    if (r.next())
      for (int column = 0; column < 7; ++column) out += r.text(column) + "\n";
    return out;
  }

  // All texts of a bundle that can be shown.
  Texts texts(int64_t submission) {
    Texts out;
    for (Rows r = db_.query("SELECT path, text FROM files WHERE bundle = ? AND text <> ''", submission);
         r.next();)
      out[r.text(0)] = r.text(1);
    return out;
  }

 private:
  // Returns a submission with the names of users, not with pseudonyms.
  std::optional<Submission> named_submission(int64_t id, const Viewer& viewer) {
    const auto digest = db_.text("SELECT sha256 FROM bundles WHERE id = ?", id);
    if (!digest) return std::nullopt;
    const bundle::Manifest m = store_.manifest(id).value();
    Submission s{
        .id = id,
        .bundle = *digest,
        .name = m.name,
        .author = m.author,
        .team = m.team,
        .division = m.division,
        .tier = m.tier,
        .note = m.notes,
        .licence = m.licence,
        .date = created(id),
        .benchmarks = m.benchmarks,
        .scenarios = m.scenarios,
        .level = Level::self_reported,
        .claims = {},
        .files = files(id),
        .runs = runs(*digest, id, whom(viewer)),
        .jobs = collect(db_.query("SELECT * FROM job_list WHERE bundle = ? ORDER BY id", id), whom(viewer)),
        .replaced = m.tier == "T2" ? HeaderSet::names_in(m.files) : std::vector<std::string>(),
        .compiled = detail::is_compiled(db_, *digest),
        .reasons = {},
        .difference = "",
        .similarities = read_similarity(db_, id)};
    for (const bundle::Claim& c : m.claims) s.claims.emplace_back(c.metric, fmt::format("{}", c.value));
    s.level = level(m, id);
    s.hiding = Hidings(db_).of(id);
    if (s.hiding) {
      s.files.clear(), s.runs.clear(), s.claims.clear(), s.replaced.clear(), s.similarities.clear();
      s.note.clear(), s.compiled = false;
      return s;
    }
    s.sealed_until = Settings(db_).sealed_until(store_.queue().now());
    if (s.sealed_until) {
      for (File& f : s.files) f.text.clear();
      s.note.clear(), s.similarities.clear();
      return s;
    }
    const Texts own = texts(id);
    if (m.tier != "T0")
      for (const auto& [path, text] : own)
        for (std::string& reason : bundle::static_reasons(path, text)) s.reasons.push_back(std::move(reason));
    const auto baseline = store_.baseline(m.benchmarks.front(), m.division, m.tier);
    if (baseline && *baseline != id)
      s.difference = folder_diff("baseline", texts(*baseline), "submission", own);
    return s;
  }

  // Counts the jobs before j, and estimates their time from that of the last jobs and the number of workers
  // that play now. A job that is being played counts half.
  void estimate_wait(Job& j) {
    constexpr int kLast = 20;
    Rows r = db_.query(
        "SELECT (SELECT count(*) FROM job_list o WHERE o.state = 'queued' AND o.hardware = l.hardware AND "
        "(o.turn < l.turn OR (o.turn = l.turn AND o.id < l.id))), (SELECT count(*) FROM jobs WHERE state = "
        "'running' AND hardware = l.hardware), (SELECT avg(took) FROM (SELECT strftime('%s', ended) - "
        "strftime('%s', started) AS took FROM jobs WHERE state = 'done' AND hardware = l.hardware ORDER BY "
        "ended DESC LIMIT ?)) FROM job_list l WHERE l.id = ?",
        kLast, j.id);
    if (!r.next()) return;
    j.ahead = r.integer(0) + r.integer(1);
    const auto playing = static_cast<double>(r.integer(1));
    if (!r.is_null(2))
      j.wait = r.number(2) * (static_cast<double>(r.integer(0)) + playing / 2) / std::max(playing, 1.0);
  }

  // The scenarios of the baseline.
  std::vector<std::string> scenarios_of(const TableKey& key) {
    const auto baseline = store_.baseline(key.benchmark, key.division, key.tier);
    return baseline ? store_.manifest(*baseline).value().scenarios : std::vector<std::string>();
  }

  // The results of every submission in the table, possibly empty lists.
  std::map<int64_t, std::vector<Result>> results(const TableKey& key) {
    std::map<int64_t, std::vector<Result>> out;
    const auto baseline = store_.baseline(key.benchmark, key.division, key.tier);
    if (!baseline) return out;
    out[*baseline];
    for (Rows r = db_.query(
             "SELECT id FROM bundles JOIN subjects ON bundle = id WHERE benchmark = ? AND division = ? "
             "AND hardware = ? AND tier = ?",
             key.benchmark, key.division, key.hardware, key.tier);
         r.next();)
      out[r.integer(0)];
    for (const int64_t hidden : Hidings(db_).all()) out.erase(hidden);
    std::vector<int64_t> runs;
    for (Rows r = db_.query(
             "SELECT r.id FROM runs r JOIN contenders c ON c.run = r.id AND c.place = 0 JOIN bundles b "
             "ON b.sha256 = c.bundle WHERE b.id = ? AND r.benchmark = ? AND r.hardware = ? ORDER BY r.id",
             *baseline, key.benchmark, key.hardware);
         r.next();)
      runs.push_back(r.integer(0));
    for (const int64_t run : runs)
      for (const Result& r : results_of(run))
        if (const auto known = out.find(r.submission); known != out.end())
          known->second.push_back(Reviews(db_).reviewed(r));
    return out;
  }

  // The lock is not held during queries; the database has its own.
  const std::vector<Result>& results_of(int64_t run) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto known = cache_.find(run); known != cache_.end()) return known->second;
    }
    std::vector<Result> out;
    const auto add_results = [&](const auto& d) {
      for (size_t place = 0; place < d.contenders.size(); ++place) {
        auto r = result_of(d, place);
        const auto submission =
            db_.integer("SELECT id FROM bundles WHERE sha256 = ?", d.contenders[place].bundle);
        if (!r || !submission) continue;
        r->run = run, r->submission = *submission;
        out.push_back(*std::move(r));
      }
    };
    std::visit(add_results, read_run(db_, run).value());
    const std::lock_guard lock(mutex_);
    return cache_.emplace(run, std::move(out)).first->second;
  }

  // The part of a submission that never changes.
  struct Facts {
    bundle::Manifest manifest;
    std::string created;
  };
  const Facts& facts(int64_t submission) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto known = facts_.find(submission); known != facts_.end()) return known->second;
    }
    Facts f{store_.manifest(submission).value(), created(submission)};
    const std::lock_guard lock(mutex_);
    return facts_.emplace(submission, std::move(f)).first->second;
  }

  Row row(Standing s) {
    const auto& [m, submitted] = facts(s.submission);
    Row r;
    r.submission = s.submission;
    r.name = m.name, r.author = m.author, r.team = m.team, r.tier = m.tier, r.note = m.notes;
    r.level = s.level, r.rank = s.rank, r.not_ranked = s.not_ranked;
    r.score = s.score, r.quality = s.quality, r.cells = std::move(s.cells);
    r.model_bytes = s.model_bytes, r.peak_bytes = s.peak_bytes;
    r.date = s.date.empty() ? submitted : s.date;
    r.kernels = s.kernels;
    return r;
  }

  std::string created(int64_t submission) {
    return db_.text("SELECT created FROM bundles WHERE id = ?", submission).value();
  }

  // The lowest level that it has reached in its tables.
  Level level(const bundle::Manifest& m, int64_t id) {
    std::optional<Level> least;
    for (const std::string& benchmark : m.benchmarks) {
      const TableKey key{benchmark, m.division, m.hardware, m.tier};
      for (const Standing& s : standings(results(key), scenarios_of(key)))
        if (s.submission == id) least = std::min(least.value_or(s.level), s.level);
    }
    return least.value_or(Level::self_reported);
  }

  std::vector<File> files(int64_t id) {
    std::vector<File> out;
    for (Rows r = db_.query("SELECT path, sha256, bytes, text FROM files WHERE bundle = ? ORDER BY path", id);
         r.next();)
      out.push_back({r.text(0), r.text(1), r.integer(2), r.text(3)});
    return out;
  }

  // Runs in which it is a contender, not the baseline; newest first.
  std::vector<Run> runs(const std::string& digest, int64_t submission, const Viewer& viewer) {
    std::vector<std::pair<int64_t, int64_t>> found;
    for (Rows r = db_.query(
             "SELECT run, place FROM contenders WHERE bundle = ? AND place > 0 ORDER BY run DESC", digest);
         r.next();)
      found.emplace_back(r.integer(0), r.integer(1));
    std::vector<Run> out;
    Seal sealed = seal(viewer);
    for (const auto& [run, place] : found) {
      const auto shown = [id = run, at = static_cast<size_t>(place)](const auto& d) {
        return detail::view(id, d, at);
      };
      out.push_back(std::visit(shown, read_run(db_, run).value()));
      for (const Result& r : results_of(run)) {
        if (r.submission != submission) continue;
        out.back().refused = out.back().refused || is_refused(Reviews(db_).reviewed(r));
        out.back().held = out.back().held || r.held;
      }
      for (std::string* why : reasons_of(out.back())) *why = sealed.reason(*why, "entry", submission);
      out.back().reviews = Reviews(db_).of(run, submission);
      out.back().appeal = Appeals(db_).of(run, submission);
    }
    return out;
  }

  // Why a run, or an op of it, does not count, and what an audit says of the source.
  static std::vector<std::string*> reasons_of(Run& r) {
    std::vector<std::string*> out{&r.out};
    for (OpRow& op : r.ops) out.push_back(&op.reason);
    for (auto& audit : r.audits)
      if (audit.id == "C1" || !audit.passed) out.push_back(&audit.detail);
    return out;
  }

  std::vector<Job> collect(Rows r, const Viewer& viewer) {
    std::vector<Job> out;
    while (r.next()) {
      const std::string state = r.text(6);
      const JobState s = r.text(13) == "user" ? JobState::cancelled : state_of(state);
      std::string message = r.text(8);
      if (message.empty() && r.text(3) == "head-to-head") message = "against " + r.text(12);
      out.push_back({r.integer(0), r.integer(1), r.text(2), r.text(3), r.text(4), r.text(5), s, r.number(7),
                     std::move(message), r.text(9), r.text(10), r.text(11)});
    }
    Seal sealed = seal(viewer);
    const Mask masked(db_, viewer);
    for (Job& j : out) j.message = sealed.message(j), mask(masked, j);
    return out;
  }

  const Viewer& whom(const Viewer& asked) const { return asked.user || asked.has_file ? asked : viewer_; }
  Seal seal(const Viewer& viewer) { return {db_, store_.queue().now(), viewer}; }

  Store& store_;
  Database& db_;
  Viewer viewer_;
  std::mutex mutex_;
  std::map<int64_t, std::vector<Result>> cache_;
  std::map<int64_t, Facts> facts_;
};

}  // namespace tinymlperf::board
