// Products of bytes by a warpgroup from swizzled shared memory.
#include <support/device_array.hpp>

#if TINYTORCH_CUDA_SIM
#include <support/faults.hpp>
#include <tinytorch/backend/cuda/device/warpgroup_bytes.cuh>

namespace cuda = tinytorch::backend::cuda;
using namespace test;

namespace {

// out [64, 256] = a [64, 128] b [256, 128]^T of signed bytes, by four products of 32 columns each.
__global__ void product(int* out, const signed char* a, const signed char* b) {
  signed char* const shared = cuda::dynamic_shared<signed char>();
  const int thread = static_cast<int>(threadIdx.x);
  const auto place = [](int row, int k) { return row * 128 + (k / 16 ^ row % 8) * 16 + k % 16; };
  for (int i = thread; i < 64 * 128; i += 128) shared[place(i / 128, i % 128)] = a[i];
  for (int i = thread; i < 256 * 128; i += 128) shared[64 * 128 + place(i / 128, i % 128)] = b[i];
  cuda::fence_async_proxy();
  __syncthreads();
  const unsigned start = cuda::shared_address(shared);
  const cuda::SharedMatrix left(start), right(start + 64 * 128);
  int sum[32][4] = {};
  cuda::wgmma_fence();
  for (unsigned k = 0; k < 128; k += 32) cuda::multiply_bytes(sum, left.after(k), right.after(k));
  cuda::wgmma_commit();
  cuda::wgmma_wait<0>();
  cuda::fence_sums(sum);
  const int lane = thread % 32, row = thread / 32 * 16 + lane / 4;
  for (int n = 0; n < 32; ++n) {
    for (int k = 0; k < 4; ++k) out[(row + k / 2 * 8) * 256 + n * 8 + lane % 4 * 2 + k % 2] = sum[n][k];
  }
}

}  // namespace

TEST_CASE("a product of bytes by a warpgroup is exact") {
  const auto bytes = [](const Shape& shape, uint64_t seed) {
    std::vector<double> v = DeviceArray::random(tinytorch::i32, shape, seed, -128, 128).values();
    v[0] = v[1] = v[2] = -128;
    return v;
  };
  const std::vector<double> x = bytes({64, 128}, 1), y = bytes({256, 128}, 2);
  DeviceArray left = DeviceArray::from(tinytorch::i8, {64, 128}, x),
              right = DeviceArray::from(tinytorch::i8, {256, 128}, y), out(tinytorch::i32, {64, 256});
  CHECK(fault_of(product, {dim3(1), dim3(128), 320 * 128}, out.view().as<int>(),
                 left.view().as<const signed char>(), right.view().as<const signed char>()) == "");
  std::vector<double> want;
  for (size_t i = 0; i < 64; ++i) {
    for (size_t j = 0; j < 256; ++j) {
      double sum = 0;
      for (size_t k = 0; k < 128; ++k) sum += x[i * 128 + k] * y[j * 128 + k];
      want.push_back(sum);
    }
  }
  CHECK(out.values() == want);
}

#else
TEST_CASE("warpgroups: the test needs the emulator" * doctest::skip()) {}
#endif
