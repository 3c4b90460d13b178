// Functions that are composed of other operations, which have the kernels and the derivatives.
#pragma once

#include <string>
#include <tinytorch/tensor/functions.hpp>

namespace tinytorch::inline TT_BUILD {

// True (bool) where an element is NaN, infinite, or neither. Integers are finite.
TT_API Tensor isnan(const Tensor& x, TT_LOC);
TT_API Tensor isinf(const Tensor& x, TT_LOC);
TT_API Tensor isfinite(const Tensor& x, TT_LOC);
// a [M], b [N] -> [M, N]
TT_API Tensor outer(const Tensor& a, const Tensor& b, TT_LOC);
// index i64 [...], 0 <= index < classes -> i64 [..., classes]. Without `classes`, one more than the largest
// index.
TT_API Tensor one_hot(const Tensor& index, int64_t classes = -1, TT_LOC);
// x repeated counts[d] times along dimension d, as a copy. New dimensions are added in front.
TT_API Tensor repeat(const Tensor& x, const Dims& counts, TT_LOC);
// x with each dims[i] rotated by shifts[i] towards higher positions; without dims, all elements in row-major
// order.
TT_API Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims = {}, TT_LOC);
// Einstein's sum: einsum("ij,kj->ik", {a, b}) multiplies elements with equal letters and sums over the
// letters that the result does not have. Without "->", the result has the letters that occur once, in
// alphabetical order. Each pair of operands is one matmul, from left to right. A letter twice in one operand
// and "..." are refused (TT-SHAPE-13).
TT_API Tensor einsum(const std::string& equation, const Tensors& operands, TT_LOC);

}  // namespace tinytorch::inline TT_BUILD
