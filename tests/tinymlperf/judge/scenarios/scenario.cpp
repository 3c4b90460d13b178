// Scenarios with simulated systems on a simulated clock, where every latency is known.
#include <doctest/doctest.h>

#include <deque>
#include <numeric>
#include <set>
#include <tinymlperf/judge/scenarios/scenario.hpp>

using namespace tinymlperf::judge;

namespace {

// Serves one query after the other, each in `service` seconds (plus `each` per sample), on simulated time.
class Simulated final : public System {
 public:
  double service, each = 0;
  int tokens = 0;                   // before the answer, evenly
  double stall_at = -1, stall = 0;  // at this moment it pauses
  bool dead = false;
  std::vector<std::vector<int64_t>> asked;

  explicit Simulated(double seconds) : service(seconds) {}
  double now() const override { return now_; }
  double ask(uint64_t id, std::span<const int64_t> samples) override {
    asked.emplace_back(samples.begin(), samples.end());
    if (dead) return now_;
    double begin = std::max(now_, free_);
    if (stall_at >= 0 && begin >= stall_at) begin += std::exchange(stall, 0);
    const double work = service + each * static_cast<double>(samples.size());
    for (int t = 1; t <= tokens; ++t) replies_.push_back({id, begin + work * t / (tokens + 1), false});
    free_ = begin + work;
    replies_.push_back({id, free_, true});
    return now_;
  }
  std::optional<Reply> poll(double until) override {
    if (replies_.empty() || replies_.front().at > until) {
      now_ = std::max(now_, until);
      return std::nullopt;
    }
    const Reply reply = replies_.front();
    replies_.pop_front();
    now_ = std::max(now_, reply.at);
    return reply;
  }

 private:
  double now_ = 100, free_ = 0;
  std::deque<Reply> replies_;
};

}  // namespace

TEST_CASE("single stream: the next query when the last is answered, for long enough and often enough") {
  Simulated system(0.01);
  const RunRecord run = run_scenario(system, {.seconds = 1, .queries = 64, .samples = 10});
  CHECK(run.queries.size() == 100);
  for (const QueryRecord& q : run.queries) CHECK(q.latency() == doctest::Approx(0.01));
  CHECK(run.seconds == doctest::Approx(1));
  CHECK(static_cast<double>(samples_answered(run)) / run.seconds == doctest::Approx(100));
  Simulated fast(1e-5);
  CHECK(run_scenario(fast, {.seconds = 0, .queries = 64, .samples = 10}).queries.size() == 64);
}

TEST_CASE("multi stream: distinct samples in a query, all of them in time, drawn anew each time") {
  Simulated system(0.001);
  system.each = 0.001;
  const RunRecord run = run_scenario(system, {.scenario = Scenario::multi_stream,
                                              .seconds = 0,
                                              .queries = 2000,
                                              .samples = 9,
                                              .samples_per_query = 8});
  std::vector<int> left_out(9, 0);
  for (const QueryRecord& q : run.queries) {
    CHECK(q.latency() == doctest::Approx(0.009));
    const std::set<int64_t> distinct(q.samples.begin(), q.samples.end());
    REQUIRE(distinct.size() == 8);
    for (int s = 0; s < 9; ++s) left_out[static_cast<size_t>(s)] += !distinct.contains(s);
  }
  for (const int n : left_out) CHECK(n == doctest::Approx(2000.0 / 9).epsilon(0.3));
}

TEST_CASE("offline: everything is due at once") {
  Simulated system(0.002);
  const RunRecord run = run_scenario(
      system, {.scenario = Scenario::offline, .queries = 50, .samples = 100, .samples_per_query = 2});
  CHECK(run.queries.size() == 50);
  CHECK(run.queries.back().latency() == doctest::Approx(0.1));
  CHECK(static_cast<double>(samples_answered(run)) / run.seconds == doctest::Approx(1000));
}

