#include <doctest/doctest.h>

#include <atomic>
#include <tinytorch/backend/cpu/loops/row_groups.hpp>
#include <vector>

namespace cpu = tinytorch::backend::cpu;

TEST_CASE("every row belongs to exactly one group, for any number and width of rows") {
  for (const int64_t rows : {0, 1, 2, 97, 5000}) {
    for (const int64_t width : {1, 3, 1000, 1 << 20}) {
      CAPTURE(rows);
      CAPTURE(width);
      std::vector<std::atomic<int>> visits(static_cast<size_t>(rows));
      std::atomic<bool> in_range{true};
      cpu::for_each_row_group(rows, width, [&](int64_t first, int64_t count) {
        if (first < 0 || count < 1 || first + count > rows) {
          in_range = false;
          return;
        }
        for (int64_t r = first; r < first + count; ++r) ++visits[static_cast<size_t>(r)];
      });
      CHECK(in_range);
      int64_t once = 0;
      for (const std::atomic<int>& v : visits) once += v == 1;
      CHECK(once == rows);
    }
  }
}
