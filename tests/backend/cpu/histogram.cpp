#include <support/array.hpp>

#include <cmath>
#include <tinytorch/backend/cpu/histogram.hpp>

using namespace test;
namespace kernels = tinytorch::backend::cpu;

TEST_CASE("bins count every value between the limits once, whatever the number of threads") {
  for (const DType dtype : kFloating) {
    for (const int64_t n : {0, 1, 1000, 1024, 1025, 300'001}) {
      for (const int64_t bins : {1, 2, 7, 1000}) {
        Array x = Array::random(dtype, {n}, 1, -3, 5, Layout::gaps);
        Array counts(i64, {bins});
        kernels::count_bins(counts.view(), x.view(), -2, 4);
        std::vector<double> want(static_cast<size_t>(bins));
        for (const double v : x.values()) {
          if (v < -2 || v > 4) continue;
          const double place = std::floor((v + 2) * static_cast<double>(bins) / 6);
          ++want[static_cast<size_t>(std::min(place, static_cast<double>(bins - 1)))];
        }
        CHECK(counts.values() == want);
      }
    }
  }
}

TEST_CASE("the upper limit belongs to the last bin; NaN and infinities are not counted") {
  Array x = Array::from(f32, {7}, {0, 1, 2, 4, NAN, INFINITY, -INFINITY});
  Array counts(i64, {4});
  kernels::count_bins(counts.view(), x.view(), 0, 4);
  CHECK(counts.values() == std::vector<double>{1, 1, 1, 1});
}
