// A leaderboard in memory with made-up numbers, for tests and for the eye. `hostile` adds what a visitor with
// bad intentions would send: markup, quotes, marks that turn the direction of writing, control characters,
// broken UTF-8.
#pragma once

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <tinymlperf/board/store/categories.hpp>
#include <tinymlperf/board/store/pareto.hpp>
#include <tinymlperf/board/store/source.hpp>
#include <tinymlperf/support/json_fields.hpp>
#include <tinytorch/core/random.hpp>
#include <vector>

namespace tinymlperf::board::testing {

inline std::vector<std::string> hostile_texts() {
  using namespace std::string_literals;
  return {"<script>alert(1)</script>",
          "\"'><img src=x onerror=alert(1)>",
          "' onmouseover='alert(1)' x='",
          "\xE2\x80\xAEgnp.exe\xE2\x80\xAC \xE2\x81\xA7hidden",
          std::string(10000, 'x'),
          "\0\x01\x1b[31m\x7f\xC2\x85 control"s,
          "\xff\xfe\xC0\x80\xED\xA0\x80\xF5\x80\x80\x80 broken",
          "</title></style></textarea></pre><!-- -->",
          "javascript:alert(1)",
          "{0} {} %s %n && & &amp; &#x27; ]]>",
          "two\nlines\r\nand\ttabs",
          "../../etc/passwd%00",
          " "};
}

class MemoryBoard : public Source, public Uploads {
 public:
  static constexpr int64_t kFirstAsked = 1'000;  // number of the first job that a visitor asks for

  explicit MemoryBoard(bool hostile = false) {
    add_table({"dig", "closed", "cpu-1t"}, "which digit is in a picture of 28 x 28 pixels", 9, 0.9871);
    add_table({"kws", "closed", "gpu(NVIDIA H200)"}, "which of twelve words is spoken", 4, 0.93);
    add_table({"dig", "open", "cpu-mt"}, "which digit is in a picture of 28 x 28 pixels", 0, 0.9871);
    add_table({"dig", "open", "cpu-mt", "T2"}, "which digit is in a picture of 28 x 28 pixels", 2, 0.9871);
    add_kernels();
    add_text();
    add_jobs();
    categories_ = categories(tables_);
    if (hostile)
      for (const std::string& s : hostile_texts()) add_hostile(s);
  }

  // ---- what pages read
  FrontPage front() override {
    const std::lock_guard lock(mutex_);
    FrontPage out{categories_, tables_, {}};
    for (Table& t : out.tables) t.rows.resize(std::min<size_t>(t.rows.size(), 5));
    for (const auto& [id, job] : jobs_)
      if (job.state == JobState::running || job.state == JobState::queued) out.queue.push_back(job);
    return out;
  }
  std::optional<Table> table(const TableKey& key) override {
    const std::lock_guard lock(mutex_);
    for (const Table& t : tables_)
      if (t.key == key) return t;
    return {};
  }
  std::optional<Submission> submission(int64_t id, const Viewer& = {}) override {
    const std::lock_guard lock(mutex_);
    const auto found = submissions_.find(id);
    if (found == submissions_.end()) return std::nullopt;
    Submission out = found->second;
    out.jobs.clear();
    for (const auto& [number, job] : jobs_)
      if (job.submission == id) out.jobs.push_back(job);
    return out;
  }
  std::vector<HistoryPoint> history(const TableKey& key) override {
    const std::lock_guard lock(mutex_);
    for (const Table& t : tables_) {
      if (!(t.key == key) || t.rows.empty()) continue;
      std::vector<HistoryPoint> out;
      for (size_t i = std::min<size_t>(t.rows.size(), 4); i-- > 0;)
        out.push_back({t.rows[i].date, t.rows[i].name, t.rows[i].submission,
                       t.rows[i].score ? t.rows[i].score->estimate : 0});
      return out;
    }
    return {};
  }
  std::vector<Job> queue() override {
    const std::lock_guard lock(mutex_);
    std::vector<Job> out;
    for (const auto& [id, job] : jobs_) out.push_back(job);
    return out;
  }
  std::optional<Job> job(int64_t id, const Viewer& = {}) override {
    const std::lock_guard lock(mutex_);
    const auto found = jobs_.find(id);
    return found == jobs_.end() ? std::nullopt : std::optional(found->second);
  }

