// Operators on tensors: tensor with tensor, tensor with number, number with tensor. Comparisons give bool
// tensors.
//
// Operands arrive as TensorArg, which notes the caller's line, so that `a + b` fails with the line it stands
// on.
#pragma once

#include <tinytorch/tensor/functions.hpp>

namespace tinytorch::inline TT_BUILD {

inline Tensor operator-(TensorArg x) { return neg(x.tensor, x.loc); }

inline Tensor operator+(TensorArg a, TensorArg b) { return add(a.tensor, b.tensor, a.loc); }
inline Tensor operator+(TensorArg a, Scalar b) {
  return add(a.tensor, scalar_like(b, a.tensor, a.loc), a.loc);
}
inline Tensor operator+(Scalar a, TensorArg b) {
  return add(scalar_like(a, b.tensor, b.loc), b.tensor, b.loc);
}

inline Tensor operator-(TensorArg a, TensorArg b) { return sub(a.tensor, b.tensor, a.loc); }
inline Tensor operator-(TensorArg a, Scalar b) {
  return sub(a.tensor, scalar_like(b, a.tensor, a.loc), a.loc);
}
inline Tensor operator-(Scalar a, TensorArg b) {
  return sub(scalar_like(a, b.tensor, b.loc), b.tensor, b.loc);
}

inline Tensor operator*(TensorArg a, TensorArg b) { return mul(a.tensor, b.tensor, a.loc); }
inline Tensor operator*(TensorArg a, Scalar b) {
  return mul(a.tensor, scalar_like(b, a.tensor, a.loc), a.loc);
}
inline Tensor operator*(Scalar a, TensorArg b) {
  return mul(scalar_like(a, b.tensor, b.loc), b.tensor, b.loc);
}

inline Tensor operator/(TensorArg a, TensorArg b) { return div(a.tensor, b.tensor, a.loc); }
inline Tensor operator/(TensorArg a, Scalar b) {
  return div(a.tensor, scalar_like(b, a.tensor, a.loc), a.loc);
}
inline Tensor operator/(Scalar a, TensorArg b) {
  return div(scalar_like(a, b.tensor, b.loc), b.tensor, b.loc);
}

inline Tensor operator==(TensorArg a, TensorArg b) { return eq(a.tensor, b.tensor, a.loc); }
inline Tensor operator==(TensorArg a, Scalar b) {
  return eq(a.tensor, scalar_like(b, a.tensor, a.loc), a.loc);
}
inline Tensor operator==(Scalar a, TensorArg b) {
  return eq(scalar_like(a, b.tensor, b.loc), b.tensor, b.loc);
}

inline Tensor operator!=(TensorArg a, TensorArg b) { return ne(a.tensor, b.tensor, a.loc); }
inline Tensor operator!=(TensorArg a, Scalar b) {
  return ne(a.tensor, scalar_like(b, a.tensor, a.loc), a.loc);
}
inline Tensor operator!=(Scalar a, TensorArg b) {
  return ne(scalar_like(a, b.tensor, b.loc), b.tensor, b.loc);
}

inline Tensor operator<(TensorArg a, TensorArg b) { return lt(a.tensor, b.tensor, a.loc); }
inline Tensor operator<(TensorArg a, Scalar b) {
  return lt(a.tensor, scalar_like(b, a.tensor, a.loc), a.loc);
}
inline Tensor operator<(Scalar a, TensorArg b) {
  return lt(scalar_like(a, b.tensor, b.loc), b.tensor, b.loc);
}

inline Tensor operator<=(TensorArg a, TensorArg b) { return le(a.tensor, b.tensor, a.loc); }
inline Tensor operator<=(TensorArg a, Scalar b) {
  return le(a.tensor, scalar_like(b, a.tensor, a.loc), a.loc);
}
inline Tensor operator<=(Scalar a, TensorArg b) {
  return le(scalar_like(a, b.tensor, b.loc), b.tensor, b.loc);
}

inline Tensor operator>(TensorArg a, TensorArg b) { return gt(a.tensor, b.tensor, a.loc); }
inline Tensor operator>(TensorArg a, Scalar b) {
  return gt(a.tensor, scalar_like(b, a.tensor, a.loc), a.loc);
}
inline Tensor operator>(Scalar a, TensorArg b) {
  return gt(scalar_like(a, b.tensor, b.loc), b.tensor, b.loc);
}

inline Tensor operator>=(TensorArg a, TensorArg b) { return ge(a.tensor, b.tensor, a.loc); }
inline Tensor operator>=(TensorArg a, Scalar b) {
  return ge(a.tensor, scalar_like(b, a.tensor, a.loc), a.loc);
}
inline Tensor operator>=(Scalar a, TensorArg b) {
  return ge(scalar_like(a, b.tensor, b.loc), b.tensor, b.loc);
}

}  // namespace tinytorch::inline TT_BUILD
