// Batched matrix products on the CPU, and x W^T + b: 2 M N K FLOPs each, on no more than M K + K N + M N
// elements.
//
// Matrices of any layout and dtype are first copied to row-major matrices of the compute type, so that one
// triple loop serves all cases. The copies are cheap beside M N K multiplications.
//
// Task 1.7: multiply_add, matrix_of, multiply_batches, linear. The given parts of this header are in
// modules/01_tensor/frame/tinytorch/backend/cpu/matmul.hpp, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out [M, N] += a [M, K] b [K, N], all row-major without gaps: out[m, n] += sum over k of a[m, k] b[k, n].
// Order the three loops so that the innermost one moves along rows: it then reads consecutive addresses, and
// its steps do not depend on each other.
template <class C>
void multiply_add(C* out, const C* a, const C* b, int64_t M, int64_t N, int64_t K) {
  for (int64_t m = 0; m < M; ++m) {
    for (int64_t k = 0; k < K; ++k) {
      const C factor = a[m * K + k];
      const C* row = b + k * N;
      C* sums = out + m * N;
      for (int64_t n = 0; n < N; ++n) sums[n] += factor * row[n];
    }
  }
}

// Matrix number `batch` of v [..., R, C]: a view of R x C elements. `batches` is the shape of the dimensions
// before the last two, whose strides may be 0; locate() (backend/layout.hpp) finds the place of number
// `batch` in it.
inline View matrix_of(const View& v, const Shape& batches, int64_t batch) {
  const int r = v.rank();
  int64_t index[kMaxRank];
  const int64_t offset = locate(batches, batches_of(v).strides, batch, index);
  return {v.as<char>() + offset * static_cast<int64_t>(size_of(v.dtype)),
          v.dtype,
          {v.shape[r - 2], v.shape[r - 1]},
          {v.strides[r - 2], v.strides[r - 1]}};
}

// out (+)= a b for each matrix of the batch, computed in C. copy(to, from) copies a matrix of any layout and
// dtype to a RowMajor<C>, and back. With `accumulate` the product is added to the old values of out.
template <class C>
void multiply_batches(const View& out, const View& a, const View& b, bool accumulate) {
  const Shape batches = batches_of(out).shape;
  const int64_t M = out.shape[out.rank() - 2], N = out.shape[out.rank() - 1], K = a.shape[a.rank() - 1];
  RowMajor<C> a_rows(M, K), b_rows(K, N);
  for (int64_t batch = 0; batch < batches.numel(); ++batch) {
    const View result = matrix_of(out, batches, batch);
    RowMajor<C> sums(M, N);
    copy(a_rows.view(), matrix_of(a, batches, batch));
    copy(b_rows.view(), matrix_of(b, batches, batch));
    if (accumulate) copy(sums.view(), result);
    multiply_add(sums.data(), a_rows.data(), b_rows.data(), M, N, K);
    copy(result, sums.view());
  }
}

// out [M, N] = x [M, K] weight [N, K]^T + bias [N]. Use the functions that exist: copy() broadcasts, matmul()
// can add to its output, and transposed() is a view. bias.data is null if there is no bias.
TT_API void linear(const View& out, const View& x, const View& weight, const View& bias) {
  if (bias.data) copy(out, bias);
  matmul(out, x, transposed(weight), bias.data != nullptr);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
