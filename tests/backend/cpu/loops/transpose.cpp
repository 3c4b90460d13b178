// Transposed copies of every size around that of a tile, for every element size.
#include <doctest/doctest.h>

#include <cstdint>
#include <tinytorch/backend/cpu/loops/transpose.hpp>
#include <vector>

namespace cpu = tinytorch::backend::cpu;

TEST_CASE_TEMPLATE("every element is written to its position, and nothing else is written", T, uint8_t,
                   uint16_t, float, double) {
  for (const int64_t rows : {1, 3, 16, 33, 65, 130}) {
    for (const int64_t cols : {1, 5, 16, 31, 64, 129}) {
      const int64_t from_col = rows + 3, to_row = cols + 2;
      std::vector<T> from(static_cast<size_t>(cols * from_col)),
          to(static_cast<size_t>(rows * to_row), T(77));
      for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<T>(i % 61);
      cpu::copy_transposed(to.data(), to_row, from.data(), from_col, rows, cols);
      size_t wrong = 0;
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < to_row; ++c) {
          const T want = c < cols ? from[static_cast<size_t>(c * from_col + r)] : T(77);
          wrong += to[static_cast<size_t>(r * to_row + c)] != want;
        }
      }
      CAPTURE(rows);
      CAPTURE(cols);
      CHECK(wrong == 0);
    }
  }
}
