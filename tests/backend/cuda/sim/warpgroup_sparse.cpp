// Sparse warpgroup products (wgmma.mma_async.sp): four warps multiply a 2:4 sparse matrix by 64, 128 or 256
// rows in swizzled shared memory.
#include <support/device_array.hpp>
#include <support/few.hpp>

#if TINYTORCH_CUDA_SIM
#include <support/sparse_operand.hpp>
#include <tinytorch/backend/cuda/device/warpgroup_sparse.cuh>

using namespace test;

namespace {

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

}  // namespace

TEST_CASE("products of a sparse matrix by a warpgroup are correct" * needs_devices()) {
  using tinytorch::BFloat16, tinytorch::Half;
  if (!test::left_out(3)) check_product<BFloat16, 8>(group_product<BFloat16, 8>, 64, 8192, 1);
  if (!test::left_out(3)) check_product<Half, 16>(group_product<Half, 16>, 64, 16384, 2);
  if (!test::left_out(3)) check_product<BFloat16, 32>(group_product<BFloat16, 32>, 64, 32768, 3);
}

#else
TEST_CASE("sparse warpgroups: the test needs the emulator" * doctest::skip()) {}
#endif
