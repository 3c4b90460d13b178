#include <tinytorch/layers/prefetch.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>

namespace tt = tinytorch;

TEST_CASE("items are returned in order at any speed of the workers") {
  for (int workers : {1, 3, 8}) {
    tt::PrefetchQueue<int64_t> queue(5, 65, workers, 4, [](int64_t i) {
      std::this_thread::sleep_for(std::chrono::microseconds((i * 7919) % 400));
      return i * i;
    });
    for (int64_t i = 5; i < 65; ++i) CHECK(queue.next() == i * i);
  }
}

TEST_CASE("at most `depth` items are computed ahead") {
  std::atomic<int64_t> made{0};
  tt::PrefetchQueue<int64_t> queue(0, 1000, 4, 3, [&](int64_t i) {
    ++made;
    return i;
  });
  for (int64_t used = 1; used <= 20; ++used) {
    queue.next();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK(made <= used + 3);
  }
}

TEST_CASE("an exception is rethrown at its position in the order") {
  tt::PrefetchQueue<int> queue(0, 3, 2, 3, [](int64_t i) -> int {
    if (i == 1) throw std::runtime_error("one");
    return static_cast<int>(i);
  });
  CHECK(queue.next() == 0);
  CHECK_THROWS_WITH(queue.next(), "one");
  CHECK(queue.next() == 2);
}

TEST_CASE("a queue can be destroyed while its workers wait or work") {
  for (int round = 0; round < 20; ++round) {
    tt::PrefetchQueue<int64_t> queue(0, 1000, 3, 2, [](int64_t i) { return i; });
    if (round % 2) queue.next();
  }
}