  // ---- what visitors may ask
  std::optional<int64_t> user_of(const std::string& token) override {
    return token == "secret" ? std::optional<int64_t>(1) : std::nullopt;
  }
  Accepted submit(int64_t, std::string bundle) override {
    const std::lock_guard lock(mutex_);
    if (!bundle.starts_with("bundle")) throw Refusal("bundle", "", "a bundle", "something else");
    if (const auto known = bundles_.find(bundle); known != bundles_.end()) return {known->second, 0, true};
    const auto id = static_cast<int64_t>(1000 + bundles_.size());
    const int64_t job = next_job_++;
    bundles_.emplace(bundle, id);
    submissions_[id] = submissions_.begin()->second;
    submissions_[id].id = id, submissions_[id].name = "upload " + std::to_string(id);
    jobs_[job] = waiting(job, id, submissions_[id].name, "run");
    return {id, job, false};
  }
  int64_t request_head_to_head(int64_t, int64_t submission, int64_t against) override {
    const std::lock_guard lock(mutex_);
    if (!submissions_.count(submission) || !submissions_.count(against) || submission == against)
      throw Refusal("head-to-head", "against", "the number of another submission", std::to_string(against));
    const int64_t job = next_job_++;
    jobs_[job] = waiting(job, submission, "match", "head-to-head");
    return job;
  }

  void cancel(std::optional<int64_t>, int64_t job) override {
    turn(job, JobState::queued, JobState::cancelled);
  }
  void retry(std::optional<int64_t>, int64_t job) override { turn(job, JobState::failed, JobState::queued); }
  void withdraw(std::optional<int64_t>, int64_t submission, const std::string& reason) override {
    const std::lock_guard lock(mutex_);
    const auto found = submissions_.find(submission);
    if (found == submissions_.end() || found->second.hiding || reason.empty())
      throw Refusal("withdrawal", "submission", "one that is shown, and a reason", "others");
    found->second.hiding = Hiding{true, true, reason, "2026-01-31T12:00:00Z"};
  }

  int64_t appeal(int64_t, int64_t submission, int64_t run, const std::string& note) override {
    const std::lock_guard lock(mutex_);
    const auto found = submissions_.find(submission);
    if (found == submissions_.end() || note.empty()) throw Refusal("appeal", "note", "a note", "none");
    for (Run& r : found->second.runs) {
      if (r.id != run || !r.refused || r.appeal) continue;
      r.appeal = Appeal{++appeals_, note, "2026-01-31T12:00:00Z", "", ""};
      return appeals_;
    }
    throw Refusal("appeal", "run", "a refused run without an appeal", std::to_string(run));
  }

  // A job goes on.
  void set_job(const Job& job) {
    const std::lock_guard lock(mutex_);
    jobs_[job.id] = job;
  }
  std::vector<TableKey> keys() const {
    std::vector<TableKey> out;
    for (const Table& t : tables_) out.push_back(t.key);
    return out;
  }
  std::vector<int64_t> submission_ids() const {
    std::vector<int64_t> out;
    for (const auto& [id, s] : submissions_) out.push_back(id);
    return out;
  }

