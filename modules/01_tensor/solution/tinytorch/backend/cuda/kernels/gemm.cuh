// Matrix product of any strides and dtypes, from shared memory: out [..., M, N] (+)= a b + bias.
//
// A block of 16 x 16 threads makes a tile of 16 x 16 of out, each thread one element. It walks along k in
// steps of 16: the block brings a tile of a and a tile of b into shared memory, where each of their elements
// is read 16 times. 2 M N K FLOPs, and instead of 2 M N K reads of memory only 2 M N K / 16. Float for 16-bit
// floats, int for narrow integers; each sum runs over k in order, so results are deterministic.
#pragma once

#include <tinytorch/backend/cuda/device/walk.cuh>
#include <tinytorch/backend/cuda/kernels/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kGemmTile = 16;

// A matrix product as a kernel sees it. Matrices: 0 is out, 1 is a, 2 is b.
struct Product {
  Operands<3> batch;       // walks over the batches, from a matrix's first element to the next one's
  int64_t M, N, K;         // out [M, N], a [M, K], b [K, N]
  int64_t row[3], col[3];  // strides within a matrix
  const void* bias;        // [N], of out's dtype, or null
  int64_t bias_step;
  bool accumulate;
};

inline Product product_of(const View& out, const View& a, const View& b, const View& bias, bool accumulate) {
  const bool widens = out.dtype == (a.dtype == DType::boolean ? DType::i32 : DType::f32) &&
                      (is_16_bit(a.dtype) || a.dtype == DType::boolean);
  if (!widens && (a.dtype != out.dtype || a.dtype == DType::boolean)) {
    fail("TT-DTYPE-02", "gemm: operands of different dtypes");
  }
  Product p;
  p.batch = Plan<3>({batches_of(out), batches_of(a), batches_of(b)}, 1).operands;
  const int r = out.rank();
  p.M = out.shape[r - 2];
  p.N = out.shape[r - 1];
  p.K = a.shape[r - 1];
  const View* const matrices[3] = {&out, &a, &b};
  for (int k = 0; k < 3; ++k) {
    p.row[k] = matrices[k]->strides[r - 2];
    p.col[k] = matrices[k]->strides[r - 1];
  }
  p.bias = bias.data;
  p.bias_step = bias.data ? bias.strides[0] : 0;
  p.accumulate = accumulate;
  return p;
}

// Element [r, c] of the matrix `which` (0, 1 or 2) of batch number `at`, as a C.
template <class C>
__device__ __forceinline__ C matrix_element(const Product& p, int which, int64_t at, int64_t r, int64_t c) {
  const int64_t element = p.batch.offset(which, at) + r * p.row[which] + c * p.col[which];
  C value{};
  for_stored<C>(p.batch.operand[which].dtype, [&]<class T>(T*) {
    value = to<C>(static_cast<const T*>(p.batch.operand[which].data)[element]);
  });
  return value;
}

// out[m, n] of batch number `at` is `sum` + bias[n], and + what it was where p.accumulate.
template <class C>
__device__ __forceinline__ void put_product(const Product& p, int64_t at, int64_t m, int64_t n, C sum) {
  const int64_t element = p.batch.offset(0, at) + m * p.row[0] + n * p.col[0];
  for_stored<C>(p.batch.operand[0].dtype, [&]<class T>(T*) {
    T* out = static_cast<T*>(p.batch.operand[0].data) + element;
    if (p.bias) sum += to<C>(static_cast<const T*>(p.bias)[n * p.bias_step]);
    if (p.accumulate) sum += to<C>(*out);
    *out = to<T>(sum);
  });
}

// Thread (x, y) of a block makes out[m, n], m = 16 blockIdx.x + y, n = 16 blockIdx.y + x, in the batches of
// number blockIdx.z, blockIdx.z + gridDim.z, ... For each slice of 16 along k:
//   every thread brings one element of a's tile and one of b's (0 where the matrix has ended, so that sizes
//   need not be multiples of 16: matrix_element must not be asked for what is outside);
//   all wait until the tiles are whole, __syncthreads();
//   every thread adds the 16 products of its row of a and its column of b;
//   all wait until nobody reads the tiles any more, before they are overwritten.
// Threads outside of out bring and wait like the others, and only store nothing (put_product).
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

// out (+)= a b + bias (launch.hpp says more). Nothing to do for an empty out, else product_of(...) is what
// the kernel reads. As many blocks as out has tiles, partial ones too: rows of tiles in x, columns of tiles
// in y, batches in z (65535 at most, CUDA's limit; the kernel goes round). dispatch_compute(a.dtype, f) calls
// f with a null pointer of the compute type C; launch(gemm_kernel<C>, {grid, block}, p), with dim3's.
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
