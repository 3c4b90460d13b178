// parallel_for: each index once, pieces that start at multiples of the grain, exceptions, nested loops,
// fork().
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <stdexcept>
#include <tinytorch/core/parallel.hpp>
#include <vector>

namespace tt = tinytorch;

TEST_CASE("every index is processed once, in pieces that start at multiples of the grain") {
  for (const int threads : {1, 2, 3}) {
    tt::set_thread_count(threads);
    for (const int64_t n : {0, 1, 2, 3, 7, 64, 1000, 1001}) {
      for (const int64_t grain : {-1, 0, 1, 3, 64, 5000}) {
        std::vector<std::atomic<int>> hits(static_cast<size_t>(n));
        std::atomic<bool> aligned{true};
        tt::parallel_for(n, grain, [&](int64_t begin, int64_t end) {
          if (begin % std::max<int64_t>(grain, 1) != 0 || begin >= end || end > n) aligned = false;
          for (int64_t i = begin; i < end; ++i) hits[static_cast<size_t>(i)]++;
        });
        CHECK(aligned);
        int wrong = 0;
        for (const auto& h : hits) wrong += h != 1;
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("work is distributed over the threads") {
  tt::set_thread_count(2);
  if (tt::thread_count() < 2) return;  // without OpenMP the work is one piece
  std::atomic<int> pieces{0};
  tt::parallel_for(1000, 1, [&](int64_t, int64_t) { ++pieces; });
  CHECK(pieces == 2);
  tt::set_thread_count(1);
  CHECK(tt::thread_count() == 1);
  pieces = 0;
  tt::parallel_for(1000, 1, [&](int64_t, int64_t) { ++pieces; });
  CHECK(pieces == 1);
  tt::set_thread_count(0);  // is raised to one
  CHECK(tt::thread_count() == 1);
}

TEST_CASE("work that is too small for a second thread stays on the calling thread") {
  tt::set_thread_count(4);
  std::atomic<int> pieces{0};
  const auto count = [&](int64_t begin, int64_t end) { pieces += begin < end; };
  tt::maybe_parallel(false, 1000, 1, count);
  CHECK(pieces == 1);
  tt::parallel_for(8, tt::grain_of(64), count);
  CHECK(pieces == 2);
  const int threads = tt::thread_count();
  tt::maybe_parallel(true, 8, tt::grain_of(tt::kElementwiseGrain), count);
  CHECK(pieces == 2 + threads);
  CHECK(tt::grain_of(0) == tt::kElementwiseGrain);
  CHECK(tt::grain_of(tt::kElementwiseGrain / 4) == 4);
  CHECK(tt::grain_of(int64_t{1} << 40) == 1);
}

TEST_CASE("an exception in any piece is rethrown to the caller") {
  for (const int threads : {1, 2}) {
    tt::set_thread_count(threads);
    for (const int64_t bad : {0, 999}) {
      CHECK_THROWS_WITH_AS(tt::parallel_for(1000, 1,
                                            [&](int64_t begin, int64_t end) {
                                              if (begin <= bad && bad < end)
                                                throw std::runtime_error("piece");
                                            }),
                           "piece", std::runtime_error);
    }
  }
}

TEST_CASE("a nested parallel loop runs serially and completely") {
  tt::set_thread_count(2);
  std::atomic<int64_t> sum{0};
  tt::parallel_for(8, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      tt::parallel_for(10, 1, [&](int64_t b, int64_t e) { sum += e - b; });
    }
  });
  CHECK(sum == 80);
}

TEST_CASE("a child of fork() computes on one thread") {
  tt::set_thread_count(2);
  const auto sum = [] {
    std::atomic<int64_t> total{0};
    tt::parallel_for(1000, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) total += i;
    });
    return total.load();
  };
  CHECK(sum() == 499500);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // ends the child if it deadlocks
    _exit(sum() == 499500 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(sum() == 499500);
}
