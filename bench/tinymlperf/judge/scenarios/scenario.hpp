// Scenarios: when a system is asked, and from when its time counts.
//
//   single_stream    one sample, then the next when it is answered      p90 of the latency
//   multi_stream     eight samples at once, then the next eight         p99 of the latency
//   offline          everything at once                                 samples per second
//   server           one sample at random moments (a Poisson process)   most queries per second in a bound
//   generation       one prompt, answered token by token                time to first token and per token
//   shared_prefix    the same, for prompts that begin alike             the same (shared_prompts.hpp)
//   time_to_quality  data to learn from (match/training_match.hpp)      seconds to the quality
//
// The latency of a server's query counts from the moment it was due, not from when it could be sent: a system
// that falls behind cannot hide its queue ("coordinated omission"). A seed determines which samples are asked
// and when. Scenarios do not depend on samples or systems, so tests run them on simulated systems.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <tinytorch/benchmarking/open_loop.hpp>
#include <tinytorch/benchmarking/statistics.hpp>
#include <tinytorch/benchmarking/turns.hpp>
#include <unordered_map>
#include <vector>

namespace tinymlperf::judge {

enum class Scenario {
  single_stream,
  multi_stream,
  offline,
  server,
  generation,
  shared_prefix,
  time_to_quality
};
// The scenarios in which texts are continued.
inline bool generates(Scenario s) { return s == Scenario::generation || s == Scenario::shared_prefix; }

inline const char* name_of(Scenario s) {
  constexpr const char* kNames[] = {"single_stream", "multi_stream",  "offline",        "server",
                                    "generation",    "shared_prefix", "time_to_quality"};
  return kNames[static_cast<int>(s)];
}

// A token, or the answer that ends a query.
struct Reply {
  uint64_t id = 0;
  double at = 0;  // when its last byte arrived
  bool last = true;
};

// The system under test. Times are seconds on one clock, the judge's.
class System {
 public:
  virtual ~System() = default;
  virtual double now() const = 0;
  // Returns when it was asked: after the inputs were ready, before the first byte was sent.
  virtual double ask(uint64_t id, std::span<const int64_t> samples) = 0;
  // The next reply, or nothing when `until` has come. Throws if the system has failed.
  virtual std::optional<Reply> poll(double until) = 0;
};

struct Plan {
  Scenario scenario = Scenario::single_stream;
  double seconds = 10;   // ask for at least so long,
  int64_t queries = 64;  // and at least so many
  int64_t samples = 0;   // size of the set; a query has some of its samples
  int64_t samples_per_query = 1;
  double rate = 0;       // queries per second on average, of a server
  double patience = 30;  // seconds without any reply after which the system has failed
  uint64_t seed = 0;
  // Chooses the samples of the next query, so many. Without it they are drawn at random.
  std::function<std::vector<int64_t>(int64_t)> next_samples = {};
};

struct QueryRecord {
  std::vector<int64_t> samples;
  double due = 0;  // since the run began, like all times here
  double asked = 0;
  double answered = 0;
  std::vector<double> tokens;  // when each arrived
  double latency() const { return answered - due; }
};

struct RunRecord {
  std::vector<QueryRecord> queries;
  double seconds = 0;  // to the last answer
};

struct NoReply : std::runtime_error {
  using std::runtime_error::runtime_error;
};

using tinytorch::benchmarking::highest_rate, tinytorch::benchmarking::poisson_schedule;

// One run of a plan. The samples of a query are distinct; queries are drawn independently of each other.
class ScenarioRun {
 public:
  ScenarioRun(System& system, const Plan& plan) : system_(system), plan_(plan), random_(plan.seed) {
    if (plan.samples < 1 || plan.samples_per_query < 1 || plan.samples_per_query > plan.samples)
      throw std::invalid_argument("a query needs at least one sample, and no more than there are");
    if (plan.scenario == Scenario::server && !(plan.rate > 0))
      throw std::invalid_argument("a server needs a rate above 0");
  }

  RunRecord operator()() {
    start_ = system_.now();
    if (plan_.scenario == Scenario::server) {
      by_schedule(poisson_schedule(plan_.rate, plan_.seconds, plan_.queries, plan_.seed ^ kScheduleStream));
    } else if (plan_.scenario == Scenario::offline) {
      all_at_once();
    } else {
      one_by_one();
    }
    for (const QueryRecord& q : record_.queries) record_.seconds = std::max(record_.seconds, q.answered);
    return std::move(record_);
  }

 private:
  static constexpr uint64_t kScheduleStream = 0x9E3779B97F4A7C15u;

  double since_start() const { return system_.now() - start_; }

