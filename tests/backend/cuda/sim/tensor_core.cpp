// Tensor cores: a warp multiplies two small matrices, loaded directly and transposed; and the faults of
// ldmatrix.
#include <support/device_array.hpp>

#if TINYTORCH_CUDA_SIM
#include <support/faults.hpp>
#include <tinytorch/backend/cuda/device/tensor_core.cuh>

namespace cuda = tinytorch::backend::cuda;
using namespace test;

namespace {

constexpr int kLine = 32;  // row stride in shared memory, in elements

// out [16, 8] = a [16, 16] b [16, 8]. a is row-major and b is column-major, or the reverse if `turned`.
template <class T>
__global__ void product(float* out, const T* a, const T* b, bool turned) {
  T* const left = cuda::dynamic_shared<T>();
  T* const right = left + 16 * kLine;
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 16 * 16; i += 32) left[i / 16 * kLine + i % 16] = a[i];
  const int width = turned ? 8 : 16;
  for (int i = lane; i < 16 * 8; i += 32) right[i / width * kLine + i % width] = b[i];
  __syncwarp();
  // 8 x 8 matrices of a: top left, bottom left, top right, bottom right. Matrices of b: top, bottom, and both
  // again.
  const int row = lane % 8, number = lane / 8;
  unsigned x[4], y[4];
  if (turned) {
    cuda::load_transposed(x, cuda::shared_address(left + (row + number / 2 * 8) * kLine + number % 2 * 8));
    cuda::load_transposed(y, cuda::shared_address(right + (row + number % 2 * 8) * kLine));
  } else {
    cuda::load_matrices(x, cuda::shared_address(left + (row + number % 2 * 8) * kLine + number / 2 * 8));
    cuda::load_matrices(y, cuda::shared_address(right + row * kLine + number % 2 * 8));
  }
  float sum[4] = {};
  cuda::multiply_add<T>(sum, x, y[0], y[1]);
  for (int k = 0; k < 4; ++k) out[(lane / 4 + k / 2 * 8) * 8 + lane % 4 * 2 + k % 2] = sum[k];
}

// out [16, 8] = start + a [16, 32] b [32, 8] of signed bytes. a is row-major and b is column-major.
__global__ void product_of_bytes(int* out, const signed char* a, const signed char* b, int start) {
  signed char* const left = cuda::dynamic_shared<signed char>();
  signed char* const right = left + 16 * 32;
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 16 * 32; i += 32) left[i] = a[i];
  for (int i = lane; i < 8 * 32; i += 32) right[i] = b[i];
  __syncwarp();
  const int row = lane % 8, number = lane / 8;
  unsigned x[4], y[4];
  cuda::load_matrices(x, cuda::shared_address(left + (row + number % 2 * 8) * 32 + number / 2 * 16));
  cuda::load_matrices(y, cuda::shared_address(right + row * 32 + number % 2 * 16));
  int sum[4] = {start, start, start, start};
  cuda::multiply_add_bytes(sum, x, y[0], y[1]);
  for (int k = 0; k < 4; ++k) out[(lane / 4 + k / 2 * 8) * 8 + lane % 4 * 2 + k % 2] = sum[k];
}

// A matrix [8, 8] of the numbers 8 row + column, transposed by movmatrix.
__global__ void transpose_numbers(int32_t* out) {
  const unsigned lane = threadIdx.x, row = lane / 4, column = lane % 4 * 2, first = row * 8 + column,
                 word = cuda::transpose_matrix(first | (first + 1) << 16);
  out[first] = static_cast<int32_t>(word & 0xffffu), out[first + 1] = static_cast<int32_t>(word >> 16);
}

// ldmatrix by only some lanes of a warp, or with misaligned rows.
__global__ void load_alone(unsigned* out, int lanes, int offset) {
  unsigned char* const shared = cuda::dynamic_shared<unsigned char>();
  if (static_cast<int>(threadIdx.x) >= lanes) return;
  reinterpret_cast<uint4*>(shared)[threadIdx.x] = {};
  __syncwarp(0xffffffffu >> (32 - lanes));
  unsigned x[4];
  cuda::load_matrices(x, cuda::shared_address(shared + threadIdx.x * 16) + static_cast<unsigned>(offset));
  out[threadIdx.x] = x[0];
}

