// Overloads that accept what PyTorch accepts: numbers beside tensors, and sizes without braces.
//
//   pow(x, 2)   maximum(x, 0.)   where(c, x, 0.)   zeros(2, 3)   arange(10)   cat(x, y)   max_pool2d(x, 2)
//
// Each forwards to a function of tensor/functions.hpp and has its rules. A number takes the tensor's dtype,
// and it is an error (TT-DTYPE-07) if the dtype cannot hold it.
#pragma once

#include <concepts>
#include <optional>
#include <tinytorch/tensor/functions.hpp>

namespace tinytorch::inline TT_BUILD {

// --- a number as one operand ---
inline Tensor number_like(const char* op, int operand, Scalar value, const Tensor& like, Loc loc) {
  if (!like.defined()) fail_undefined(op, operand, loc);
  return scalar_like(value, like, loc);
}
// clang-format off
inline Tensor add(const Tensor& a, Scalar b, TT_LOC) { return add(a, number_like("add", 1, b, a, loc), loc); }
inline Tensor add(Scalar a, const Tensor& b, TT_LOC) { return add(number_like("add", 2, a, b, loc), b, loc); }
inline Tensor sub(const Tensor& a, Scalar b, TT_LOC) { return sub(a, number_like("sub", 1, b, a, loc), loc); }
inline Tensor sub(Scalar a, const Tensor& b, TT_LOC) { return sub(number_like("sub", 2, a, b, loc), b, loc); }
inline Tensor mul(const Tensor& a, Scalar b, TT_LOC) { return mul(a, number_like("mul", 1, b, a, loc), loc); }
inline Tensor mul(Scalar a, const Tensor& b, TT_LOC) { return mul(number_like("mul", 2, a, b, loc), b, loc); }
inline Tensor div(const Tensor& a, Scalar b, TT_LOC) { return div(a, number_like("div", 1, b, a, loc), loc); }
inline Tensor div(Scalar a, const Tensor& b, TT_LOC) { return div(number_like("div", 2, a, b, loc), b, loc); }
inline Tensor pow(const Tensor& a, Scalar b, TT_LOC) { return pow(a, number_like("pow", 1, b, a, loc), loc); }
inline Tensor pow(Scalar a, const Tensor& b, TT_LOC) { return pow(number_like("pow", 2, a, b, loc), b, loc); }
inline Tensor maximum(const Tensor& a, Scalar b, TT_LOC) { return maximum(a, number_like("maximum", 1, b, a, loc), loc); }
inline Tensor maximum(Scalar a, const Tensor& b, TT_LOC) { return maximum(number_like("maximum", 2, a, b, loc), b, loc); }
inline Tensor minimum(const Tensor& a, Scalar b, TT_LOC) { return minimum(a, number_like("minimum", 1, b, a, loc), loc); }
inline Tensor minimum(Scalar a, const Tensor& b, TT_LOC) { return minimum(number_like("minimum", 2, a, b, loc), b, loc); }
// clang-format on
// Comparisons are exact for any number, as x == 1 is.
TT_API Tensor eq(const Tensor& a, Scalar b, TT_LOC);
TT_API Tensor ne(const Tensor& a, Scalar b, TT_LOC);
TT_API Tensor lt(const Tensor& a, Scalar b, TT_LOC);
TT_API Tensor le(const Tensor& a, Scalar b, TT_LOC);
TT_API Tensor gt(const Tensor& a, Scalar b, TT_LOC);
TT_API Tensor ge(const Tensor& a, Scalar b, TT_LOC);
inline Tensor where(const Tensor& condition, const Tensor& a, Scalar b, TT_LOC) {
  return where(condition, a, scalar_like(b, a, loc), loc);
}
inline Tensor where(const Tensor& condition, Scalar a, const Tensor& b, TT_LOC) {
  return where(condition, scalar_like(a, b, loc), b, loc);
}
// Two numbers: i64 if both are integers, else f32.
inline Tensor where(const Tensor& condition, Scalar a, Scalar b, TT_LOC) {
  const DType dtype = a.integral && b.integral ? DType::i64 : DType::f32;
  const Device device = condition.device(loc);
  return where(condition, full({}, a, dtype, device, loc), full({}, b, dtype, device, loc), loc);
}

// --- reductions with one dimension, and over all elements ---
// max(x, 1) gives the values and their positions, as in PyTorch; max(x, {1}) gives the values alone.
template <std::integral Dim>
ValuesAndIndices max(const Tensor& x, Dim dim, bool keepdim = false, TT_LOC) {
  const int d = static_cast<int>(dim);
  const Tensor at = argmax(x, d, true, loc), values = gather(x, d, at, loc);
  return keepdim ? ValuesAndIndices{values, at}
                 : ValuesAndIndices{squeeze(values, d, loc), squeeze(at, d, loc)};
}
template <std::integral Dim>
ValuesAndIndices min(const Tensor& x, Dim dim, bool keepdim = false, TT_LOC) {
  const int d = static_cast<int>(dim);
  const Tensor at = argmin(x, d, true, loc), values = gather(x, d, at, loc);
  return keepdim ? ValuesAndIndices{values, at}
                 : ValuesAndIndices{squeeze(values, d, loc), squeeze(at, d, loc)};
}
// max(x, y) of two tensors is maximum(x, y), as in PyTorch.
template <std::derived_from<Tensor> Other>
Tensor max(const Tensor& a, const Other& b, TT_LOC) {
  return maximum(a, b, loc);
}
template <std::derived_from<Tensor> Other>
Tensor min(const Tensor& a, const Other& b, TT_LOC) {
  return minimum(a, b, loc);
}
inline Tensor argmax(const Tensor& x, TT_LOC) { return argmax(reshape(x, -1, loc), 0, false, loc); }
inline Tensor argmin(const Tensor& x, TT_LOC) { return argmin(reshape(x, -1, loc), 0, false, loc); }

// norm(x, 1) and norm(x, 1, dim) take the p of the norm, as in PyTorch; norm(x, {1}) takes dimensions.
TT_API Tensor vector_norm(const Tensor& x, double p, const Dims& dims, bool keepdim, Loc loc);
template <class Number>
requires std::is_arithmetic_v<Number> Tensor norm(const Tensor& x, Number p, TT_LOC) {
  return vector_norm(x, static_cast<double>(p), {}, false, loc);
}
template <class Number>
requires std::is_arithmetic_v<Number> Tensor norm(const Tensor& x, Number p, int dim, bool keepdim = false,
                                                  TT_LOC) {
  return vector_norm(x, static_cast<double>(p), {dim}, keepdim, loc);
}

// --- shapes ---
// Without a dimension, all dimensions of size 1 are removed.
inline Tensor squeeze(const Tensor& x, TT_LOC) {
  Tensor y = x;
  for (int d = x.rank(loc) - 1; d >= 0; --d) {
    if (x.shape()[d] == 1) y = squeeze(y, d, loc);
  }
  return y;
}
// Elements start to start + length - 1 along dim: a view.
inline Tensor narrow(const Tensor& x, int dim, int64_t start, int64_t length, TT_LOC) {
  const int64_t size = x.size(dim, loc), first = start < 0 ? start + size : start;
  if (first < 0 || length < 0 || first + length > size) {
    fail("TT-RANGE-05",
         "narrow: " + std::to_string(length) + " elements from " + std::to_string(start) +
             " are not inside the size " + std::to_string(size) + " of dimension " + std::to_string(dim),
         loc);
  }
  return slice(x, dim, first, first + length, 1, loc);
}
inline Tensor clip(const Tensor& x, Scalar low, Scalar high, TT_LOC) { return clamp(x, low, high, loc); }
inline Tensor concat(const Tensors& xs, int dim = 0, TT_LOC) { return cat(xs, dim, loc); }
// cat(x, y, ...) joins along dimension 0; another dimension needs the list: cat({x, y}, 1).
template <std::same_as<Tensor>... More>
Tensor cat(TensorArg a, const Tensor& b, const More&... more) {
  return cat(Tensors{a.tensor, b, more...}, 0, a.loc);
}
template <std::same_as<Tensor>... More>
Tensor stack(TensorArg a, const Tensor& b, const More&... more) {
  return stack(Tensors{a.tensor, b, more...}, 0, a.loc);
}

// Parts of the given sizes along dim, which must add up to its size (TT-SHAPE-12): views.
TT_API Tensors split(const Tensor& x, const Dims& sizes, int dim = 0, TT_LOC);

// --- creation with sizes without braces: zeros(2, 3) ---
template <std::integral... Sizes>
requires(sizeof...(Sizes) > 0) Tensor zeros(IndexArg first, Sizes... more) {
  return zeros({first.index, static_cast<int64_t>(more)...}, DType::f32, default_device(), first.loc);
}
template <std::integral... Sizes>
requires(sizeof...(Sizes) > 0) Tensor ones(IndexArg first, Sizes... more) {
  return ones({first.index, static_cast<int64_t>(more)...}, DType::f32, default_device(), first.loc);
}
template <std::integral... Sizes>
requires(sizeof...(Sizes) > 0) Tensor rand(IndexArg first, Sizes... more) {
  return rand({first.index, static_cast<int64_t>(more)...}, DType::f32, default_device(), default_generator(),
              first.loc);
}
template <std::integral... Sizes>
requires(sizeof...(Sizes) > 0) Tensor randn(IndexArg first, Sizes... more) {
  return randn({first.index, static_cast<int64_t>(more)...}, DType::f32, default_device(),
               default_generator(), first.loc);
}
template <std::integral... Sizes>
requires(sizeof...(Sizes) > 0) Tensor empty(IndexArg first, Sizes... more) {
  return empty({first.index, static_cast<int64_t>(more)...}, DType::f32, default_device(), first.loc);
}
// The shape, dtype and device of x.
TT_API Tensor full_like(const Tensor& x, Scalar value, TT_LOC);
inline Tensor empty_like(const Tensor& x, TT_LOC) {
  return empty(x.shape(loc), x.dtype(loc), x.device(loc), loc);
}

// --- creation from values: tensor(3.5), tensor({1, 2, 3}), tensor({{1., 2.}, {3., 4.}}) ---
// Floating-point values give f32, integers i64 and bool bool, unless a dtype is given.
TT_API Tensor from_numbers(const std::vector<double>& values, const Shape& shape, DType dtype, Device device,
                           Loc loc);
TT_API Tensor from_numbers(const std::vector<int64_t>& values, const Shape& shape, DType dtype, Device device,
                           Loc loc);
template <class T>
using NumberOf = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;
template <class T>
constexpr DType default_dtype_of() {
  return std::is_same_v<T, bool> ? DType::boolean : std::is_integral_v<T> ? DType::i64 : DType::f32;
}
template <class T>
requires std::is_arithmetic_v<T> Tensor tensor(T value, std::optional<DType> dtype = {},
                                               Device device = default_device(), TT_LOC) {
  const std::vector<NumberOf<T>> values{static_cast<NumberOf<T>>(value)};
  return from_numbers(values, {}, dtype.value_or(default_dtype_of<T>()), device, loc);
}
template <class T>
Tensor tensor(const std::vector<T>& values, std::optional<DType> dtype = {}, Device device = default_device(),
              TT_LOC) {
  const Shape shape{static_cast<int64_t>(values.size())};
  return from_numbers(std::vector<NumberOf<T>>(values.begin(), values.end()), shape,
                      dtype.value_or(default_dtype_of<T>()), device, loc);
}
template <class T>
Tensor tensor(std::initializer_list<T> values, std::optional<DType> dtype = {},
              Device device = default_device(), TT_LOC) {
  return tensor(std::vector<T>(values), dtype, device, loc);
}
// Rows of one length; throws TT-SHAPE-05 for others.
template <class T>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows, std::optional<DType> dtype = {},
              Device device = default_device(), TT_LOC) {
  std::vector<NumberOf<T>> values;
  const size_t columns = rows.size() > 0 ? rows.begin()->size() : 0;
  for (const auto& row : rows) {
    if (row.size() != columns) fail("TT-SHAPE-05", "tensor: the rows must have the same length", loc);
    values.insert(values.end(), row.begin(), row.end());
  }
  const Shape shape{static_cast<int64_t>(rows.size()), static_cast<int64_t>(columns)};
  return from_numbers(values, shape, dtype.value_or(default_dtype_of<T>()), device, loc);
}

