// Matrix product of any strides and dtypes, from shared memory: out [..., M, N] (+)= a b + bias.
//
// The frame of a course header: it has the given parts, and includes the functions of task 1.11.
#pragma once

#include <tinytorch/backend/cuda/device/walk.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

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

}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#include <tasks/backend/cuda/kernels/gemm.cuh>