std::vector<double> transposed(const std::vector<double>& x, size_t rows) {
  std::vector<double> out;
  for (size_t c = 0; c < x.size() / rows; ++c) {
    for (size_t r = 0; r < rows; ++r) out.push_back(x[r * (x.size() / rows) + c]);
  }
  return out;
}

template <class T>
void check_product(uint64_t seed) {
  constexpr DType kType = tinytorch::dtype_of<T>;
  const std::vector<double> x = DeviceArray::random(kType, {16, 16}, seed).values();
  const std::vector<double> y = DeviceArray::random(kType, {16, 8}, seed + 1).values();
  std::vector<double> want(16 * 8);
  for (size_t i = 0; i < want.size(); ++i) {
    for (size_t k = 0; k < 16; ++k) want[i] += x[i / 8 * 16 + k] * y[k * 8 + i % 8];
  }
  for (const bool turned : {false, true}) {
    INFO("turned ", turned);
    DeviceArray left = DeviceArray::from(kType, {16, 16}, turned ? transposed(x, 16) : x);
    DeviceArray right = DeviceArray::from(kType, {128}, turned ? y : transposed(y, 16));
    DeviceArray out(f32, {16, 8});
    CHECK(fault_of(product<T>, {dim3(1), dim3(32), 24 * kLine * sizeof(T) * 2},
                   out.view().template as<float>(), left.view().template as<const T>(),
                   right.view().template as<const T>(), turned) == "");
    check_close(out.values(), want, f32, 16);
  }
}

}  // namespace

TEST_CASE("a product of 16-bit matrices, loaded directly and transposed, is correct") {
  check_product<tinytorch::BFloat16>(1);
  check_product<tinytorch::Half>(3);
}

TEST_CASE("a product of bytes is exact, also of -128, and its sums wrap") {
  for (const bool extreme : {false, true}) {
    for (const int start : {0, -5, 2147483647}) {
      const auto operand = [&](const Shape& shape, uint64_t seed) {
        std::vector<double> v = DeviceArray::random(tinytorch::i32, shape, seed, -128, 128).values();
        if (extreme) v.assign(v.size(), -128);
        return v;
      };
      const std::vector<double> x = operand({16, 32}, 5), y = operand({8, 32}, 6);
      DeviceArray left = DeviceArray::from(tinytorch::i8, {16, 32}, x),
                  right = DeviceArray::from(tinytorch::i8, {8, 32}, y), out(tinytorch::i32, {16, 8});
      CHECK(fault_of(product_of_bytes, {dim3(1), dim3(32), 24 * 32}, out.view().as<int>(),
                     left.view().as<const signed char>(), right.view().as<const signed char>(), start) == "");
      std::vector<double> want;
      for (size_t i = 0; i < 16; ++i) {
        for (size_t j = 0; j < 8; ++j) {
          double sum = start;
          for (size_t k = 0; k < 32; ++k) sum += x[i * 32 + k] * y[j * 32 + k];
          want.push_back(static_cast<int32_t>(static_cast<int64_t>(sum)));
        }
      }
      CHECK(out.values() == want);
    }
  }
}

TEST_CASE("movmatrix transposes a matrix of 16-bit elements") {
  DeviceArray out(i32, {8, 8});
  CHECK(fault_of(transpose_numbers, {dim3(1), dim3(32)}, out.view().as<int32_t>()) == "");
  const std::vector<double> got = out.values();
  for (size_t i = 0; i < 64; ++i) CHECK(got[i] == static_cast<double>(i % 8 * 8 + i / 8));
}

TEST_CASE("missing lanes, misaligned rows and rows out of bounds are reported") {
  const DeviceBytes bytes(32 * sizeof(unsigned));
  auto* const out = reinterpret_cast<unsigned*>(bytes.data());
  const cuda::LaunchConfig warp{dim3(1), dim3(32), 1024};
  CHECK(fault_of(load_alone, warp, out, 32, 0) == "");
  CHECK(tells(fault_of(load_alone, warp, out, 20, 0), {"wait for lanes of their warp at "}));
  CHECK(tells(fault_of(load_alone, warp, out, 32, 4), {"misaligned: a read of 16 bytes"}));
  CHECK(tells(fault_of(load_alone, warp, out, 32, 1024), {"out of bounds of the 1024 bytes"}));
}

#else
TEST_CASE("tensor cores: the test needs the emulator" * doctest::skip()) {}
#endif
