// Sparse tensor cores: a warp (mma.sp) multiplies a 2:4 sparse matrix, and metadata that do not ascend are a
// fault.
#include <support/device_array.hpp>

#if TINYTORCH_CUDA_SIM
#include <support/sparse_operand.hpp>

using namespace test;

namespace {

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
}  // namespace

TEST_CASE("products of a sparse matrix by a warp are correct" * needs_devices()) {
  for (unsigned seed = 1; seed < 5; ++seed) {
    check_product<tinytorch::BFloat16, 1>(warp_product<tinytorch::BFloat16>, 16, 0, seed);
    check_product<tinytorch::Half, 1>(warp_product<tinytorch::Half>, 16, 0, seed);
  }
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