inline Tensor arange(Scalar stop, TT_LOC) { return arange(0, stop, 1, {}, default_device(), loc); }
inline Tensor randint(int64_t high, const Shape& shape, TT_LOC) {
  return randint(0, high, shape, DType::i64, default_device(), default_generator(), loc);
}
// PyTorch asks for the number of points too; older versions took 100.
template <class A, class B>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>) Tensor linspace(A, B) {
  static_assert(sizeof(A) == 0, "linspace needs the number of points: linspace(0, 1, 5)");
  return {};
}

// --- pooling with the kernel as a number: max_pool2d(x, 2), max_pool2d(x, 3, 2, 1) ---
template <std::integral Kernel>
Tensor max_pool2d(const Tensor& x, Kernel kernel, int64_t stride = 0, int64_t padding = 0, TT_LOC) {
  return max_pool2d(x, Pool2dOptions{static_cast<int64_t>(kernel), stride, padding}, loc);
}
template <std::integral Kernel>
Tensor avg_pool2d(const Tensor& x, Kernel kernel, int64_t stride = 0, int64_t padding = 0, TT_LOC) {
  return avg_pool2d(x, Pool2dOptions{static_cast<int64_t>(kernel), stride, padding}, loc);
}

template <std::integral Size>
Tensor adaptive_avg_pool2d(const Tensor& x, Size size, TT_LOC) {
  return adaptive_avg_pool2d(x, static_cast<int64_t>(size), static_cast<int64_t>(size), loc);
}
// The height and the width of the result: adaptive_avg_pool2d(x, {1, 1}).
inline Tensor adaptive_avg_pool2d(const Tensor& x, const int64_t (&out)[2], TT_LOC) {
  return adaptive_avg_pool2d(x, out[0], out[1], loc);
}
// PyTorch's list of widths, which begins with the last dimension: pad(x, {left, right, top, bottom}). Pairs,
// pad(x, {{1, 1}, {2, 2}}), begin with the first dimension. Throws TT-RANGE-08 if it fits no dimensions.
TT_API Tensor pad(const Tensor& x, std::initializer_list<int64_t> widths, Scalar value = 0, TT_LOC);
// Returns x itself outside of training: dropout(x, 0.5, training()).
template <std::same_as<bool> Flag>
Tensor dropout(const Tensor& x, double p, Flag training, TT_LOC) {
  return training ? dropout(x, p, default_generator(), loc) : x;
}

