// Operators on tensors: tensor with tensor, tensor with number, number with tensor. Comparisons give bool
// tensors.
//
// Operands arrive as TensorArg, which notes the caller's line, so that `a + b` fails with the line it stands
// on.
#pragma once

#include <tinytorch/tensor/functions.hpp>

namespace tinytorch::inline TT_BUILD {

TT_API Tensor operator-(TensorArg x);
// Element by element, unlike those of bools: both sides are computed. The first operand is no TensorArg,
// because a tensor in a condition is a bool as readily as that, and the compiler could not choose.
TT_API Tensor operator!(const Tensor& x);
TT_API Tensor operator&&(const Tensor& a, TensorArg b);
TT_API Tensor operator||(const Tensor& a, TensorArg b);
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
