// Operators on tensors: tensor with tensor, tensor with number, number with tensor. Comparisons return bool
// tensors.
//
// Operands are passed as TensorArg, which records the caller's line, so that an error in `a + b` names it.
#pragma once

#include <tinytorch/tensor/functions.hpp>
#include <tinytorch/tensor/indexing.hpp>
#include <tinytorch/tensor/overloads.hpp>

namespace tinytorch::inline TT_BUILD {

TT_API Tensor operator-(TensorArg x);
// Elementwise: unlike && and || of bool, both sides are computed. The first operand is a Tensor, not a
// TensorArg: in a condition a tensor converts to bool as well as to TensorArg, so the call would be
// ambiguous.
TT_API Tensor operator!(const Tensor& x);
TT_API Tensor operator&&(const Tensor& a, TensorArg b);
TT_API Tensor operator||(const Tensor& a, TensorArg b);
// These combine masks elementwise, too, by Python's operators: m & (x < 5). Both operands must be bool
// (TT-DTYPE-06).
TT_API Tensor operator~(TensorArg x);
TT_API Tensor operator&(const Tensor& a, TensorArg b);
TT_API Tensor operator|(const Tensor& a, TensorArg b);
TT_API Tensor operator^(const Tensor& a, TensorArg b);
TT_API Tensor operator&=(TensorArg y, TensorArg b);
TT_API Tensor operator|=(TensorArg y, TensorArg b);
TT_API Tensor operator^=(TensorArg y, TensorArg b);
// The remainder of a division, with the sign of b as in Python (tensor/ops/division.hpp).
TT_API Tensor operator%(TensorArg a, TensorArg b);
TT_API Tensor operator%(TensorArg a, Scalar b);
TT_API Tensor operator%=(TensorArg y, TensorArg b);
TT_API Tensor operator%=(TensorArg y, Scalar b);
TT_API Tensor operator+(TensorArg a, TensorArg b);
TT_API Tensor operator+(TensorArg a, Scalar b);
TT_API Tensor operator+(Scalar a, TensorArg b);
TT_API Tensor operator-(TensorArg a, TensorArg b);
TT_API Tensor operator-(TensorArg a, Scalar b);
TT_API Tensor operator-(Scalar a, TensorArg b);
TT_API Tensor operator*(TensorArg a, TensorArg b);
TT_API Tensor operator*(TensorArg a, Scalar b);
TT_API Tensor operator*(Scalar a, TensorArg b);
TT_API Tensor operator/(TensorArg a, TensorArg b);
TT_API Tensor operator/(TensorArg a, Scalar b);
TT_API Tensor operator/(Scalar a, TensorArg b);
TT_API Tensor operator==(TensorArg a, TensorArg b);
TT_API Tensor operator==(TensorArg a, Scalar b);
TT_API Tensor operator==(Scalar a, TensorArg b);
TT_API Tensor operator!=(TensorArg a, TensorArg b);
TT_API Tensor operator!=(TensorArg a, Scalar b);
TT_API Tensor operator!=(Scalar a, TensorArg b);
TT_API Tensor operator<(TensorArg a, TensorArg b);
TT_API Tensor operator<(TensorArg a, Scalar b);
TT_API Tensor operator<(Scalar a, TensorArg b);
TT_API Tensor operator<=(TensorArg a, TensorArg b);
TT_API Tensor operator<=(TensorArg a, Scalar b);
TT_API Tensor operator<=(Scalar a, TensorArg b);
TT_API Tensor operator>(TensorArg a, TensorArg b);
TT_API Tensor operator>(TensorArg a, Scalar b);
TT_API Tensor operator>(Scalar a, TensorArg b);
TT_API Tensor operator>=(TensorArg a, TensorArg b);
TT_API Tensor operator>=(TensorArg a, Scalar b);
TT_API Tensor operator>=(Scalar a, TensorArg b);

}  // namespace tinytorch::inline TT_BUILD
