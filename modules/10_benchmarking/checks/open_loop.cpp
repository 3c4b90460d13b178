#include <support/check.hpp>
#include <tinytorch/benchmarking/open_loop.hpp>

using namespace course;
using namespace benchmarking;

namespace {

bool close(double got, double want, double share = 1e-9) {
  return std::abs(got - want) <= share * std::abs(want) + 1e-12;
}
double mean_of(const Numbers& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}
int slower_than(const std::vector<Served>& queries, double seconds) {
  int n = 0;
  for (const double t : latencies(queries)) n += t > seconds;
  return n;
}
Numbers evenly(int n, double gap) {
  Numbers due;
  for (int i = 0; i < n; ++i) due.push_back(gap * i);
  return due;
}
// The service time of a server that takes 10 ms per query and is blocked from 5 s to 7 s.
double stalling(size_t, double begun) { return begun >= 5 && begun < 5.01 ? 2 : 0.01; }

}  // namespace

TEST_CASE("10.9 arrivals are a Poisson process") {
  const Numbers due = poisson_schedule(20, 1000, 0, 7);
  expect("arrivals at a rate of 20 per second for 1000 s: about 20000, got " + shown(due.size()),
         std::abs(static_cast<double>(due.size()) - 20000) < 700);
  expect("the arrival times ascend", std::is_sorted(due.begin(), due.end()),
         "an arrival time is the previous one plus a gap");
  Numbers gaps{due[0]};
  for (size_t i = 1; i < due.size(); ++i) gaps.push_back(due[i] - due[i - 1]);
  expect("a gap is 0.05 s on average, got " + shown(mean_of(gaps)), close(mean_of(gaps), 0.05, 0.04),
         "the mean of a gap is 1 / rate");
  for (const double seconds : {0.01, 0.05, 0.15}) {
    const auto longer =
        static_cast<double>(std::count_if(gaps.begin(), gaps.end(), [&](double g) { return g > seconds; })) /
        double(gaps.size());
    expect("the share of gaps above " + shown(seconds) + " s: " + shown(std::exp(-20 * seconds)) + ", got " +
               shown(longer),
           std::abs(longer - std::exp(-20 * seconds)) < 0.015,
           "gaps are exponential: -log(1 - u) / rate of a uniform number u");
  }
  double after_long = 0, count = 0;
  for (size_t i = 1; i < gaps.size(); ++i)
    if (gaps[i - 1] > 0.05) after_long += gaps[i], ++count;
  expect("a gap after a long gap is 0.05 s on average, got " + shown(after_long / count),
         close(after_long / count, 0.05, 0.06), "gaps must be independent");
}

TEST_CASE("10.9 arrivals for a time, at least a number of them, determined by the seed") {
  for (const uint64_t seed : {1, 2, 3}) {
    const Numbers due = poisson_schedule(5, 10, 0, seed);
    expect("the schedule of 10 s ends with the first arrival after 10 s: " + shown(due[due.size() - 2]) +
               ", " + shown(due.back()),
           due.back() >= 10 && due[due.size() - 2] < 10);
    expect_equal("number of arrivals, at least 300, in 10 s at 5 per second, seed " + shown(seed),
                 poisson_schedule(5, 10, 300, seed).size(), size_t{300});
  }
  expect_equal("number of arrivals in 0 s", poisson_schedule(5, 0, 0, 1).size(), size_t{0});
  expect("the same seed gives the same arrival times",
         poisson_schedule(5, 10, 0, 4) == poisson_schedule(5, 10, 0, 4));
  expect("another seed gives other arrival times",
         poisson_schedule(5, 10, 0, 4) != poisson_schedule(5, 10, 0, 5));
}

TEST_CASE("10.9 a latency is measured from when the query was due") {
  expect(
      "latency of a query due at 2, begun at 5, answered at 6: 4 s, got " + shown(Served{2, 5, 6}.latency()),
      Served{2, 5, 6}.latency() == 4, "the time in the queue is a part of the latency");
  const Numbers due{0, 1, 1, 9};
  const auto queries = serve_open_loop(due, [](size_t i, double) { return i == 0 ? 3.0 : 0.5; });
  expect_equal("latencies of queries due at 0, 1, 1, 9 s with service times of 3, 0.5, 0.5, 0.5 s",
               latencies(queries), Numbers{3, 2.5, 3, 0.5});
  Numbers begun, answered;
  for (const Served& q : queries) begun.push_back(q.begun), answered.push_back(q.answered);
  expect_equal("times at which these queries begin", begun, Numbers{0, 3, 3.5, 9});
  expect_equal("times at which these queries are answered", answered, Numbers{3, 3.5, 4, 9.5});
  std::vector<std::pair<size_t, double>> told;
  serve_open_loop(Numbers{2, 2.5}, [&](size_t i, double at) {
    told.emplace_back(i, at);
    return 4.0;
  });
  expect("the service gets the number and the begin of each query: 0 at 2, 1 at 6",
         told == std::vector<std::pair<size_t, double>>{{0, 2}, {1, 6}});
  expect_throws("TT-STAT-07", "queries due at 1 and 0", [] { serve_open_loop(Numbers{1, 0}, stalling); });
}

