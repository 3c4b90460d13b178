#include <doctest/doctest.h>

#include <limits>
#include <support/ladder_matrix.hpp>
#include <tinytorch/backend/cpu/ladder/panels.hpp>

using namespace test;
namespace cpu = tinytorch::backend::cpu;

TEST_CASE_TEMPLATE("panels have the steps of the depth one after the other, and zeros behind the edge", T,
                   float, double) {
  for (const bool transposed : {false, true}) {
    for (const int64_t count : {int64_t{1}, cpu::kMR, cpu::kMR + 1, 2 * cpu::kNR<T> - 1}) {
      const int64_t depth = 5;
      for (const bool of_rows : {true, false}) {
        const int64_t width = of_rows ? cpu::kMR : cpu::kNR<T>;
        LadderMatrix<T> m(of_rows ? count : depth, of_rows ? depth : count, 1, transposed);
        std::vector<T> to(static_cast<size_t>(cpu::ladder::panel_elements(count, width, depth)),
                          std::numeric_limits<T>::quiet_NaN());
        if (of_rows)
          cpu::ladder::pack_a<T>(to.data(), {m.numbers.data(), m.row, m.col}, count, depth);
        else
          cpu::ladder::pack_b<T>(to.data(), {m.numbers.data(), m.row, m.col}, depth, count);
        for (int64_t i = 0; i < static_cast<int64_t>(to.size()); ++i) {
          const int64_t k = i % (width * depth) / width, at = i / (width * depth) * width + i % width;
          const T want = at >= count ? T(0) : of_rows ? m.at(at, k) : m.at(k, at);
          CHECK(to[static_cast<size_t>(i)] == want);
        }
      }
    }
  }
}
