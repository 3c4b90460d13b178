// TensorMethods: the members of Tensor that only forward to a free function, in PyTorch's spelling.
//
//   x.exp().sum(1)     x.view(2, -1)     x.max()     x.softmax(-1)     x.std()
//
// They are in a base class so that tensor.hpp shows what a tensor is, and this file what can be said. Each
// has the rules of the function of the same name in tensor/functions.hpp; the definitions are in
// tensor/ops/members.hpp. In-place functions end in an underscore.
#pragma once

#include <concepts>
#include <optional>
#include <tinytorch/core/device.hpp>
#include <tinytorch/core/dtype.hpp>
#include <tinytorch/core/shape.hpp>
#include <tinytorch/core/small_vector.hpp>
#include <tinytorch/tensor/scalar.hpp>

namespace tinytorch::inline TT_BUILD {

class Tensor;
struct ValuesAndIndices;
struct UniqueValues;  // tensor/ops/sampling.hpp

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
  Tensor ceil(TT_LOC) const;
  Tensor trunc(TT_LOC) const;
  Tensor frac(TT_LOC) const;
  Tensor tan(TT_LOC) const;
  Tensor sinh(TT_LOC) const;
  Tensor cosh(TT_LOC) const;
  Tensor atanh(TT_LOC) const;
  Tensor log2(TT_LOC) const;
  Tensor exp2(TT_LOC) const;
  Tensor log10(TT_LOC) const;
  Tensor logical_not(TT_LOC) const;
  Tensor isinf(TT_LOC) const;
  Tensor pow(Scalar exponent, TT_LOC) const;
  Tensor add(const Tensor& other, TT_LOC) const;
  Tensor add(Scalar number, TT_LOC) const;
  Tensor sub(const Tensor& other, TT_LOC) const;
  Tensor sub(Scalar number, TT_LOC) const;
  Tensor mul(const Tensor& other, TT_LOC) const;
  Tensor mul(Scalar number, TT_LOC) const;
  Tensor div(const Tensor& other, TT_LOC) const;
  Tensor div(Scalar number, TT_LOC) const;
  Tensor maximum(const Tensor& other, TT_LOC) const;
  Tensor maximum(Scalar number, TT_LOC) const;
  Tensor minimum(const Tensor& other, TT_LOC) const;
  Tensor minimum(Scalar number, TT_LOC) const;
  Tensor eq(const Tensor& other, TT_LOC) const;
  Tensor eq(Scalar number, TT_LOC) const;
  Tensor ne(const Tensor& other, TT_LOC) const;
  Tensor ne(Scalar number, TT_LOC) const;
  Tensor lt(const Tensor& other, TT_LOC) const;
  Tensor lt(Scalar number, TT_LOC) const;
  Tensor le(const Tensor& other, TT_LOC) const;
  Tensor le(Scalar number, TT_LOC) const;
  Tensor gt(const Tensor& other, TT_LOC) const;
  Tensor gt(Scalar number, TT_LOC) const;
  Tensor ge(const Tensor& other, TT_LOC) const;
  Tensor ge(Scalar number, TT_LOC) const;
  Tensor floor_divide(const Tensor& other, TT_LOC) const;
  Tensor floor_divide(Scalar number, TT_LOC) const;
  Tensor remainder(const Tensor& other, TT_LOC) const;
  Tensor remainder(Scalar number, TT_LOC) const;
  Tensor fmod(const Tensor& other, TT_LOC) const;
  Tensor fmod(Scalar number, TT_LOC) const;
  Tensor pow(const Tensor& exponent, TT_LOC) const;
  Tensor logical_and(const Tensor& other, TT_LOC) const;
  Tensor logical_or(const Tensor& other, TT_LOC) const;
  Tensor logical_xor(const Tensor& other, TT_LOC) const;
  Tensor logaddexp(const Tensor& other, TT_LOC) const;
  Tensor clamp_min(Scalar bound, TT_LOC) const;
  Tensor clamp_max(Scalar bound, TT_LOC) const;
  Tensor clip(Scalar low, Scalar high, TT_LOC) const;
  Tensor lerp(const Tensor& end, const Tensor& weight, TT_LOC) const;
  Tensor lerp(const Tensor& end, double weight, TT_LOC) const;
  Tensor addcmul(const Tensor& a, const Tensor& b, Scalar value = 1, TT_LOC) const;
  Tensor addcdiv(const Tensor& a, const Tensor& b, Scalar value = 1, TT_LOC) const;
  Tensor nan_to_num(double nan = 0, TT_LOC) const;
  Tensor where(const Tensor& condition, const Tensor& other, TT_LOC) const;  // condition ? x : other
  Tensor where(const Tensor& condition, Scalar other, TT_LOC) const;
  Tensor isclose(const Tensor& other, double relative = 1e-5, double absolute = 1e-8, bool equal_nan = false,
                 TT_LOC) const;
  bool allclose(const Tensor& other, double relative = 1e-5, double absolute = 1e-8, bool equal_nan = false,
                TT_LOC) const;
  bool equal(const Tensor& other, TT_LOC) const;
  Tensor clamp(Scalar low, Scalar high, TT_LOC) const;