TEST_CASE("server: the mean wait is that of the queue M/D/1") {
  Simulated system(0.01);
  const RunRecord run = run_scenario(
      system, {.scenario = Scenario::server, .seconds = 400, .samples = 10, .rate = 50, .seed = 5});
  const double utilization = 0.5, expected = 0.01 + 0.01 * utilization / (2 * (1 - utilization));
  CHECK(tinytorch::statistics::mean(latencies(run)) == doctest::Approx(expected).epsilon(0.05));
}

TEST_CASE("server: a system that stalls answers for every query that was due meanwhile") {
  Simulated system(0.001);
  system.stall_at = 105, system.stall = 2;  // two seconds of pause, five seconds after the beginning
  const RunRecord run = run_scenario(
      system, {.scenario = Scenario::server, .seconds = 10, .samples = 10, .rate = 100, .seed = 5});
  int late = 0;
  for (const QueryRecord& q : run.queries) late += q.latency() > 0.5;
  CHECK(late > 100);  // those due in the first 1.5 s of the pause, not only the one that was asked
  CHECK_FALSE(keeps_bound(run, 99, 0.5));
}

TEST_CASE("server: the highest rate within a bound is where the queue reaches it") {
  int runs = 0;
  const auto holds = [&](double rate) {
    ++runs;
    Simulated system(0.01);
    const RunRecord run = run_scenario(system, {.scenario = Scenario::server,
                                                .seconds = 200,
                                                .queries = 700,
                                                .samples = 10,
                                                .rate = rate,
                                                .seed = 7});
    return keeps_bound(run, 99, 0.05);
  };
  const double rate = highest_rate(holds, 1, 10000);
  CHECK(rate > 40);  // it serves 100 a second; at half of that one query in a hundred waits for four others
  CHECK(rate < 80);
  CHECK(runs < 25);
}

TEST_CASE("generation: first token from when the query was due, the others from token to token") {
  Simulated system(0.1);
  system.tokens = 9;  // every 10 ms, then the answer
  const RunRecord run =
      run_scenario(system, {.scenario = Scenario::generation, .seconds = 0, .queries = 5, .samples = 3});
  const TokenTimes times = token_times(run);
  REQUIRE(times.to_first.size() == 5);
  for (const double t : times.to_first) CHECK(t == doctest::Approx(0.01));
  for (const double t : times.per_token) CHECK(t == doctest::Approx(0.01));
}

TEST_CASE("the same seed asks for the same samples at the same times, another one for others") {
  const auto asked = [](uint64_t seed) {
    Simulated system(0.001);
    run_scenario(system,
                 {.scenario = Scenario::server, .seconds = 1, .samples = 100, .rate = 200, .seed = seed});
    return system.asked;
  };
  CHECK(asked(1) == asked(1));
  CHECK(asked(1) != asked(2));
}

TEST_CASE("a system without replies is given up, and a plan that cannot be is refused") {
  for (const Scenario s : {Scenario::single_stream, Scenario::offline, Scenario::server}) {
    Simulated system(1);
    system.dead = true;
    CHECK_THROWS_AS(
        run_scenario(system,
                     {.scenario = s, .seconds = 1, .queries = 3, .samples = 5, .rate = 10, .patience = 2}),
        NoReply);
    CHECK(system.now() < 100 + 10);
  }
  Simulated system(1);
  CHECK_THROWS_AS(run_scenario(system, {.samples = 0}), std::invalid_argument);
  CHECK_THROWS_AS(run_scenario(system, {.samples = 3, .samples_per_query = 4}), std::invalid_argument);
  CHECK_THROWS_AS(run_scenario(system, {.scenario = Scenario::server, .samples = 3}), std::invalid_argument);
}

TEST_CASE("too few queries certify nothing") {
  Simulated system(0.001);
  const RunRecord run = run_scenario(system, {.seconds = 0, .queries = 100, .samples = 5});
  CHECK(keeps_bound(run, 90, 1));
  CHECK_FALSE(keeps_bound(run, 99, 1));  // 662 are needed
}
