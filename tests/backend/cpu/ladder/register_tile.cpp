#include <doctest/doctest.h>

#include <support/ladder_matrix.hpp>
#include <tinytorch/backend/cpu/ladder/register_tile.hpp>

using namespace test;
namespace cpu = tinytorch::backend::cpu;

TEST_CASE_TEMPLATE("a tile of any size is replaced or added to, and nothing around it", T, float, double) {
  constexpr int64_t kWidth = cpu::kNR<T>;
  for (const int64_t depth : {0, 1, 37}) {
    LadderMatrix<T> a(depth, cpu::kMR, 1), b(depth, kWidth, 2);
    a.numbers.resize(static_cast<size_t>(depth * cpu::kMR + 1));  // read as panels without gaps
    for (const auto& [rows, cols] :
         {std::pair{cpu::kMR, kWidth}, {int64_t{1}, int64_t{1}}, {int64_t{4}, kWidth - 1}}) {
      for (const bool accumulate : {false, true}) {
        std::vector<T> c(static_cast<size_t>((cpu::kMR + 1) * (kWidth + 1)), 100), want = c;
        for (int64_t m = 0; m < rows; ++m) {
          for (int64_t n = 0; n < cols; ++n) {
            double sum = accumulate ? 100 : 0;
            for (int64_t k = 0; k < depth; ++k)
              sum += static_cast<double>(a.numbers[static_cast<size_t>(k * cpu::kMR + m)]) *
                     static_cast<double>(b.numbers[static_cast<size_t>(k * kWidth + n)]);
            want[static_cast<size_t>(m * (kWidth + 1) + n)] = static_cast<T>(sum);
          }
        }
        cpu::ladder::tile_product<T>(c.data(), kWidth + 1, a.numbers.data(), b.numbers.data(), depth, rows,
                                     cols, accumulate);
        CHECK(c == want);
      }
    }
  }
}
