// Delayed copies of the emulator: a kernel with a correct pipeline gives the same result, and each wait is
// counted with the groups that are still on their way behind it.
#include <support/device_array.hpp>
#include <support/few.hpp>
#include <tinytorch/backend/cuda/kernels/ladder/steps.hpp>
#if TINYTORCH_CUDA_SIM
#include <tinytorch/backend/cuda/sim/async_copies.hpp>

using namespace test;
namespace sim = backend::cuda::sim;

TEST_CASE("copies that are delayed until a wait, and the groups behind each wait") {
  const int64_t M = 64, N = 64, K = 160;
  std::vector<double> x, y;
  for (int64_t i = 0; i < M * K; ++i) x.push_back(static_cast<double>(i * 7 % 31 - 15) / 8);
  for (int64_t i = 0; i < K * N; ++i) y.push_back(static_cast<double>(i * 11 % 31 - 15) / 8);
  DeviceArray a = DeviceArray::from(bf16, {M, K}, x), b = DeviceArray::from(bf16, {K, N}, y);
  std::vector<double> at_once;
  for (const bool delayed : {false, true}) {
    DeviceArray out(f32, {M, N});
    sim::delay_copies(delayed);
    backend::cuda::gemm_pipelined(out.view(), a.view(), b.view(), 3);
    CHECK(sim::delays_copies() == delayed);
    CHECK(sim::waits_with(1) == (delayed ? 128 * 5 : 0));  // 128 threads, 5 steps
    CHECK(sim::waits_with(0) == 0);
    CHECK(sim::waits_with(2) == 0);
    sim::delay_copies(false);
    if (!delayed) at_once = out.values();
    CHECK(out.values() == at_once);
  }
}

TEST_CASE("products with blocks wait for the copies of each step") {
  const int64_t N = 32;
  for (const int64_t B : {16, 32, 64}) {
    for (const int64_t M : {40, 100}) {
      if (test::left_out(6)) continue;
      const int64_t blocks = 5, K = blocks * B, rows = (N + B - 1) / B;
      std::vector<double> x, w, columns, offsets;
      for (int64_t i = 0; i < M * K; ++i) x.push_back(static_cast<double>(i * 7 % 31 - 15) / 8);
      for (int64_t i = 0; i < rows * blocks * B * B; ++i)
        w.push_back(static_cast<double>(i * 11 % 29 - 14) / 8);
      for (int64_t i = 0; i < rows * blocks; ++i) columns.push_back(static_cast<double>(i % blocks));
      for (int64_t r = 0; r <= rows; ++r) offsets.push_back(static_cast<double>(r * blocks));
      DeviceArray a = DeviceArray::from(bf16, {M, K}, x),
                  values = DeviceArray::from(bf16, {rows * blocks, B, B}, w),
                  places = DeviceArray::from(i32, {rows * blocks}, columns),
                  starts = DeviceArray::from(i64, {rows + 1}, offsets);
      const backend::BsrView view{values.view().data,
                                  places.view().as<const int32_t>(),
                                  starts.view().as<const int64_t>(),
                                  bf16,
                                  N,
                                  K,
                                  B,
                                  rows * blocks};
      std::vector<double> at_once;
      for (const bool delayed : {false, true}) {
        DeviceArray out(f32, {M, N});
        sim::delay_copies(delayed);
        kernels::spmm_bsr(backend::transposed(out.view()), view, backend::transposed(a.view()));
        sim::delay_copies(false);
        if (!delayed) at_once = out.values();
        CHECK(out.values() == at_once);
      }
    }
  }
}
#endif