// --- members whose result is defined above ---
template <std::derived_from<Tensor> Other>
Tensor TensorMethods::max(const Other& other, Loc loc) const {
  return maximum(other, loc);
}
template <std::derived_from<Tensor> Other>
Tensor TensorMethods::min(const Other& other, Loc loc) const {
  return minimum(other, loc);
}
template <class Number>
requires std::is_arithmetic_v<Number> Tensor TensorMethods::norm(Number p, int dim, bool keepdim, Loc loc)
const { return vector_norm(self(), static_cast<double>(p), Dims{dim}, keepdim, loc); }
template <class Number>
requires std::is_arithmetic_v<Number> Tensor TensorMethods::norm(Number p, Loc loc)
const { return vector_norm(self(), static_cast<double>(p), Dims{}, false, loc); }
template <std::integral Dim>
ValuesAndIndices TensorMethods::max(Dim dim, bool keepdim, Loc loc) const {
  return tinytorch::max(self(), dim, keepdim, loc);
}
template <std::integral Dim>
ValuesAndIndices TensorMethods::min(Dim dim, bool keepdim, Loc loc) const {
  return tinytorch::min(self(), dim, keepdim, loc);
}
template <std::integral... Sizes>
requires(sizeof...(Sizes) > 1) Tensor TensorMethods::view(Sizes... sizes)
const { return view(Shape{static_cast<int64_t>(sizes)...}); }
template <std::integral... Sizes>
requires(sizeof...(Sizes) > 1) Tensor TensorMethods::reshape(Sizes... sizes)
const { return tinytorch::reshape(self(), Shape{static_cast<int64_t>(sizes)...}); }
template <std::integral... Sizes>
requires(sizeof...(Sizes) > 1) Tensor TensorMethods::expand(Sizes... sizes)
const { return tinytorch::expand(self(), Shape{static_cast<int64_t>(sizes)...}); }
template <std::integral... Counts>
requires(sizeof...(Counts) > 1) Tensor TensorMethods::repeat(Counts... counts)
const { return tinytorch::repeat(self(), Dims{static_cast<int64_t>(counts)...}); }
template <std::integral... Dimensions>
requires(sizeof...(Dimensions) > 1) Tensor TensorMethods::permute(Dimensions... order)
const { return tinytorch::permute(self(), Dims{static_cast<int64_t>(order)...}); }
inline const Tensor& TensorMethods::self() const { return static_cast<const Tensor&>(*this); }

}  // namespace tinytorch::inline TT_BUILD
