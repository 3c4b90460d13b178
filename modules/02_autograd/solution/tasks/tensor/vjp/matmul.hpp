// Derivatives of the matrix product.
//
// The product Y = A B has the elements y[m][n] = sum over k of a[m][k] b[k][n]. So a[m][k] is used in each
// y[m][n], with weight b[k][n], and its gradient is the sum over n of g[m][n] b[k][n], which is a matrix
// product again. The shapes are a check:
//
//   A [M, K]   B [K, N]   g [M, N]      dA [M, K] from g [M, N] and B [K, N];  dB [K, N] from A [M, K] and g
//
// The same formulas serve batches [..., M, K] x [..., K, N]: matmul and t() work on the last two dimensions,
// leading ones broadcast, and the op sums a gradient to its operand's shape (sum_to). A vector is passed to
// these functions as a matrix of one row or column.
//
// Task 2.3: matmul_left, matmul_right, linear. The given parts of this header are in
// modules/02_autograd/frame/tinytorch/tensor/vjp/matmul.hpp, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::vjp {

// dA of Y = A B: g [..., M, N], b [..., K, N] -> [..., M, K]. The product of two tensors is
// tinytorch::matmul(p, q).
inline Tensor matmul_left(const Tensor& g, const Tensor& b) { return tinytorch::matmul(g, b.t()); }

// dB of Y = A B: g [..., M, N], a [..., M, K] -> [..., K, N]
inline Tensor matmul_right(const Tensor& g, const Tensor& a) { return tinytorch::matmul(a.t(), g); }

// y = x W^T + bias, the layer that every network is made of: g [M, N], x [M, K], weight [N, K], bias [N].
// Returns {dx [M, K], dweight [N, K], dbias [N]}; bias was added to each row. `needs` says which of the three
// are needed; the others may stay undefined (the first layer of a network needs no dx, one of the
// three products of its forward and backward pass).
inline Tensors linear(const Tensor& g, const Tensor& x, const Tensor& weight,
                      const std::vector<bool>& needs) {
  Tensors grads(3);
  if (needs[0]) grads[0] = tinytorch::matmul(g, weight);
  if (needs[1]) grads[1] = tinytorch::matmul(g.t(), x);
  if (needs[2]) grads[2] = tinytorch::sum(g, {0});
  return grads;
}

}  // namespace tinytorch::inline TT_BUILD::vjp
