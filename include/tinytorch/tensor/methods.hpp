// TensorMethods: the members of Tensor that only forward to a free function, in PyTorch's spelling.
//
//   x.exp().sum(1)     x.view(2, -1)     x.max()     x.softmax(-1)     x.std()
//
// They are in a base class so that tensor.hpp shows what a tensor is, and this file what can be said. Each
// has the rules of the function of the same name in tensor/functions.hpp; the definitions are in
// tensor/ops/members.hpp. In-place functions end in an underscore.
#pragma once

#include <concepts>
#include <tinytorch/core/shape.hpp>
#include <tinytorch/core/small_vector.hpp>
#include <tinytorch/tensor/scalar.hpp>

namespace tinytorch::inline TT_BUILD {

class Tensor;
struct ValuesAndIndices;

struct TensorMethods {
  int dim(TT_LOC) const;  // number of dimensions, the same as rank()

  // --- elementwise ---
  Tensor abs(TT_LOC) const;
  Tensor exp(TT_LOC) const;
  Tensor log(TT_LOC) const;
  Tensor sqrt(TT_LOC) const;
  Tensor square(TT_LOC) const;
  Tensor tanh(TT_LOC) const;
  Tensor sigmoid(TT_LOC) const;
  Tensor relu(TT_LOC) const;
  Tensor neg(TT_LOC) const;
  Tensor sign(TT_LOC) const;
  Tensor floor(TT_LOC) const;
  Tensor round(TT_LOC) const;
  Tensor log1p(TT_LOC) const;
  Tensor expm1(TT_LOC) const;
  Tensor rsqrt(TT_LOC) const;
  Tensor reciprocal(TT_LOC) const;
  Tensor sin(TT_LOC) const;
  Tensor cos(TT_LOC) const;
  Tensor erf(TT_LOC) const;
  Tensor isnan(TT_LOC) const;
  Tensor isfinite(TT_LOC) const;
  Tensor pow(Scalar exponent, TT_LOC) const;
  Tensor clamp(Scalar low, Scalar high, TT_LOC) const;

  // --- reductions ---
  Tensor max(const Dims& dims = {}, bool keepdim = false, TT_LOC) const;
  Tensor min(const Dims& dims = {}, bool keepdim = false, TT_LOC) const;
  // With a dimension written without braces, as in PyTorch: the values and their positions.
  template <std::integral Dim>
  ValuesAndIndices max(Dim dim, bool keepdim = false, TT_LOC) const;
  template <std::integral Dim>
  ValuesAndIndices min(Dim dim, bool keepdim = false, TT_LOC) const;
  Tensor var(const Dims& dims = {}, int64_t correction = 1, bool keepdim = false, TT_LOC) const;
  Tensor std(const Dims& dims = {}, int64_t correction = 1, bool keepdim = false, TT_LOC) const;
  Tensor any(const Dims& dims = {}, bool keepdim = false, TT_LOC) const;
  Tensor all(const Dims& dims = {}, bool keepdim = false, TT_LOC) const;
  Tensor argmax(int dim, bool keepdim = false, TT_LOC) const;
  Tensor argmin(int dim, bool keepdim = false, TT_LOC) const;
  Tensor argmax(TT_LOC) const;  // position among all elements in row-major order
  Tensor argmin(TT_LOC) const;
  Tensor prod(const Dims& dims = {}, bool keepdim = false, TT_LOC) const;
  Tensor norm(const Dims& dims = {}, bool keepdim = false, TT_LOC) const;
  Tensor logsumexp(const Dims& dims = {}, bool keepdim = false, TT_LOC) const;
  Tensor cumsum(int dim, TT_LOC) const;
  Tensor softmax(int dim = -1, TT_LOC) const;
  Tensor log_softmax(int dim = -1, TT_LOC) const;
  Tensor matmul(const Tensor& b, TT_LOC) const;

  // --- shape ---
  Tensor view(const Shape& shape, TT_LOC) const;  // shares the elements, or throws where reshape would copy
  template <std::integral... Sizes>
  requires(sizeof...(Sizes) > 1) Tensor view(Sizes... sizes)
  const;
  template <std::integral... Sizes>
  requires(sizeof...(Sizes) > 1) Tensor reshape(Sizes... sizes)
  const;
  template <std::integral... Sizes>
  requires(sizeof...(Sizes) > 1) Tensor expand(Sizes... sizes)
  const;
  template <std::integral... Dimensions>
  requires(sizeof...(Dimensions) > 1) Tensor permute(Dimensions... order)
  const;
  Tensor repeat(const Dims& counts, TT_LOC) const;
  template <std::integral... Counts>
  requires(sizeof...(Counts) > 1) Tensor repeat(Counts... counts)
  const;
  Tensor flip(const Dims& dims, TT_LOC) const;
  Tensor roll(const Dims& shifts, const Dims& dims = {}, TT_LOC) const;
  Tensor tril(int64_t diagonal = 0, TT_LOC) const;
  Tensor triu(int64_t diagonal = 0, TT_LOC) const;
  SmallVector<Tensor, 4> split(int64_t size, int dim = 0, TT_LOC) const;   // views
  SmallVector<Tensor, 4> chunk(int64_t count, int dim = 0, TT_LOC) const;  // views
  Tensor squeeze(int dim, TT_LOC) const;
  Tensor squeeze(TT_LOC) const;  // all dimensions of size 1 are removed
  Tensor T(TT_LOC) const;        // all dimensions reversed

  // --- selection ---
  Tensor gather(int dim, const Tensor& index, TT_LOC) const;
  Tensor index_select(int dim, const Tensor& index, TT_LOC) const;
  Tensor masked_fill(const Tensor& mask, Scalar value, TT_LOC) const;
  ValuesAndIndices topk(int64_t k, int dim = -1, bool largest = true, TT_LOC) const;
  ValuesAndIndices sort(int dim = -1, bool descending = false, TT_LOC) const;

  // --- in place, with the rules of += (tensor/indexing.hpp) ---
  void masked_fill_(const Tensor& mask, Scalar value, TT_LOC) const;
  void clamp_(Scalar low, Scalar high, TT_LOC) const;
  void add_(Scalar value, TT_LOC) const;
  void sub_(const Tensor& other, TT_LOC) const;
  void div_(const Tensor& divisor, TT_LOC) const;
  void div_(Scalar divisor, TT_LOC) const;

 private:
  const Tensor& self() const;
};

}  // namespace tinytorch::inline TT_BUILD