 private:
  static Job waiting(int64_t id, int64_t submission, const std::string& name, const char* kind) {
    Job j;
    j.id = id, j.submission = submission, j.name = name, j.kind = kind, j.benchmark = "dig";
    j.scenario = "single_stream", j.message = "waiting", j.created = "2026-01-31T12:00:00Z";
    return j;
  }
  void turn(int64_t job, JobState from, JobState to) {
    const std::lock_guard lock(mutex_);
    const auto found = jobs_.find(job);
    if (found == jobs_.end() || found->second.state != from)
      throw Refusal("job", "", state_name(from), std::to_string(job));
    found->second.state = to;
  }
  // The rows of the table of digits; the table of words takes the first of them.
  struct Made {
    const char *name, *note;
    int64_t rank;
    double score, spread, quality;
    int64_t model_bytes, peak_bytes;
  };
  static const std::vector<Made>& made_up_cases() {
    static const std::vector<Made> all{
        {"lenet-int8-fused", "int8 weights, ReLU folded into each convolution", 1, 188.4, 6.1, 0, 12300,
         25300},
        {"depthwise 8-bit", "depthwise convolutions, activations stay in L1", 1, 179.1, 7.4, -0.0016, 14800,
         21900},
        {"pruned 90 %", "magnitude pruning, then sparse rows", 3, 151.6, 4.8, -0.0009, 9800, 29900},
        {"lenet-fp16", "", 4, 129.3, 5.2, 0.0022, 123400, 33900},
        {"two-layer ternary", "weights in {-1, 0, 1}, no multiplications", 4, 126.0, 4.4, -0.0031, 11400,
         22900},
        {"mlp-wide", "", 4, 122.8, 6.0, -0.0019, 33800, 41000},
        {"lenet", "the baseline", 7, 100.0, 2.5, 0.0024, 246800, 52600},
        {"logistic", "", 8, 74.1, 3.1, -0.0661, 31400, 34600},
        {"first try", "", 0, 83.3, 8.0, -0.0100, 48600, 61000}};
    return all;
  }

  void add_table(const TableKey& key, const std::string& task, int64_t rows, double quality) {
    Table t{key,
            task,
            "accuracy",
            0.9,
            {{"single_stream", "p90 latency (s)"}, {"offline", "throughput (samples/s)"}},
            {}};
    int64_t baseline = 0;
    for (int64_t i = 0; i < rows; ++i) {
      const Made& m = made_up_cases()[static_cast<size_t>(i)];
      if (m.name == std::string("lenet")) baseline = static_cast<int64_t>(10 * tables_.size()) + i + 1;
      const double ratio = m.score / 100, spread = m.spread / 100, own = quality + m.quality;
      Row r;
      r.submission = static_cast<int64_t>(10 * tables_.size()) + i + 1;
      r.name = m.name, r.author = i % 2 ? "Ada L." : "Grace H.", r.team = i % 3 ? "" : "Compilers";
      r.tier = key.tier != "T0" ? key.tier
               : i % 3 == 2     ? "T1"
                                : "T0",
      r.note = m.note, r.rank = m.rank, r.date = "2026-01-" + std::to_string(31 - i);
      r.level = i < 2 ? Level::audited : m.rank == 0 ? Level::self_reported : Level::rerun;
      if (m.rank == 0) r.not_ranked = "the judge has not run it yet";
      r.score = Interval{m.score, m.score - m.spread, m.score + m.spread};
      r.quality = Interval{own, own - 0.0022, own + 0.0021};
      r.cells = {{"single_stream", 72e-6 / ratio, Interval{ratio, ratio - spread, ratio + spread}},
                 {"offline", 32400 * ratio, Interval{ratio, ratio - spread / 2, ratio + spread / 2}}};
      r.model_bytes = m.model_bytes, r.peak_bytes = m.peak_bytes;
      t.rows.push_back(r);
      add_submission(key, r);
    }
    mark_front(t, baseline);
    tables_.push_back(t);
  }

  void add_submission(const TableKey& key, const Row& r) {
    Submission s;
    s.id = r.submission, s.bundle = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    s.name = r.name, s.author = r.author, s.team = r.team, s.division = key.division, s.tier = r.tier,
    s.note = r.note;
    s.licence = "MIT", s.date = r.date, s.benchmarks = {key.benchmark},
    s.scenarios = {"single_stream", "offline"}, s.level = r.level;
    s.claims = {{"p90 latency", "40 us"}};
    s.files = {{"manifest.json", s.bundle, 512, "{\n  \"schema\": 1,\n  \"name\": \"lenet\"\n}\n"},
               {"model/weights.bin", s.bundle, 9800, ""}};
    Run run{r.submission,
            key.benchmark,
            "single_stream",
            "ranked",
            key.hardware,
            r.date,
            "p90 latency (s)",
            "lenet",
            "",
            r.cells[0].ratio,
            r.quality,
            {},
            {},
            {{"A1", "sampled accuracy", true, "answers of timed and graded turns agree"},
             {"A2", "same sample", true, "0.4 % faster"}},
            {{"processor", "a processor"},
             {"governor", "performance"},
             {"sandbox", "landlock, seccomp, user namespace"}},
            0xfedcba9876543210};
    tinytorch::Generator random(static_cast<uint64_t>(r.submission));
    for (int turn = 0; turn < 24; ++turn) {
      const double drift = 1 + 0.004 * turn;
      run.turns.push_back(r.cells[0].value * drift * random.uniform(0.98, 1.03));
      run.baseline_turns.push_back(72e-6 * drift * random.uniform(0.98, 1.03));
    }
    if (s.id == 8 || s.id == 9) run.out = "sample 17: it was answered differently before", run.refused = true;
    if (s.id == 8)
      run.appeal = Appeal{1, "My plugin sums in another order.\nThat is allowed.", "2026-01-30T09:00:00Z",
                          "The rules say the same answer.", "2026-01-30T10:00:00Z"};
    s.runs = {run};
    s.difference =
        "--- baseline/graph.json\n+++ graph.json\n@@ -1,3 +1,3 @@\n {\"layers\": [\n-  \"conv f32\"\n+  "
        "\"conv int8\"\n ]}\n";
    if (s.id == 3) s.similarities = {{"code", 1, "lenet-int8-fused", "Grace H.", 276, 300}};
    submissions_[s.id] = s;
  }