  // --- reductions ---
  Tensor sum(const Dims& dims = {}, bool keepdim = false, TT_LOC) const;
  Tensor mean(const Dims& dims = {}, bool keepdim = false, TT_LOC) const;
  Tensor amax(const Dims& dims = {}, bool keepdim = false, TT_LOC) const;
  Tensor amin(const Dims& dims = {}, bool keepdim = false, TT_LOC) const;
  Tensor nansum(const Dims& dims = {}, bool keepdim = false, TT_LOC) const;
  Tensor nanmean(const Dims& dims = {}, bool keepdim = false, TT_LOC) const;
  Tensor count_nonzero(const Dims& dims = {}, TT_LOC) const;
  Tensor median(TT_LOC) const;
  ValuesAndIndices median(int dim, bool keepdim = false, TT_LOC) const;
  Tensor quantile(double q, std::optional<int> dim = {}, bool keepdim = false, TT_LOC) const;
  Tensor cumprod(int dim, TT_LOC) const;
  Tensor diff(int64_t n = 1, int dim = -1, TT_LOC) const;
  Tensor cov(int64_t correction = 1, TT_LOC) const;
  Tensor corrcoef(TT_LOC) const;
  Tensor histc(int64_t bins = 100, double low = 0, double high = 0, TT_LOC) const;
  Tensor bincount(TT_LOC) const;
  Tensor trace(TT_LOC) const;
  Tensor max(const Dims& dims = {}, bool keepdim = false, TT_LOC) const;
  Tensor min(const Dims& dims = {}, bool keepdim = false, TT_LOC) const;
  // A dimension may be written without braces, as in PyTorch: these return the values and their positions.
  template <std::integral Dim>
  ValuesAndIndices max(Dim dim, bool keepdim = false, TT_LOC) const;
  template <std::integral Dim>
  ValuesAndIndices min(Dim dim, bool keepdim = false, TT_LOC) const;
  // The larger or the smaller element of each pair.
  template <std::derived_from<Tensor> Other>
  Tensor max(const Other& other, TT_LOC) const;
  template <std::derived_from<Tensor> Other>
  Tensor min(const Other& other, TT_LOC) const;
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
  // Numbers select the norm, as in PyTorch: norm(p) of all elements, norm(p, dim) along a dimension.
  template <class Number>
  requires std::is_arithmetic_v<Number> Tensor norm(Number p, TT_LOC)
  const;
  template <class Number>
  requires std::is_arithmetic_v<Number> Tensor norm(Number p, int dim, bool keepdim = false, TT_LOC)
  const;
  Tensor logsumexp(const Dims& dims = {}, bool keepdim = false, TT_LOC) const;
  Tensor cumsum(int dim, TT_LOC) const;
  Tensor softmax(int dim = -1, TT_LOC) const;
  Tensor log_softmax(int dim = -1, TT_LOC) const;
  Tensor matmul(const Tensor& b, TT_LOC) const;
  Tensor dot(const Tensor& b, TT_LOC) const;
  Tensor mm(const Tensor& b, TT_LOC) const;
  Tensor mv(const Tensor& b, TT_LOC) const;
  Tensor bmm(const Tensor& b, TT_LOC) const;
  Tensor outer(const Tensor& b, TT_LOC) const;
  Tensor addmm(const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1, TT_LOC) const;

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
  SmallVector<Tensor, 4> split(int64_t size, int dim = 0, TT_LOC) const;  // views
  SmallVector<Tensor, 4> split(const Dims& sizes, int dim = 0, TT_LOC) const;
  SmallVector<Tensor, 4> chunk(int64_t count, int dim = 0, TT_LOC) const;  // views
  Tensor squeeze(int dim, TT_LOC) const;
  Tensor squeeze(TT_LOC) const;  // all dimensions of size 1 are removed
  Tensor T(TT_LOC) const;        // all dimensions reversed
  Tensor narrow(int dim, int64_t start, int64_t length, TT_LOC) const;
  SmallVector<Tensor, 4> unbind(int dim = 0, TT_LOC) const;
  Tensor unflatten(int dim, const Shape& sizes, TT_LOC) const;
  Tensor ravel(TT_LOC) const;
  Tensor tile(const Dims& counts, TT_LOC) const;
  Tensor repeat_interleave(int64_t count, std::optional<int> dim = {}, TT_LOC) const;
  Tensor broadcast_to(const Shape& shape, TT_LOC) const;
  Tensor expand_as(const Tensor& other, TT_LOC) const;
  Tensor reshape_as(const Tensor& other, TT_LOC) const;
  Tensor view_as(const Tensor& other, TT_LOC) const;
  Tensor swapaxes(int a, int b, TT_LOC) const;
  Tensor swapdims(int a, int b, TT_LOC) const;
  Tensor movedim(int source, int destination, TT_LOC) const;
  Tensor mT(TT_LOC) const;
  Tensor diagonal(int64_t offset = 0, int dim1 = 0, int dim2 = 1, TT_LOC) const;
  Tensor diag(int64_t diagonal = 0, TT_LOC) const;

