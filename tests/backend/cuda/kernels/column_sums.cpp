#include <support/fresh.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

TEST_CASE("column_sums equals the definition, also for outputs of another dtype" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const int64_t rows : {0, 1, 65, 300}) {
    for (const int64_t columns : {1, 33, 64}) {
      for (const DType t : kFloating) {
        DeviceArray x = fresh.array(t, {rows, columns}), out(t, {columns}), wide(f64, {columns});
        kernels::column_sums(out.view(), x.view());
        kernels::column_sums(wide.view(), x.view());
        const std::vector<double> values = x.values();
        std::vector<double> sums(static_cast<size_t>(columns));
        for (size_t i = 0; i < values.size(); ++i) sums[i % sums.size()] += values[i];
        check_close(out.values(), sums, t, 4 + static_cast<double>(rows));
        check_close(wide.values(), sums, t, 4 + static_cast<double>(rows));
      }
    }
  }
}

#else
TEST_CASE("without CUDA there are no kernels to test" * doctest::skip()) {}
#endif