  // A plugin that has the second op wrong, and the library.
  void add_kernels() {
    Table t{{"krn", "kernel", "cpu-mt", "T2"}, "kernels, op by op", "", 0, {}, {}, true};
    for (const int64_t i : {0, 1}) {
      const double score = i == 0 ? 131.2 : 100;
      Row r;
      r.submission = static_cast<int64_t>(10 * tables_.size()) + i + 1;
      r.name = i == 0 ? "tiled" : "library", r.author = "Ada L.", r.tier = "T2", r.rank = i + 1;
      r.level = Level::audited, r.date = "2026-01-30";
      r.score = Interval{score, score - 2, score + 2}, r.peak_bytes = 9000000;
      r.cells = {{"single_stream", score / 100, Interval{score / 100, score / 100, score / 100}}};
      r.kernels = KernelCount{2 - (i == 0), 2, std::array<double, 3>{0.5, 0.25, 0}};
      t.rows.push_back(r);
      add_submission(t.key, r);
      Run& run = submissions_[r.submission].runs[0];
      run.measure = "times the baseline", run.baseline = "library", run.kernels = r.kernels;
      run.turns.clear(), run.baseline_turns.clear(), run.peak_bytes = r.peak_bytes;
      run.ops = {{"softmax", "right", "", r.cells[0].ratio, r.cells[0].ratio},
                 {"matmul", i == 0 ? "wrong" : "right", i == 0 ? "row 3: expected 1, found nan" : "", {}, {}},
                 {"gelu", "absent", "", {}, {}}};
    }
    tables_.push_back(t);
  }

  // Two that continue a text, token by token; the second is the baseline.
  void add_text() {
    Table t{{"lm", "open", "cpu-mt"}, "which byte comes next in a text", "minus bits per byte", -2.2, {}, {}};
    t.scenarios = {{"generation", "time per token (s)"}};
    for (const int64_t i : {0, 1}) {
      const double ratio = i == 0 ? 1.62 : 1, per_token = 2.1e-4 / ratio;
      Row r;
      r.submission = static_cast<int64_t>(10 * tables_.size()) + i + 1;
      r.name = i == 0 ? "cached-keys" : "gpt", r.author = "Grace H.", r.tier = "T0", r.rank = i + 1;
      r.level = Level::audited, r.date = "2026-01-29", r.model_bytes = i == 0 ? 321000 : 471000;
      r.score = Interval{100 * ratio, 100 * ratio - 2, 100 * ratio + 2};
      r.quality = Interval{-1.9, -1.91, -1.89};
      r.cells = {{"generation", per_token, Interval{ratio, ratio - 0.02, ratio + 0.02}}};
      t.rows.push_back(r);
      add_submission(t.key, r);
      Run& run = submissions_[r.submission].runs[0];
      run.scenario = "generation", run.measure = t.scenarios[0].second, run.baseline = "gpt";
      run.tokens = TokenTimes{3.1e-3, per_token}, run.baseline_tokens = TokenTimes{4.4e-3, 2.1e-4};
      submissions_[r.submission].scenarios = {"generation"};
    }
    mark_front(t, t.rows[1].submission);
    tables_.push_back(t);
  }

