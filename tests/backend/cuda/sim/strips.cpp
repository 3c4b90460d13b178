// backend/cuda/device/strips.cuh with teams of one block, and more rows than blocks. Teams of several blocks
// need a GPU (kernels/norm.cpp, kernels/softmax.cpp).
#include <support/device_array.hpp>
#include <support/few.hpp>
#include <support/fresh.hpp>

#if TINYTORCH_CUDA_SIM
#include <tinytorch/backend/cuda/kernels/rows/softmax_grad_strips.cuh>

namespace cuda = tinytorch::backend::cuda;
using namespace test;

namespace {

// Processes `rows` rows by `blocks` thread blocks.
template <class Work>
void run_strips(const typename Work::Arrays& arrays, int64_t rows, int64_t C, int64_t blocks) {
  cuda::StripsPlan plan = cuda::plan_strips<Work>(arrays, rows, C);
  REQUIRE(plan.teams > 0);
  REQUIRE(plan.blocks == 1);
  plan.config.grid.x = static_cast<unsigned>(blocks);
  cuda::launch_strips<Work>(plan, arrays, rows, C);
}

template <class T, bool kAligned = true>
void check_softmax_grad(Fresh& fresh, DType dtype, int64_t rows, int64_t C, int64_t blocks, bool logarithm) {
  INFO(text_of(dtype), " [", rows, ", ", C, "] by ", blocks, " blocks, logarithm ", logarithm);
  DeviceArray dy = fresh.array(dtype, {rows, C}), y = fresh.array(dtype, {rows, C}, -3, 0),
              dx(dtype, {rows, C});
  run_strips<cuda::SoftmaxGradStrips<T, kAligned>>(
      {dx.view().template as<T>(), dy.view().template as<const T>(), y.view().template as<const T>(),
       logarithm},
      rows, C, blocks);
  const std::vector<double> g = dy.values(), v = y.values();
  std::vector<double> want(g.size());
  const auto width = static_cast<size_t>(C);
  for (size_t first = 0; first < g.size(); first += width) {
    long double sum = 0;
    for (size_t c = first; c < first + width; ++c) sum += logarithm ? g[c] : g[c] * v[c];
    for (size_t c = first; c < first + width; ++c) {
      want[c] = static_cast<double>(logarithm ? g[c] - std::exp(v[c]) * sum : v[c] * (g[c] - sum));
    }
  }
  // Sums of f64 have no wider accumulate type: the error is that of partial sums, which are about 30 here,
  // times |y|.
  check_close(dx.values(), want, dtype, 100, dtype == f64 ? 100 : 4);
}

}  // namespace

TEST_CASE("rows of one and of several blocks, with full and partial strips, are correct" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const bool logarithm : test::some_on_emulator(std::vector<bool>{false, true}, 1)) {
    for (const int64_t blocks : {1, 2, 5}) {
      if (test::left_out(3)) continue;
      check_softmax_grad<float>(fresh, f32, 5, 2100, blocks, logarithm);
      check_softmax_grad<BFloat16>(fresh, bf16, 5, 4104, blocks, logarithm);
    }
    for (const int64_t blocks : {1, 3}) {  // ragged rows, which begin anywhere in a vector of 16 bytes
      if (test::left_out(3)) continue;
      check_softmax_grad<float, false>(fresh, f32, 7, 1031, blocks, logarithm);
      check_softmax_grad<BFloat16, false>(fresh, bf16, 9, 517, blocks, logarithm);
    }
    if (test::left_out(3)) continue;
    check_softmax_grad<float>(fresh, f32, 2, 8192, 1, logarithm);
    check_softmax_grad<float>(fresh, f32, 7, 4, 2, logarithm);
    check_softmax_grad<double>(fresh, f64, 4, 1026, 1, logarithm);
  }
}

#else
TEST_CASE("teams of one block: the test needs the emulator" * doctest::skip()) {}
#endif
