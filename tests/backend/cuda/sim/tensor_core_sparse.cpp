// Sparse tensor cores: a warp (mma.sp) and a warpgroup (wgmma.mma_async.sp) multiply a 2:4 sparse matrix, and
// metadata that do not ascend are a fault.
#include <support/device_array.hpp>

#if TINYTORCH_CUDA_SIM
#include <random>
#include <support/faults.hpp>
#include <support/few.hpp>
#include <tinytorch/backend/cuda/device/tensor_core_sparse.cuh>
#include <tinytorch/backend/cuda/device/warpgroup_sparse.cuh>

namespace cuda = tinytorch::backend::cuda;
using namespace test;

namespace {

// The kept pairs of two products that are 32 deep, from kept [rows, 32], and a lane's word of places, from
// words [rows, 4] of 16 columns each.
template <class T>
__device__ void load_left(unsigned (&left)[2][4], unsigned& places, const T* kept, const uint16_t* words) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, row = thread / 32 * 16 + lane / 4;
  for (int half = 0; half < 2; ++half) {
    for (int j = 0; j < 4; ++j) {
      left[j / 2][j % 2 * 2 + half] =
          *reinterpret_cast<const unsigned*>(kept + (row + half * 8) * 32 + (lane % 4 + j * 4) * 2);
    }
  }
  places = words[row * 4 + lane % 4] | static_cast<unsigned>(words[(row + 8) * 4 + lane % 4]) << 16;
}
template <int kCount>
__device__ void move_sums(float* out, float (&sum)[kCount][4], bool load) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, row = thread / 32 * 16 + lane / 4;
  for (int n = 0; n < kCount; ++n) {
    for (int i = 0; i < 4; ++i) {
      float& at = out[(row + i / 2 * 8) * kCount * 8 + n * 8 + lane % 4 * 2 + i % 2];
      (load ? sum[n][i] : at) = load ? at : sum[n][i];
    }
  }
}

// out [16, 8] += A [16, 64] b [8, 64]^T by a warp.
template <class T>
__global__ void warp_product(float* out, const T* kept, const uint16_t* words, const T* b) {
  unsigned left[2][4], places, right[2][4];
  load_left(left, places, kept, words);
  const int lane = static_cast<int>(threadIdx.x);
  for (int j = 0; j < 8; ++j) {
    right[j / 4][j % 4] = *reinterpret_cast<const unsigned*>(b + lane / 4 * 64 + j * 8 + lane % 4 * 2);
  }
  float sum[1][4];
  move_sums(out, sum, true);
  cuda::multiply_add_sparse<T, 0>(sum[0], left[0], right[0], places);
  cuda::multiply_add_sparse<T, 1>(sum[0], left[1], right[1], places);
  move_sums(out, sum, false);
}
// out [64, 8 kCount] += A [64, 64] b [8 kCount, 64]^T by a warpgroup.
template <class T, int kCount>
__global__ void group_product(float* out, const T* kept, const uint16_t* words, const T* b) {
  unsigned char* const shared = cuda::dynamic_shared<unsigned char>();
  for (int i = static_cast<int>(threadIdx.x); i < kCount * 64; i += 128) {
    const int row = i / 8, piece = i % 8;
    reinterpret_cast<uint4*>(shared)[row * 8 + (piece ^ row % 8)] = reinterpret_cast<const uint4*>(b)[i];
  }
  unsigned left[2][4], places;
  load_left(left, places, kept, words);
  float sum[kCount][4];
  move_sums(out, sum, true);
  cuda::fence_async_proxy();
  __syncthreads();
  cuda::wgmma_fence();
  const cuda::SharedMatrix right(cuda::shared_address(shared));
  cuda::multiply_sparse<T, 0>(sum, left[0], places, right);
  cuda::multiply_sparse<T, 1>(sum, left[1], places, right.after(64));
  cuda::wgmma_commit();
  cuda::wgmma_wait<0>();
  cuda::fence_operands(sum);
  move_sums(out, sum, false);
}

// A sparse matrix [rows, 64] with random places.
struct Sparse {
  DeviceArray kept;
  std::vector<uint16_t> words;
  std::vector<double> dense;
  DeviceBytes on_device;

