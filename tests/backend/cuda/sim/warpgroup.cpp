// wgmma: a warpgroup multiplies [64, 16] by [16, 64], with B row-major or column-major in swizzled shared
// memory, and optionally adds to the accumulators.
#include <support/device_array.hpp>

#if TINYTORCH_CUDA_SIM
#include <support/faults.hpp>
#include <support/few.hpp>
#include <tinytorch/backend/cuda/device/warpgroup.cuh>

namespace cuda = tinytorch::backend::cuda;
using namespace test;

namespace {

// out [64, 64] += a [64, 16] B. b has 64 rows of 64 values. B is rows `first` to first + 15 of b if
// kRowMajor, else the transpose of columns `first` to first + 15.
enum class Left { registers, shared };

template <class T, bool kRowMajor, Left kLeft>
__global__ void product(float* out, const T* a, const T* b, int first, bool add) {
  unsigned char* const shared = cuda::dynamic_shared<unsigned char>();
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  for (int i = thread; i < 64 * 8; i += 128) {
    const int row = i / 8, piece = i % 8;
    reinterpret_cast<uint4*>(shared)[row * 8 + (piece ^ row % 8)] = reinterpret_cast<const uint4*>(b)[i];
  }
  constexpr int kLeftAt = 64 * 128;  // 16 of 64 values per row, in the same columns as those of b
  for (int i = thread; i < 64 * 2; i += 128) {
    const int row = i / 2, piece = first / 8 % 8 + i % 2;
    reinterpret_cast<uint4*>(shared + kLeftAt)[row * 8 + (piece ^ row % 8)] =
        reinterpret_cast<const uint4*>(a)[i];
  }
  unsigned left[4];
  for (int i = 0; i < 4; ++i) {
    const int row = warp * 16 + lane / 4 + i % 2 * 8, column = lane % 4 * 2 + i / 2 * 8;
    left[i] = *reinterpret_cast<const unsigned*>(a + row * 16 + column);
  }
  const auto place = [&](int n, int i) {
    return (warp * 16 + lane / 4 + i / 2 * 8) * 64 + n * 8 + lane % 4 * 2 + i % 2;
  };
  float sum[8][4];
  for (int n = 0; n < 8; ++n) {
    for (int i = 0; i < 4; ++i) sum[n][i] = out[place(n, i)];
  }
  cuda::fence_async_proxy();
  __syncthreads();
  cuda::wgmma_fence();
  const unsigned base = cuda::shared_address(shared), across = static_cast<unsigned>(first * 2);
  if constexpr (kLeft == Left::shared) {
    cuda::multiply_group<T>(sum, cuda::SharedMatrix(base + kLeftAt + across),
                            cuda::SharedMatrix(base + across), add);
  } else {
    const unsigned bytes = kRowMajor ? static_cast<unsigned>(first * 128) : across;
    cuda::multiply_group<T, kRowMajor>(sum, left, cuda::SharedMatrix(base + bytes), add);
  }
  cuda::wgmma_commit();
  cuda::wgmma_wait<0>();
  cuda::fence_operands(sum);
  for (int n = 0; n < 8; ++n) {
    for (int i = 0; i < 4; ++i) out[place(n, i)] = sum[n][i];
  }
}

template <class T, bool kRowMajor, Left kLeft = Left::registers>
void check_product(int first, bool add) {
  constexpr DType kType = tinytorch::dtype_of<T>;
  INFO("row-major ", kRowMajor, ", from ", first, ", added ", add);
  DeviceArray a = DeviceArray::random(kType, {64, 16}, 1), b = DeviceArray::random(kType, {64, 64}, 2);
  DeviceArray out = DeviceArray::random(f32, {64, 64}, 3);
  const std::vector<double> x = a.values(), y = b.values();
  std::vector<double> want = add ? out.values() : std::vector<double>(64 * 64);
  const auto offset = static_cast<size_t>(first);
  for (size_t i = 0; i < want.size(); ++i) {
    const size_t row = i / 64, column = i % 64;
    for (size_t k = 0; k < 16; ++k) {
      want[i] += x[row * 16 + k] * (kRowMajor ? y[(offset + k) * 64 + column] : y[column * 64 + offset + k]);
    }
  }
  CHECK(fault_of(product<T, kRowMajor, kLeft>, {dim3(1), dim3(128), 2 * 64 * 128},
                 out.view().template as<float>(), a.view().template as<const T>(),
                 b.view().template as<const T>(), first, add) == "");
  check_close(out.values(), want, f32, 16);
}

}  // namespace

TEST_CASE("products of warpgroups are correct" * needs_devices() * test::long_on_emulator()) {
  for (const int first : {0, 16, 48}) {
    for (const bool add : {false, true}) {
      check_product<tinytorch::BFloat16, true>(first, add);
      check_product<tinytorch::BFloat16, false>(first, add);
      check_product<tinytorch::BFloat16, false, Left::shared>(first, add);
      check_product<tinytorch::Half, true>(first, add);
      check_product<tinytorch::Half, false>(first, add);
    }
  }
}

#else
TEST_CASE("wgmma: the test needs the emulator" * doctest::skip()) {}
#endif