  // --- selection ---
  Tensor gather(int dim, const Tensor& index, TT_LOC) const;
  Tensor index_select(int dim, const Tensor& index, TT_LOC) const;
  Tensor masked_fill(const Tensor& mask, Scalar value, TT_LOC) const;
  ValuesAndIndices topk(int64_t k, int dim = -1, bool largest = true, TT_LOC) const;
  ValuesAndIndices sort(int dim = -1, bool descending = false, TT_LOC) const;
  Tensor masked_select(const Tensor& mask, TT_LOC) const;
  Tensor take_along_dim(const Tensor& index, int dim, TT_LOC) const;
  Tensor scatter(int dim, const Tensor& index, const Tensor& source, TT_LOC) const;
  Tensor scatter(int dim, const Tensor& index, Scalar value, TT_LOC) const;
  Tensor scatter_add(int dim, const Tensor& index, const Tensor& source, TT_LOC) const;
  Tensor index_add(int dim, const Tensor& index, const Tensor& source, TT_LOC) const;
  Tensor index_fill(int dim, const Tensor& index, Scalar value, TT_LOC) const;
  Tensor index_put(const Tensor& index, const Tensor& values, TT_LOC) const;
  Tensor nonzero(TT_LOC) const;
  UniqueValues unique(TT_LOC) const;
  UniqueValues unique(int dim, TT_LOC) const;
  Tensor argsort(int dim = -1, bool descending = false, TT_LOC) const;
  ValuesAndIndices kthvalue(int64_t k, int dim = -1, bool keepdim = false, TT_LOC) const;