  // A query that has no due time is due when it is asked.
  void ask(std::optional<double> due = {}) {
    const auto id = static_cast<uint64_t>(record_.queries.size());
    record_.queries.push_back({});
    record_.queries.back().samples =
        plan_.next_samples ? plan_.next_samples(plan_.samples_per_query) : draw();
    ++open_;
    const double asked = system_.ask(id, record_.queries.back().samples) - start_;
    record_.queries.back().asked = asked;
    record_.queries.back().due = due.value_or(asked);
  }
  // Takes one reply if one comes before `until`.
  bool take(double until) {
    const std::optional<Reply> reply = system_.poll(start_ + until);
    if (!reply) return false;
    QueryRecord& q = record_.queries.at(reply->id);
    if (!reply->last) {
      q.tokens.push_back(reply->at - start_);
      return true;
    }
    q.answered = reply->at - start_;
    --open_;
    return true;
  }
  void take_or_fail() {
    if (!take(since_start() + plan_.patience))
      throw NoReply("no reply within " + std::to_string(plan_.patience) + " s");
  }

  void one_by_one() {
    while (since_start() < plan_.seconds || static_cast<int64_t>(record_.queries.size()) < plan_.queries) {
      ask();
      while (open_ > 0) take_or_fail();
    }
  }
  void all_at_once() {
    for (int64_t i = 0; i < plan_.queries; ++i) ask(0);
    while (open_ > 0) take_or_fail();
  }
  void by_schedule(const std::vector<double>& due) {
    double last_reply = 0;
    for (size_t next = 0; next < due.size() || open_ > 0;) {
      if (next < due.size() && system_.now() >= start_ + due[next]) {
        ask(due[next++]);
        continue;
      }
      const double until = next < due.size() ? due[next] : since_start() + plan_.patience;
      if (take(until)) {
        last_reply = since_start();
      } else if (open_ > 0 && since_start() - last_reply > plan_.patience) {
        throw NoReply("no reply within " + std::to_string(plan_.patience) + " s");
      }
      if (open_ == 0) last_reply = since_start();
    }
  }

  // samples_per_query distinct samples of all, by Floyd's algorithm: a few of many cost little.
  std::vector<int64_t> draw() {
    std::vector<int64_t> chosen;
    const int64_t n = plan_.samples, k = plan_.samples_per_query;
    for (int64_t j = n - k; j < n; ++j) {
      const auto t = static_cast<int64_t>(random_.below(static_cast<uint64_t>(j + 1)));
      const bool taken = std::find(chosen.begin(), chosen.end(), t) != chosen.end();
      chosen.push_back(taken ? j : t);
    }
    return chosen;
  }

  System& system_;
  Plan plan_;
  tinytorch::Generator random_;
  RunRecord record_;
  double start_ = 0;
  int64_t open_ = 0;
};

inline RunRecord run_scenario(System& system, const Plan& plan) { return ScenarioRun(system, plan)(); }

// ---- metrics of a run

inline std::vector<double> latencies(const RunRecord& run) {
  std::vector<double> out;
  for (const QueryRecord& q : run.queries) out.push_back(q.latency());
  return out;
}

inline int64_t samples_answered(const RunRecord& run) {
  int64_t samples = 0;
  for (const QueryRecord& q : run.queries) samples += static_cast<int64_t>(q.samples.size());
  return samples;
}

// The run as a turn of a match.
inline tinytorch::benchmarking::Turn turn_of(const RunRecord& run) {
  tinytorch::benchmarking::Turn turn{run.seconds, samples_answered(run), latencies(run), 0, {}, {}};
  for (const QueryRecord& q : run.queries) {
    if (q.tokens.empty()) continue;
    turn.tokens.push_back(static_cast<int64_t>(q.tokens.size()));
    turn.to_first.push_back(q.tokens.front() - q.due);
  }
  return turn;
}

// Seconds to the first token of each query, and from there per further token.
struct TokenTimes {
  std::vector<double> to_first, per_token;
};
inline TokenTimes token_times(const RunRecord& run) {
  TokenTimes t;
  for (const QueryRecord& q : run.queries) {
    if (q.tokens.empty()) continue;
    t.to_first.push_back(q.tokens.front() - q.due);
    if (q.tokens.size() > 1)
      t.per_token.push_back((q.tokens.back() - q.tokens.front()) / static_cast<double>(q.tokens.size() - 1));
  }
  return t;
}

// True if the percentile is certified, at 99 % confidence, to be within the bound.
inline bool keeps_bound(const RunRecord& run, double percent, double bound) {
  const auto times = latencies(run);
  const std::optional<double> upper = tinytorch::statistics::percentile_upper_bound(times, percent);
  return upper && *upper <= bound;
}

}  // namespace tinymlperf::judge
