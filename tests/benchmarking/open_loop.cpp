// Arrivals are compared with the moments of a Poisson process, queues with closed forms of queueing theory.
#include <doctest/doctest.h>
#include <support/errors.hpp>
#include <tinytorch/benchmarking/open_loop.hpp>
#include <tinytorch/benchmarking/samples.hpp>

namespace bm = tinytorch::benchmarking;
namespace st = tinytorch::statistics;

TEST_CASE("arrivals are a Poisson process of the requested rate") {
  const std::vector<double> due = bm::poisson_schedule(50, 100, 0, 3);
  CHECK(static_cast<double>(due.size()) == doctest::Approx(5000).epsilon(0.05));
  std::vector<double> gaps;
  for (size_t i = 1; i < due.size(); ++i) gaps.push_back(due[i] - due[i - 1]);
  const double mean = st::mean(gaps);
  double square = 0;
  for (const double g : gaps) square += (g - mean) * (g - mean);
  CHECK(mean == doctest::Approx(0.02).epsilon(0.05));
  CHECK(std::sqrt(square / static_cast<double>(gaps.size())) == doctest::Approx(mean).epsilon(0.08));
  CHECK(bm::poisson_schedule(50, 0, 7, 3).size() == 7);
  CHECK(bm::poisson_schedule(50, 1, 0, 3) != bm::poisson_schedule(50, 1, 0, 4));
}

TEST_CASE("the mean latency matches the queues M/D/1 and M/M/1") {
  const auto due = bm::poisson_schedule(50, 2000, 0, 5);
  const auto same = bm::serve_open_loop(due, [](size_t, double) { return 0.01; });
  CHECK(st::mean(bm::latencies(same)) == doctest::Approx(0.01 + 0.01 * 0.5 / (2 * 0.5)).epsilon(0.03));
  tinytorch::Generator random(8);
  const auto spread =
      bm::serve_open_loop(due, [&](size_t, double) { return -0.01 * std::log1p(-random.uniform()); });
  CHECK(st::mean(bm::latencies(spread)) == doctest::Approx(0.01 / 0.5).epsilon(0.05));
}

TEST_CASE("a stall is one slow call in a closed loop, and a queue in an open loop") {
  const auto service = [](size_t, double begun) { return begun >= 5 && begun < 5.01 ? 2.0 : 0.01; };
  const auto slow = [](const std::vector<bm::Served>& queries) {
    int n = 0;
    for (const double t : bm::latencies(queries)) n += t > 0.5;
    return n;
  };
  CHECK(slow(bm::serve_closed_loop(1000, service)) == 1);
  std::vector<double> due;
  for (int i = 0; i < 1000; ++i) due.push_back(0.02 * i + 0.003);
  CHECK(slow(bm::serve_open_loop(due, service)) > 75);
}

TEST_CASE("queries are served in order, not before the previous one ends or they are due") {
  const std::vector<double> due{0, 1, 1, 9};
  const auto queries = bm::serve_open_loop(due, [](size_t i, double) { return i == 0 ? 3.0 : 0.5; });
  CHECK(bm::latencies(queries) == std::vector<double>{3, 2.5, 3, 0.5});
  CHECK(queries[3].begun == 9);
  const std::vector<double> back{1, 0};
  CHECK(message_of([&] { bm::serve_open_loop(back, [](size_t, double) { return 1.0; }); }).substr(0, 10) ==
        "TT-STAT-07");
}

TEST_CASE("highest_rate finds the rate within its precision in few runs") {
  int runs = 0;
  const auto below = [&](double limit) {
    return [&runs, limit](double rate) {
      ++runs;
      return rate <= limit;
    };
  };
  for (const double limit : {1.0, 3.7, 64.0, 999.0}) {
    CAPTURE(limit);
    const double rate = bm::highest_rate(below(limit), 1, 1000, 0.01);
    CHECK(rate <= limit);
    CHECK(rate * 1.01 >= limit);
  }
  CHECK(runs < 4 * 20);
  CHECK(bm::highest_rate([](double) { return false; }, 1, 100) == 0);
  CHECK(bm::highest_rate([](double) { return true; }, 1, 100) == 100);
}