  // --- devices, dtypes and sizes ---
  Tensor cpu(TT_LOC) const;
  Tensor cuda(TT_LOC) const;
  Tensor to(Device device, DType dtype, TT_LOC) const;
  Tensor to(const Tensor& other, TT_LOC) const;  // the device and the dtype of other
  Tensor type_as(const Tensor& other, TT_LOC) const;
  int64_t nelement(TT_LOC) const;
  const Shape& sizes(TT_LOC) const;
  int64_t stride(int dim, TT_LOC) const;
  int64_t element_size(TT_LOC) const;  // in bytes
  bool is_floating_point(TT_LOC) const;
  bool is_cuda(TT_LOC) const;

  // --- in place, with the rules of += (tensor/indexing.hpp); the result is this tensor ---
  Tensor masked_fill_(const Tensor& mask, Scalar value, TT_LOC) const;
  Tensor clamp_(Scalar low, Scalar high, TT_LOC) const;
  Tensor add_(Scalar value, TT_LOC) const;
  Tensor sub_(const Tensor& other, Scalar alpha = 1, TT_LOC) const;  // x -= alpha other
  Tensor sub_(Scalar value, TT_LOC) const;
  Tensor mul_(const Tensor& factor, TT_LOC) const;
  Tensor div_(const Tensor& divisor, TT_LOC) const;
  Tensor div_(Scalar divisor, TT_LOC) const;
  Tensor abs_(TT_LOC) const;
  Tensor neg_(TT_LOC) const;
  Tensor exp_(TT_LOC) const;
  Tensor log_(TT_LOC) const;
  Tensor log2_(TT_LOC) const;
  Tensor log10_(TT_LOC) const;
  Tensor sqrt_(TT_LOC) const;
  Tensor rsqrt_(TT_LOC) const;
  Tensor square_(TT_LOC) const;
  Tensor reciprocal_(TT_LOC) const;
  Tensor sin_(TT_LOC) const;
  Tensor cos_(TT_LOC) const;
  Tensor tan_(TT_LOC) const;
  Tensor tanh_(TT_LOC) const;
  Tensor sigmoid_(TT_LOC) const;
  Tensor relu_(TT_LOC) const;
  Tensor floor_(TT_LOC) const;
  Tensor ceil_(TT_LOC) const;
  Tensor round_(TT_LOC) const;
  Tensor trunc_(TT_LOC) const;
  Tensor remainder_(Scalar number, TT_LOC) const;
  Tensor floor_divide_(Scalar number, TT_LOC) const;
  Tensor pow_(Scalar exponent, TT_LOC) const;
  Tensor clamp_min_(Scalar bound, TT_LOC) const;
  Tensor clamp_max_(Scalar bound, TT_LOC) const;
  Tensor clip_(Scalar low, Scalar high, TT_LOC) const;
  Tensor lerp_(const Tensor& end, double weight, TT_LOC) const;
  Tensor addcmul_(const Tensor& a, const Tensor& b, Scalar value = 1, TT_LOC) const;
  Tensor addcdiv_(const Tensor& a, const Tensor& b, Scalar value = 1, TT_LOC) const;
  Tensor index_fill_(int dim, const Tensor& index, Scalar value, TT_LOC) const;
  Tensor index_add_(int dim, const Tensor& index, const Tensor& source, TT_LOC) const;
  Tensor index_put_(const Tensor& index, const Tensor& values, TT_LOC) const;
  Tensor scatter_(int dim, const Tensor& index, const Tensor& source, TT_LOC) const;
  Tensor scatter_(int dim, const Tensor& index, Scalar value, TT_LOC) const;
  Tensor scatter_add_(int dim, const Tensor& index, const Tensor& source, TT_LOC) const;
  Tensor tril_(int64_t diagonal = 0, TT_LOC) const;
  Tensor triu_(int64_t diagonal = 0, TT_LOC) const;
  // Random values, which end the history of the tensor.
  Tensor normal_(double mean = 0, double deviation = 1, TT_LOC) const;
  Tensor uniform_(double low = 0, double high = 1, TT_LOC) const;
  Tensor bernoulli_(double p = 0.5, TT_LOC) const;

 private:
  const Tensor& self() const;
};

}  // namespace tinytorch::inline TT_BUILD
