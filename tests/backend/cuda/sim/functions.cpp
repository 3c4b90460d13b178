// Emulated device functions: atomics, all shuffles, intrinsics.
#include <support/device.hpp>

#if TINYTORCH_CUDA_SIM
#include <cmath>
#include <tinytorch/backend/cuda/device/kernel.cuh>
#include <tinytorch/core/random.hpp>

namespace tt = tinytorch;
namespace cuda = tinytorch::backend::cuda;

namespace {

__global__ void all_atomics(int* x) {
  const int t = static_cast<int>(threadIdx.x);
  atomicAdd(x + 0, t);
  atomicMax(x + 1, t);
  atomicMin(x + 2, t);
  atomicOr(x + 3, 1 << t % 8);
  atomicAnd(x + 4, ~(1 << t % 8));
  atomicExch(x + 5, t);
  atomicCAS(x + 6, t, t + 1);  // the n-th thread reads n
}

__global__ void all_shuffles(int* out) {
  const int t = static_cast<int>(threadIdx.x);
  const unsigned all = 0xffffffffu;
  out[t] = __shfl_sync(all, t, 5);
  out[32 + t] = __shfl_xor_sync(all, t, 3);
  out[64 + t] = __shfl_up_sync(all, t, 2u);
  out[96 + t] = __shfl_down_sync(all, t, 2u);
  out[128 + t] = __shfl_sync(all, t, 1, 8);
  out[160 + t] = __shfl_down_sync(all, t, 1u, 4);
}

std::vector<int> run(void (*kernel)(int*), int threads, std::vector<int> values) {
  const test::DeviceBytes bytes(values.size() * sizeof(int));
  cuda::copy_bytes(bytes.data(), test::on_cuda(0), values.data(), tt::cpu, bytes.size());
  cuda::launch(kernel, cuda::LaunchConfig{dim3(1), dim3(static_cast<unsigned>(threads)), 0},
               reinterpret_cast<int*>(bytes.data()));
  cuda::copy_bytes(values.data(), tt::cpu, bytes.data(), test::on_cuda(0), bytes.size());
  return values;
}

}  // namespace

TEST_CASE("atomics") {
  CHECK(run(all_atomics, 64, {0, 0, 99, 0, 0xffff, 7, 0}) ==
        std::vector<int>{64 * 63 / 2, 63, 0, 255, 0xff00, 63, 64});
}

TEST_CASE("shuffles in whole warps and in groups of 4 and 8 lanes") {
  const auto found = run(all_shuffles, 32, std::vector<int>(192));
  bool good = true;
  for (int t = 0; t < 32; ++t) {
    const auto at = [&](int row) { return found[static_cast<size_t>(row * 32 + t)]; };
    good = good && at(0) == 5 && at(1) == (t ^ 3) && at(2) == (t < 2 ? t : t - 2) &&
           at(3) == (t > 29 ? t : t + 2);
    good = good && at(4) == t / 8 * 8 + 1 && at(5) == (t % 4 == 3 ? t : t + 1);
  }
  CHECK(good);
}

TEST_CASE("intrinsics") {
  CHECK(__umulhi(0x80000000u, 6u) == 3u);
  CHECK(__umul64hi(uint64_t{1} << 63, 6) == 3u);
  CHECK(__popc(0xf0f0u) == 8);
  CHECK(__clz(1) == 31);
  CHECK(__clz(0) == 32);
  CHECK(__ffs(0) == 0);
  CHECK(__ffs(8) == 4);
  CHECK(__uint_as_float(__float_as_uint(-1.5f)) == -1.5f);
  CHECK(std::isnan(__int_as_float(-1)));
  CHECK(rsqrtf(4.0f) == 0.5f);
  CHECK(min(3, 4L) == 3);
  CHECK(max(-1.0f, 2.0f) == 2.0f);
}

TEST_CASE("dp4a adds the products of four signed or unsigned bytes, and wraps") {
  tt::Generator random(17);
  for (int i = 0; i < 1000; ++i) {
    const auto word = [&] { return static_cast<unsigned>(random.uniform(0, 0x1p32)); };
    const unsigned a = word(), b = word(), c = word();
    int64_t with_sign = static_cast<int>(c), without_sign = c;
    for (int k = 0; k < 4; ++k) {
      const unsigned x = a >> 8 * k & 255u, y = b >> 8 * k & 255u;
      const auto signed_of = [](unsigned byte) {
        return static_cast<int64_t>(byte) - (byte > 127 ? 256 : 0);
      };
      with_sign += signed_of(x) * signed_of(y);
      without_sign += static_cast<int64_t>(x) * y;
    }
    CHECK(__dp4a(static_cast<int>(a), static_cast<int>(b), static_cast<int>(c)) ==
          static_cast<int>(with_sign));
    CHECK(__dp4a(a, b, c) == static_cast<unsigned>(without_sign));
  }
  CHECK(__dp4a(static_cast<int>(0x80808080u), static_cast<int>(0x80808080u), 0) == 4 * 16384);
}

TEST_CASE("a float rounds to an integer half to even, saturates, and NaN is 0") {
  CHECK(__float2int_rn(2.5f) == 2);
  CHECK(__float2int_rn(-3.5f) == -4);
  CHECK(__float2int_rn(1e10f) == 2147483647);
  CHECK(__float2int_rn(-1e10f) == -2147483647 - 1);
  CHECK(__float2int_rn(NAN) == 0);
}

#else
TEST_CASE("device functions: the test needs the emulator" * doctest::skip()) {}
#endif
