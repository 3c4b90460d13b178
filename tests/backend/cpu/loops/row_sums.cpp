#include <support/array.hpp>

#include <tinytorch/backend/cpu/loops/row_sums.hpp>
#include <tinytorch/core/parallel.hpp>

using namespace test;
namespace kernels = tinytorch::backend::cpu;

TEST_CASE("every row is added once, for any number of rows") {
  for (int64_t rows = 0; rows < 200; ++rows) {
    for (const int64_t width : {0, 1, 7}) {
      std::vector<double> sums(static_cast<size_t>(width), -1.0), want(sums.size(), 0.0);
      kernels::sum_over_rows<float>(sums.data(), rows, width, 2, [&](int64_t r, float* part, float* room) {
        room[0] = static_cast<float>(r);
        room[1] = 1;
        for (int64_t i = 0; i < width; ++i) part[i] += room[0] + room[1] + static_cast<float>(i);
      });
      for (size_t i = 0; i < want.size(); ++i)
        for (int64_t r = 0; r < rows; ++r) want[i] += static_cast<double>(r + 1) + static_cast<double>(i);
      CHECK(sums == want);  // small integers: exact
    }
  }
}

TEST_CASE("sums of many rows are as accurate as of few, with the same bits at any thread count") {
  const int64_t rows = 1 << 18;
  Generator generator(9);
  std::vector<float> x(static_cast<size_t>(rows));
  for (float& v : x) v = static_cast<float>(generator.uniform(0.9, 1.1));
  double want = 0;
  for (const float v : x) want += static_cast<double>(v);
  const auto sum = [&] {
    double s = 0;
    kernels::sum_over_rows<float>(
        &s, rows, 1, 0, [&](int64_t r, float* part, float*) { *part += x[static_cast<size_t>(r)]; });
    return s;
  };
  const int before = tinytorch::thread_count();
  const double one = (tinytorch::set_thread_count(1), sum());
  const double three = (tinytorch::set_thread_count(3), sum());
  tinytorch::set_thread_count(before);
  CHECK(one == three);
  CHECK(std::abs(one - want) < 4e-7 * want);  // a plain sum of floats is off by 1e-4
}
