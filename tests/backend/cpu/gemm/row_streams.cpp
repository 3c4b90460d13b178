#include <doctest/doctest.h>

#include <atomic>
#include <tinytorch/backend/cpu/gemm/row_streams.hpp>
#include <vector>

using namespace tinytorch;

TEST_CASE("every row is visited once, for any number of rows and threads") {
  for (const int threads : {1, 2, 3}) {
    const int before = thread_count();
    set_thread_count(threads);
    for (const int64_t N : {0, 1, 3, 4, 5, 31, 1003}) {
      for (const int64_t bytes : {0, 100, 1 << 20}) {
        std::vector<std::atomic<int>> visits(static_cast<size_t>(N));
        backend::cpu::for_row_groups(N, bytes, [&](int64_t n, int64_t spacing, auto count) {
          for (int64_t r = 0; r < count.value; ++r) ++visits.at(static_cast<size_t>(n + r * spacing));
        });
        for (const auto& v : visits) CHECK(v == 1);
      }
    }
    set_thread_count(before);
  }
}
