// Matrix product of any strides and dtypes, from shared memory: out [..., M, N] (+)= a b + bias.
//
// A block of 16 x 16 threads computes a tile of 16 x 16 elements of out, one element per thread. It goes
// along k in steps of 16: the block loads a tile of a and a tile of b into shared memory, where each element
// is read 16 times. 2 M N K FLOPs, and only 2 M N K / 16 reads of memory instead of 2 M N K. The compute type
// is float for 16-bit floats and int for narrow integers. Each sum runs over k in order, so results are
// deterministic.
//
// Task 1.11: gemm_kernel, gemm. The given parts of this header are in
// modules/01_tensor/frame/tinytorch/backend/cuda/kernels/gemm.cuh, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Thread (x, y) of a block computes out[m, n], m = 16 blockIdx.x + y, n = 16 blockIdx.y + x, of the batches
// number blockIdx.z, blockIdx.z + gridDim.z, ... For each slice of 16 along k:
//   1. each thread loads one element of a's tile and one of b's, or 0 outside the matrix, so that sizes
//      need not be multiples of 16; do not call matrix_element for an element that does not exist;
//   2. __syncthreads(): both tiles are complete;
//   3. each thread adds the 16 products of its row of a and its column of b;
//   4. __syncthreads(): no thread reads the tiles any more, so they may be overwritten.
// Threads whose element is outside of out load and wait like the others; they only do not store
// (put_product).
template <class C>
static __global__ void __launch_bounds__(kGemmTile* kGemmTile)
    gemm_kernel(const __grid_constant__ Product p) {
  __shared__ C a_tile[kGemmTile][kGemmTile], b_tile[kGemmTile][kGemmTile];  // [m][k], [k][n]
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int64_t m = static_cast<int64_t>(blockIdx.x) * kGemmTile + y;
  const int64_t n = static_cast<int64_t>(blockIdx.y) * kGemmTile + x;
  for (int64_t at = blockIdx.z; at < p.batch.count; at += gridDim.z) {
    C sum = 0;
    for (int64_t k0 = 0; k0 < p.K; k0 += kGemmTile) {
      a_tile[y][x] = m < p.M && k0 + x < p.K ? matrix_element<C>(p, 1, at, m, k0 + x) : C(0);
      b_tile[y][x] = k0 + y < p.K && n < p.N ? matrix_element<C>(p, 2, at, k0 + y, n) : C(0);
      __syncthreads();
      for (int k = 0; k < kGemmTile; ++k) sum += a_tile[y][k] * b_tile[k][x];
      __syncthreads();
    }
    if (m < p.M && n < p.N) put_product(p, at, m, n, sum);
  }
}

// out (+)= a b + bias (launch.hpp says more). An empty out needs no launch. Otherwise product_of(...) is the
// kernel's argument p. The grid has a block for each tile of out, partial tiles included: rows of tiles in x,
// columns of tiles in y, batches in z (at most 65535, CUDA's limit; the kernel loops over more).
// dispatch_compute(a.dtype, f) calls f with a null pointer of the compute type C; then launch(gemm_kernel<C>,
// {grid, block}, p), where both are dim3.
void gemm(const View& out, const View& a, const View& b, const View& bias, bool accumulate) {
  if (out.numel() == 0) return;
  const Product p = product_of(out, a, b, bias, accumulate);
  const dim3 grid(static_cast<unsigned>(ceil_div(p.M, kGemmTile)),
                  static_cast<unsigned>(ceil_div(p.N, kGemmTile)),
                  static_cast<unsigned>(std::min<int64_t>(p.batch.count, 65535)));
  dispatch_compute(a.dtype, [&]<class C>(C*) {
    launch(gemm_kernel<C>, {grid, dim3(kGemmTile, kGemmTile)}, p);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
