// Definitions of TensorMethods, each of which calls the function of the same name, and of the comparisons
// with numbers that tensor/overloads.hpp declares.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/tensor/ops/inplace.hpp>
#include <tinytorch/tensor/rules.hpp>

namespace tinytorch::inline TT_BUILD {

// clang-format off
TT_API Tensor eq(const Tensor& a, Scalar b, Loc loc) { return compare(backend::BinaryFn::eq, {a, loc}, b); }
TT_API Tensor ne(const Tensor& a, Scalar b, Loc loc) { return compare(backend::BinaryFn::ne, {a, loc}, b); }
TT_API Tensor lt(const Tensor& a, Scalar b, Loc loc) { return compare(backend::BinaryFn::lt, {a, loc}, b); }
TT_API Tensor le(const Tensor& a, Scalar b, Loc loc) { return compare(backend::BinaryFn::le, {a, loc}, b); }
TT_API Tensor gt(const Tensor& a, Scalar b, Loc loc) { return compare(backend::BinaryFn::gt, {a, loc}, b); }
TT_API Tensor ge(const Tensor& a, Scalar b, Loc loc) { return compare(backend::BinaryFn::ge, {a, loc}, b); }

TT_API int TensorMethods::dim(Loc loc) const { return self().rank(loc); }
TT_API Tensor TensorMethods::abs(Loc loc) const { return tinytorch::abs(self(), loc); }
TT_API Tensor TensorMethods::exp(Loc loc) const { return tinytorch::exp(self(), loc); }
TT_API Tensor TensorMethods::log(Loc loc) const { return tinytorch::log(self(), loc); }
TT_API Tensor TensorMethods::sqrt(Loc loc) const { return tinytorch::sqrt(self(), loc); }
TT_API Tensor TensorMethods::square(Loc loc) const { return tinytorch::square(self(), loc); }
TT_API Tensor TensorMethods::tanh(Loc loc) const { return tinytorch::tanh(self(), loc); }
TT_API Tensor TensorMethods::sigmoid(Loc loc) const { return tinytorch::sigmoid(self(), loc); }
TT_API Tensor TensorMethods::relu(Loc loc) const { return tinytorch::relu(self(), loc); }
TT_API Tensor TensorMethods::pow(Scalar exponent, Loc loc) const { return tinytorch::pow(self(), exponent, loc); }
TT_API Tensor TensorMethods::clamp(Scalar low, Scalar high, Loc loc) const { return tinytorch::clamp(self(), low, high, loc); }
TT_API Tensor TensorMethods::max(const Dims& dims, bool keepdim, Loc loc) const { return tinytorch::max(self(), dims, keepdim, loc); }
TT_API Tensor TensorMethods::min(const Dims& dims, bool keepdim, Loc loc) const { return tinytorch::min(self(), dims, keepdim, loc); }
TT_API Tensor TensorMethods::var(const Dims& dims, int64_t correction, bool keepdim, Loc loc) const { return tinytorch::var(self(), dims, correction, keepdim, loc); }
TT_API Tensor TensorMethods::std(const Dims& dims, int64_t correction, bool keepdim, Loc loc) const { return tinytorch::stddev(self(), dims, correction, keepdim, loc); }
TT_API Tensor TensorMethods::any(const Dims& dims, bool keepdim, Loc loc) const { return tinytorch::any(self(), dims, keepdim, loc); }
TT_API Tensor TensorMethods::all(const Dims& dims, bool keepdim, Loc loc) const { return tinytorch::all(self(), dims, keepdim, loc); }
TT_API Tensor TensorMethods::argmax(int dim, bool keepdim, Loc loc) const { return tinytorch::argmax(self(), dim, keepdim, loc); }
TT_API Tensor TensorMethods::argmin(int dim, bool keepdim, Loc loc) const { return tinytorch::argmin(self(), dim, keepdim, loc); }
TT_API Tensor TensorMethods::argmax(Loc loc) const { return tinytorch::argmax(self(), loc); }
TT_API Tensor TensorMethods::argmin(Loc loc) const { return tinytorch::argmin(self(), loc); }
TT_API Tensor TensorMethods::softmax(int dim, Loc loc) const { return tinytorch::softmax(self(), dim, loc); }
TT_API Tensor TensorMethods::matmul(const Tensor& b, Loc loc) const { return tinytorch::matmul(self(), b, loc); }
TT_API Tensor TensorMethods::squeeze(int dim, Loc loc) const { return tinytorch::squeeze(self(), dim, loc); }
TT_API Tensor TensorMethods::squeeze(Loc loc) const { return tinytorch::squeeze(self(), loc); }

TT_API void TensorMethods::masked_fill_(const Tensor& mask, Scalar value, Loc loc) const { write_elements("masked_fill_", self(), masked_fill(self(), mask, value, loc), loc); }
TT_API void TensorMethods::clamp_(Scalar low, Scalar high, Loc loc) const { write_elements("clamp_", self(), tinytorch::clamp(self(), low, high, loc), loc); }
TT_API void TensorMethods::add_(Scalar value, Loc loc) const { TensorArg(self(), loc) += value; }
TT_API void TensorMethods::sub_(const Tensor& other, Loc loc) const { TensorArg(self(), loc) -= TensorArg(other, loc); }
TT_API void TensorMethods::div_(const Tensor& divisor, Loc loc) const { TensorArg(self(), loc) /= TensorArg(divisor, loc); }
TT_API void TensorMethods::div_(Scalar divisor, Loc loc) const { TensorArg(self(), loc) /= divisor; }
// clang-format on

TT_API Tensor TensorMethods::view(const Shape& shape, Loc loc) const {
  const Tensor y = tinytorch::reshape(self(), shape, loc);
  if (self().numel() == 0 || y.storage() == self().storage()) return y;
  fail("TT-SHAPE-05",
       "view: the elements of " + self().describe() + " do not lie in memory as " + shape.str() +
           " needs\n  hint: reshape() copies where a view is not possible",
       loc);
}
TT_API Tensor TensorMethods::T(Loc loc) const {
  Dims order;
  for (int d = self().rank(loc) - 1; d >= 0; --d) order.push_back(d);
  return tinytorch::permute(self(), order, loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
