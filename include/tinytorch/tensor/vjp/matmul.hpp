// Derivatives of the matrix product: for Y = A B, dA = dY B^T and dB = A^T dY.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_TENSOR_BODIES

namespace tinytorch::inline TT_BUILD::vjp {

inline Tensor matmul_left(const Tensor& g, const Tensor& b) { return tinytorch::matmul(g, b.t()); }
inline Tensor matmul_right(const Tensor& g, const Tensor& a) { return tinytorch::matmul(a.t(), g); }

// y = x W^T + b, x [M, K], W [N, K]: dx = g W, dW = g^T x, db = column sums of g.
inline Tensors linear(const Tensor& g, const Tensor& x, const Tensor& weight,
                      const std::vector<bool>& needs) {
  return {needs[0] ? tinytorch::matmul(g, weight) : Tensor(),
          needs[1] ? tinytorch::matmul(g.t(), x) : Tensor(), needs[2] ? tinytorch::sum(g, {0}) : Tensor()};
}

}  // namespace tinytorch::inline TT_BUILD::vjp

#include <tinytorch/tensor/ops/matmul.hpp>
#include <tinytorch/tensor/ops/reduce.hpp>
#include <tinytorch/tensor/ops/shape.hpp>
#endif