TEST_CASE("10.9 a query waits for the queries before it, and for nothing else") {
  Numbers due = poisson_schedule(3, 0, 60, 11), work;
  for (size_t i = 0; i < due.size(); ++i) work.push_back(uniform(0.05, 0.6));
  const Numbers got = latencies(serve_open_loop(due, [&](size_t i, double) { return work[i]; }));
  for (size_t i = 0; i < due.size(); ++i) {
    // The server has been busy since it last became free, at the begin of some query k.
    double answered = 0, sum = 0;
    for (size_t k = i + 1; k-- > 0;) answered = std::max(answered, due[k] + (sum += work[k]));
    expect("latency of query " + shown(i) + " of a random queue: " + shown(answered - due[i]) + ", got " +
               shown(got[i]),
           close(got[i], answered - due[i]));
  }
  const Numbers late = latencies(serve_open_loop(evenly(50, 1), [](size_t, double) { return 1.5; }));
  expect("a query each second with a service time of 1.5 s: the latency of the fiftieth is 26 s, got " +
             shown(late[49]),
         close(late[49], 26), "the queue of an overloaded server grows without limit");
  const Numbers fine = latencies(serve_open_loop(evenly(50, 1), [](size_t, double) { return 0.99; }));
  expect("a query each second with a service time of 0.99 s: each latency is 0.99 s, got " + shown(fine[49]),
         close(fine[49], 0.99));
}

TEST_CASE("10.9 the mean latency of M/M/1 agrees with its formula") {
  for (const double load : {0.3, 0.5, 0.7}) {
    const Numbers due = poisson_schedule(100 * load, 0, 30000, 21);
    std::mt19937_64 random(9);
    std::exponential_distribution<double> exponential(100);
    const double got =
        mean_of(latencies(serve_open_loop(due, [&](size_t, double) { return exponential(random); })));
    const double want = 1 / (100 - 100 * load);
    expect("mean latency of service times of 10 ms on average at " + shown(100 * load) +
               " % load: 1 / (100 - " + shown(100 * load) + ") = " + shown(want) + " s, got " + shown(got),
           close(got, want, 0.08), "the latency is not proportional to the load");
  }
}

TEST_CASE("10.9 a closed loop of one user hides the delay that an open loop shows") {
  const auto closed = serve_closed_loop(
      4, [](size_t i, double begun) { return begun < 3 ? 1.0 + static_cast<double>(i) : 0.25; });
  Numbers due, answered;
  for (const Served& q : closed) due.push_back(q.due), answered.push_back(q.answered);
  expect_equal(
      "service times of 1 and 2 s, and 0.25 s after the third second, in a closed loop: times at which "
      "queries are due",
      due, Numbers{0, 1, 3, 3.25});
  expect_equal("times at which these queries are answered", answered, Numbers{1, 3, 3.25, 3.5});
  for (const Served& q : closed) expect("in a closed loop a query begins when it is due", q.due == q.begun);
  const int seen = slower_than(serve_closed_loop(1000, stalling), 0.1);
  const int waited = slower_than(serve_open_loop(evenly(1000, 0.02), stalling), 0.1);
  expect("a server that is blocked for 2 s: a closed loop of one user has 1 slow call of 1000, got " +
             shown(seen),
         seen == 1);
  expect("the same server with an arrival every 0.02 s: 190 of 1000 queries take more than 0.1 s, got " +
             shown(waited),
         std::abs(waited - 190) <= 1,
         "all queries that arrive meanwhile wait, and those after them until the queue is empty");
}

TEST_CASE("10.9 the search for the highest rate that meets the bound") {
  for (const double limit : {1.0, 1.5, 7.3, 100.0, 640.0, 999.0}) {
    int runs = 0;
    double most = 0;
    const double rate = highest_rate(
        [&](double r) {
          ++runs, most = std::max(most, r);
          return r <= limit;
        },
        1, 1000, 0.01);
    expect("a bound that is met up to a rate of " + shown(limit) +
               ": the result is at most 1 % below it, got " + shown(rate),
           rate <= limit && rate * 1.01 >= limit);
    expect("the search takes at most 20 runs, got " + shown(runs), runs <= 20,
           "double the rate first, then bisect");
    expect("no run has a rate above 1000, got " + shown(most), most <= 1000);
  }
  expect_equal("highest_rate if not even the lowest rate meets the bound",
               highest_rate([](double) { return false; }, 3, 100), 0.0);
  expect_equal("highest_rate if even the highest rate meets the bound",
               highest_rate([](double) { return true; }, 3, 100), 100.0);
  int coarse = 0, fine = 0;
  highest_rate([&](double r) { return ++coarse, r <= 37; }, 1, 1000, 0.2);
  highest_rate([&](double r) { return ++fine, r <= 37; }, 1, 1000, 0.001);
  expect("a precision of 20 % takes fewer runs than one of 0.1 %: " + shown(coarse) + " and " + shown(fine),
         coarse + 4 < fine);
}