  Sparse(DType t, int64_t rows, unsigned seed)
      : kept(DeviceArray::random(t, {rows, 32}, seed)),
        words(static_cast<size_t>(rows * 4)),
        dense(static_cast<size_t>(rows * 64)),
        on_device(words.size() * 2) {
    std::mt19937 random(seed);
    const std::vector<double> values = kept.values();
    for (size_t g = 0; g < words.size() * 4; ++g) {
      unsigned low = random() % 4, high = random() % 4;
      while (high == low) high = random() % 4;
      if (low > high) std::swap(low, high);
      words[g / 4] = static_cast<uint16_t>(words[g / 4] | (low | high << 2) << (g % 4 * 4));
      dense[g * 4 + low] = values[g * 2], dense[g * 4 + high] = values[g * 2 + 1];
    }
    send();
  }
  void send() {
    cuda::copy_bytes(on_device.data(), on_cuda(0), words.data(), tinytorch::cpu, on_device.size());
  }
  const uint16_t* places() const { return reinterpret_cast<const uint16_t*>(on_device.data()); }
};

template <class T, int kCount, class Kernel>
void check_product(Kernel* kernel, int64_t rows, size_t shared, unsigned seed) {
  constexpr DType kType = tinytorch::dtype_of<T>;
  const int64_t columns = kCount * 8;
  INFO(rows, " x ", columns);
  Sparse a(kType, rows, seed);
  DeviceArray b = DeviceArray::random(kType, {columns, 64}, seed + 1),
              out = DeviceArray::random(f32, {rows, columns}, seed + 2);
  std::vector<double> want = out.values();
  const std::vector<double> y = b.values();
  for (size_t i = 0; i < want.size(); ++i) {
    const size_t row = i / static_cast<size_t>(columns), column = i % static_cast<size_t>(columns);
    for (size_t k = 0; k < 64; ++k) want[i] += a.dense[row * 64 + k] * y[column * 64 + k];
  }
  CHECK(fault_of(kernel, {dim3(1), dim3(static_cast<unsigned>(rows * 2)), shared},
                 out.view().template as<float>(), a.kept.view().template as<const T>(), a.places(),
                 b.view().template as<const T>()) == "");
  check_close(out.values(), want, f32, 64);
}

}  // namespace

TEST_CASE("products of a sparse matrix by a warp are correct" * needs_devices()) {
  for (unsigned seed = 1; seed < 5; ++seed) {
    check_product<tinytorch::BFloat16, 1>(warp_product<tinytorch::BFloat16>, 16, 0, seed);
    check_product<tinytorch::Half, 1>(warp_product<tinytorch::Half>, 16, 0, seed);
  }
}

TEST_CASE("products of a sparse matrix by a warpgroup are correct" * needs_devices()) {
  using tinytorch::BFloat16, tinytorch::Half;
  check_product<BFloat16, 8>(group_product<BFloat16, 8>, 64, 8192, 1);
  check_product<Half, 16>(group_product<Half, 16>, 64, 16384, 2);
  check_product<BFloat16, 32>(group_product<BFloat16, 32>, 64, 32768, 3);
}

TEST_CASE("metadata whose two places do not ascend are reported" * needs_devices()) {
  using tinytorch::BFloat16;
  for (const unsigned places : {0u, 5u, 1u, 15u}) {
    Sparse a(tinytorch::bf16, 16, 7);
    uint16_t& word = a.words[9 * 4 + 2];  // columns 32 to 47 of row 9
    word = static_cast<uint16_t>((word & 0xff0f) | places << 4);
    a.send();
    DeviceArray b = DeviceArray::random(tinytorch::bf16, {8, 64}, 1), out(f32, {16, 8});
    CHECK(tells(fault_of(warp_product<BFloat16>, {dim3(1), dim3(32)}, out.view().as<float>(),
                         a.kept.view().as<const BFloat16>(), a.places(), b.view().as<const BFloat16>()),
                {"mma.sp", "group 1 of row 9", "which do not ascend"}));
  }
}

#else
TEST_CASE("sparse tensor cores: the test needs the emulator" * doctest::skip()) {}
#endif
