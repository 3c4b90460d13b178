// Cholesky factors in double, for GPTQ: A = L L^T with L lower triangular, and the triangular inverse.
//
// The factor is computed by blocks of 64 columns: a small factor on the diagonal, the rows below it, and one
// matrix product for the rest, which has almost all of the K^3 / 3 operations.
// Source: Golub and Van Loan, "Matrix computations", section 4.2.
#pragma once

#include <tinytorch/autograd/grad_mode.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/scalar_math.hpp>
#include <tinytorch/tensor/ops.hpp>
#include <tinytorch/tensor/rules.hpp>

namespace tinytorch::inline TT_BUILD {

// The factor of columns [first, last) of a row-major matrix, given that earlier columns were subtracted.
// Returns false if a pivot is not above 0.
inline bool factor_columns(double* a, int64_t K, int64_t first, int64_t last) {
  for (int64_t j = first; j < last; ++j) {
    for (int64_t i = j; i < K; ++i) {
      double rest = a[i * K + j];
      for (int64_t k = first; k < j; ++k) rest = math::multiply_add(-a[i * K + k], a[j * K + k], rest);
      if (i == j && !(rest > 0)) return false;
      a[i * K + j] = i == j ? std::sqrt(rest) : rest / a[j * K + j];
    }
  }
  return true;
}

// a [K, K] f64 on the CPU, symmetric -> L f64 [K, K]. Throws TT-CALIB-04 unless a is positive definite.
inline Tensor cholesky(const Tensor& a, TT_LOC) {
  const NoGrad no_grad;
  constexpr int64_t kBlock = 64;
  require_defined("cholesky", loc, a);
  const int64_t K = a.size(0);
  if (a.rank() != 2 || a.size(1) != K || a.dtype() != DType::f64 || !a.device().is_cpu())
    fail("TT-SHAPE-02", "cholesky: needs a square matrix of f64 on the CPU, got " + a.describe(), loc);
  Tensor L = a.contiguous().clone();
  for (int64_t first = 0; first < K; first += kBlock) {
    const int64_t last = std::min(first + kBlock, K);
    if (!factor_columns(L.data<double>(), K, first, last)) {
      fail("TT-CALIB-04",
           "cholesky: the matrix is not positive definite\n  hint: raise the damping, or calibrate with more "
           "rows",
           loc);
    }
    if (last == K) break;
    const Tensor below = L.slice(0, last).slice(1, first, last);
    Tensor rest = L.slice(0, last).slice(1, last);
    rest.copy_(rest - matmul(below, below.t()));
  }
  return tril(L);
}

// L [K, K] f64, lower triangular with a diagonal other than 0 -> its inverse, which is lower triangular.
inline Tensor inverse_of_lower(const Tensor& lower) {
  const int64_t K = lower.size(0);
  const Tensor inverse = zeros(lower.shape(), DType::f64, cpu);
  const double* const L = lower.data<double>();
  double* const X = inverse.data<double>();
  // A block of columns of X: row i = (row i of the identity - sum over k < i of L_ik row k) / L_ii.
  parallel_for(K, 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < K; ++i) {
      double* const row = X + i * K;
      if (i < end) row[i] = 1;
      for (int64_t k = begin; k < i; ++k) {
        const double factor = L[i * K + k];
        for (int64_t j = begin; j < std::min(end, k + 1); ++j)
          row[j] = math::multiply_add(-factor, X[k * K + j], row[j]);
      }
      for (int64_t j = begin; j < std::min(end, i + 1); ++j) row[j] /= L[i * K + i];
    }
  });
  return inverse;
}

}  // namespace tinytorch::inline TT_BUILD
