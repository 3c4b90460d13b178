// The content of the leaderboard's pages as plain data. The store fills these structs from its tables; pages,
// JSON and the command line only read them, so SQL and HTML stay apart.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tinytorch/benchmarking/samples.hpp>
#include <utility>
#include <vector>

namespace tinymlperf::board {

using tinytorch::statistics::Interval;

// The origin of a number: stated by the submitter, measured by the judge, or measured by the judge with all
// audits.
enum class Level { self_reported, rerun, audited };

// The key of a table: only entries of the same hardware class and division are ranked together.
struct TableKey {
  std::string benchmark;  // "dig"
  std::string division;   // "closed", "open" or "kernel"
  std::string hardware;   // "cpu-1t", "cpu-mt" or "gpu(NAME)"
  std::string tier = "T0";
  bool operator==(const TableKey&) const = default;
};

// A measured value of one scenario.
struct Cell {
  std::string scenario;           // "single_stream"
  double value = 0;               // in the scenario's own unit
  std::optional<Interval> ratio;  // times the baseline, above 1 is better
};

// The result of one contender in a match of kernels, over all ops.
struct KernelCount {
  int64_t right = 0, ops = 0;  // ops that are right, of all
  std::optional<std::array<double, 3>>
      fast;  // shares of ops and shapes that are more than 1, 1.5, 2 times as fast
};

// One op in a match of kernels.
struct OpRow {
  std::string op, state, reason;          // state: "right", "wrong" and why, "absent" or "unasked"
  std::optional<Interval> ratio, hidden;  // times the baseline, on public and on hidden shapes
};

struct Row {
  int64_t submission = 0;
  std::string name, author, team, tier;  // tier "T0", "T1", "T2"
  std::string note;                      // on the technique, in the author's words
  Level level = Level::self_reported;
  int64_t rank = 0;               // entries whose intervals overlap share it; 0: not ranked
  std::string not_ranked;         // why
  std::optional<Interval> score;  // 100: as good as the baseline
  std::optional<Interval> quality;
  std::vector<Cell> cells;                  // in the order of the table's scenarios
  int64_t model_bytes = 0, peak_bytes = 0;  // 0: not known
  bool on_front = false;                    // on the Pareto front of quality, time and memory (Front)
  std::string date;
  std::optional<KernelCount> kernels = {};  // in a table of kernels
};

// The settings of a table's Pareto front, beside quality.
enum class Memory { unknown, model, peak };
struct Front {
  std::string scenario;             // whose time counts, as a share of the baseline's
  Memory memory = Memory::unknown;  // peak of the runs where it is known of all, else bytes of the models
  // The hypervolume in quality, halvings of time and halvings of memory, from the reference point: the
  // table's floor, so many times the baseline's time, and so many bytes. Empty without a ranked baseline.
  std::optional<double> hypervolume = {};
  double reference_time = 0;
  int64_t reference_bytes = 0;
};

struct Table {
  TableKey key;
  std::string task;            // "which digit is in a picture of 28 x 28 pixels"
  std::string quality_metric;  // "accuracy"
  double quality_floor = 0;
  std::vector<std::pair<std::string, std::string>>
      scenarios;          // name, measure with its unit: "p90 latency (s)"
  std::vector<Row> rows;  // ranked ones first
  bool kernels = false;   // true for a table of ops, without quality and scenarios
  Front front = {};
};

// One line of the front page, such as "smallest memory", and its leader.
struct Category {
  std::string title, explanation;
  TableKey key;
  std::optional<Row> leader;
  std::string value;  // the leader's, with unit
};

enum class JobState { queued, running, done, failed, cancelled };

inline constexpr std::array<const char*, 5> kJobStates{"queued", "running", "done", "failed", "cancelled"};
inline const char* state_name(JobState state) { return kJobStates.at(static_cast<size_t>(state)); }
// An unknown name: failed.
inline JobState state_of(std::string_view name) {
  for (size_t i = 0; i < kJobStates.size(); ++i)
    if (name == kJobStates[i]) return static_cast<JobState>(i);
  return JobState::failed;
}
inline bool has_ended(JobState state) { return state != JobState::queued && state != JobState::running; }

struct Job {
  int64_t id = 0, submission = 0;
  std::string name;  // name of the submission
  std::string kind;  // "run" or "head-to-head"
  std::string benchmark, scenario;
  JobState state = JobState::queued;
  double progress = 0;  // 0 to 1
  std::string message;  // current activity, or reason of the failure
  std::string created, started, ended;
  int64_t ahead = 0;                // of a job that waits: jobs that are played before it
  std::optional<double> wait = {};  // seconds until it is played, as far as anybody knows
};

// "3 jobs are before it, about 5 min"; empty for a job that does not wait.
inline std::string wait_text(const Job& j) {
  if (j.state != JobState::queued) return "";
  std::string out = j.ahead == 0   ? "it is the next"
                    : j.ahead == 1 ? "1 job is before it"
                                   : std::to_string(j.ahead) + " jobs are before it";
  if (j.wait && j.ahead > 0)
    out += ", about " + std::to_string(1 + static_cast<int64_t>(*j.wait) / 60) + " min";
  return out;
}

struct FrontPage {
  std::vector<Category> categories;
  std::vector<Table> tables;  // each with its first rows
  std::vector<Job> queue;     // running and waiting
};

struct Audit {
  std::string id, name;  // "A2", "same sample"
  bool passed = false;
  std::string detail;
  bool made = true;     // false: the machine lacked the means, as the detail says
  bool decided = true;  // false: the samples were too few for the machine's noise
};

// The appeal of a refused run's owner.
struct Appeal {
  int64_t id = 0;
  std::string note, date;
  std::string answer, answered;  // empty: there is none yet
};

// The operator's decision on a held result.
struct Review {
  bool released = false;  // else refused
  std::string reason, date;
};

// Tells whether a submission is hidden, who decided that, and why.
struct Hiding {
  bool hidden = true;
  bool by_owner = false;  // else by the instructor
  std::string reason, date;
};

// Medians of the turns' medians for a generation, in seconds.
struct TokenTimes {
  double to_first = 0, per_token = 0;
};

// One match from the view of a submission.
struct Run {
  int64_t id = 0;
  std::string benchmark, scenario, run_class, hardware, date;
  std::string measure;   // "p90 latency (s)"
  std::string baseline;  // its name
  std::string out;       // why the submission was thrown out; empty: it was not
  std::optional<Interval> ratio, quality;
  std::vector<double> turns, baseline_turns;  // one value a turn, in the order of time
  std::vector<Audit> audits;
  std::vector<std::pair<std::string, std::string>> system;  // machine and sandbox
  uint64_t seed = 0;
  bool refused = false;  // the submission is not ranked because of this run; its owner may appeal
  std::optional<Appeal> appeal = {};
  bool held = false;                        // not ranked because of audit A9 or A11 until a review
  std::vector<Review> reviews = {};         // the last one counts
  std::optional<KernelCount> kernels = {};  // in a match of kernels
  std::vector<OpRow> ops = {};              // in a match of kernels
  int64_t peak_bytes = 0;                   // 0: not known
  std::optional<TokenTimes> tokens = {}, baseline_tokens = {};
  std::string load = {};  // the load of other programs meanwhile; empty: there was none
};

struct File {
  std::string path, sha256;
  int64_t bytes = 0;
  std::string text;  // content, for display; empty for weights
};

// Similarity to an earlier submission of another user: a count, never a verdict.
struct Similarity {
  std::string kind;        // "code" or "weights"
  int64_t submission = 0;  // the earlier one
  std::string name, author;
  int64_t shared = 0, total = 0;  // shingles or tensors that both have, of those of this submission
};

struct Submission {
  int64_t id = 0;
  std::string bundle;  // SHA-256
  std::string name, author, team, division, tier, note, licence, date;
  std::vector<std::string> benchmarks, scenarios;
  Level level = Level::self_reported;
  std::vector<std::pair<std::string, std::string>> claims;  // metric, value as claimed
  std::vector<File> files;
  std::vector<Run> runs;
  std::vector<Job> jobs;
  std::vector<std::string> replaced = {};  // headers of the library that the submission replaces
  bool compiled = false;                   // the judge runs its forward pass by tt::compile
  std::vector<std::string> reasons;        // why its source should be reviewed
  std::string difference;                  // its graph or code against the baseline's, as unified diff
  std::vector<Similarity> similarities = {};
  // With it, what the submission holds and how it was measured is not shown.
  std::optional<Hiding> hiding = {};
  // Until this moment, or until the instructor decides if it is empty, texts of its files are not shown.
  std::optional<std::string> sealed_until = {};
};

// A point of the history of a table: the leader from then on.
struct HistoryPoint {
  std::string date, name;
  int64_t submission = 0;
  double score = 0;
};

}  // namespace tinymlperf::board