  void add_job(Job job, const char* created, const char* started, const char* ended) {
    job.benchmark = "dig", job.created = created, job.started = started, job.ended = ended;
    jobs_[job.id] = job;
  }
  void add_jobs() {
    const char *run = "run", *single = "single_stream";
    add_job({1, 1, "lenet-int8-fused", run, "", single, JobState::done, 1, "finished", "", "", ""},
            "2026-01-31T09:00:00Z", "2026-01-31T09:00:01Z", "2026-01-31T09:02:00Z");
    add_job({2, 3, "pruned 90 %", run, "", "offline", JobState::running, 0.42, "block 5 of 12", "", "", ""},
            "2026-01-31T11:58:00Z", "2026-01-31T11:59:00Z", "");
    add_job({3, 2, "depthwise 8-bit", "head-to-head", "", single, JobState::queued, 0, "waiting for job 2",
             "", "", ""},
            "2026-01-31T11:59:30Z", "", "");
    add_job({4, 9, "first try", run, "", single, JobState::failed, 0.1,
             "sample 17: the timed answer is not the one that was graded", "", "", ""},
            "2026-01-30T10:00:00Z", "2026-01-30T10:00:10Z", "2026-01-30T10:00:20Z");
    add_job({5, 9, "first try", run, "", "offline", JobState::cancelled, 0, "cancelled", "", "", ""},
            "2026-01-30T10:00:00Z", "", "2026-01-30T10:00:05Z");
  }

  // Every text of every struct is `s`.
  void add_hostile(const std::string& s) {
    Row r = tables_[0].rows[0];
    r.submission = static_cast<int64_t>(100 + submissions_.size());
    r.name = r.author = r.team = r.tier = r.note = r.date = r.not_ranked = s;
    r.rank = 0;
    r.score = Interval{-1, 0, 1e308}, r.quality = Interval{std::nan(""), -INFINITY, INFINITY};
    add_submission({s, s, s}, r);
    Submission& own = submissions_[r.submission];
    own.licence = own.bundle = s, own.claims = {{s, s}}, own.files = {{s, s, -5, s}},
    own.reasons = {s, s + ":1: " + s}, own.replaced = {s, s};
    own.difference = "+" + s + "\n-" + s + "\n@@" + s + "\n" + s;
    own.benchmarks = own.scenarios = {s, s};
    own.similarities = {{s, 1, s, s, -1, 0}};
    if (submissions_.size() % 5 == 0) own.sealed_until = s;
    Run& run = own.runs[0];
    run.scenario = run.run_class = run.measure = run.baseline = run.out = s;
    run.refused = true;
    if (submissions_.size() % 3 == 0) own.hiding = Hiding{true, false, s, s};
    if (submissions_.size() % 2 == 0) run.appeal = Appeal{1, s, s, s, s};
    run.kernels = KernelCount{-1, 0, std::array<double, 3>{std::nan(""), INFINITY, -1}};
    run.ops = {{s, s, s, Interval{std::nan(""), -INFINITY, INFINITY}, {}}};
    run.load = s;
    run.audits = {{s, s, false, s}}, run.system = {{s, s}}, run.turns = {std::nan(""), INFINITY, 1};
    const Job job{200 + r.submission, r.submission, s, s, s, s, JobState::running, std::nan(""), s, s, s, s};
    jobs_[job.id] = job;
    Table t{{s, s, s}, s, s, 0.5, {{s, s}, {"single_stream", s}}, {r}};
    t.rows[0].cells[0].scenario = s;
    mark_front(t, 0);
    tables_.push_back(t);
    t.key.tier = s, t.kernels = true, t.rows[0].kernels = run.kernels;
    tables_.push_back(t);
    categories_.push_back({s, s, t.key, r, s});
  }

  std::mutex mutex_;
  std::vector<Category> categories_;
  std::vector<Table> tables_;
  std::map<int64_t, Submission> submissions_;
  std::map<int64_t, Job> jobs_;
  std::map<std::string, int64_t> bundles_;
  int64_t next_job_ = kFirstAsked, appeals_ = 1;
};

}  // namespace tinymlperf::board::testing
