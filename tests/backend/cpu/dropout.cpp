#include <support/array.hpp>

#include <tinytorch/backend/cpu/dropout.hpp>
#include <tinytorch/core/parallel.hpp>

using namespace test;
namespace kernels = tinytorch::backend::cpu;

TEST_CASE(
    "dropout keeps exactly the elements whose random word reaches the limit, at any size and thread count") {
  const int before = thread_count();
  for (int64_t n : {1, 3, 4, 511, 512, 513, 5000, 20000}) {
    for (DType dtype : kFloating) {
      Array x = Array::random(dtype, {n}, 1, 1, 2, Layout::gaps);
      std::vector<double> want = x.values();
      for (size_t i = 0; i < want.size(); ++i) {
        const uint32_t word = philox(77, 1000 + i / 4).v[i % 4];
        want[i] = static_cast<double>(word) < 0.3 * 4294967296.0 ? 0 : want[i] / 0.7;
      }
      for (int threads : {1, 3}) {
        set_thread_count(threads);
        Array y(dtype, {n});
        kernels::dropout(y.view(), x.view(), 0.3, 77, 1000);
        check_close(y.values(), want, dtype, 2);
      }
    }
  }
  set_thread_count(before);
}

TEST_CASE("dropout keeps a fraction 1 - p, everything at p = 0 and nothing at p = 1") {
  Array x = Array::random(f32, {100000}, 1, 1, 2), y(f32, {100000});
  for (double p : {0.1, 0.5, 0.9}) {
    kernels::dropout(y.view(), x.view(), p, 5, 0);
    double kept = 0;
    for (double v : y.values()) kept += v != 0;
    CHECK(std::abs(kept / 1e5 - (1 - p)) < 5 * std::sqrt(p * (1 - p) / 1e5));
  }
  kernels::dropout(y.view(), x.view(), 0, 5, 0);
  CHECK(y.values() == x.values());
  kernels::dropout(y.view(), x.view(), 1, 5, 0);
  CHECK(y.values() == std::vector<double>(100000, 0.0));
}

TEST_CASE("a dropped NaN is zero") {
  Array x = Array::from(f32, {256}, std::vector<double>(256, NAN)), y(f32, {256});
  kernels::dropout(y.view(), x.view(), 0.5, 5, 0);
  int zeros = 0, nans = 0;
  for (double v : y.values()) zeros += v == 0, nans += std::isnan(v);
  CHECK(zeros + nans == 256);
  CHECK(zeros > 64);
  CHECK(nans > 64);
}
