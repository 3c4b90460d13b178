// Elementwise functions, activations and reductions that are composed of other operations, which have the
// kernels and the derivatives.
//
//   tt::lerp(a, b, 0.3)   tt::nan_to_num(x)   tt::allclose(a, b)   tt::amax(x, {1})   tt::relu6(x)
//
// Names and semantics are PyTorch's. Unless a line says otherwise, the result has the shape and dtype of x, x
// is floating point, and a NaN gives NaN. Each costs one pass over memory for every operation of its formula.
#pragma once

#include <limits>
#include <optional>
#include <tinytorch/tensor/operators.hpp>

namespace tinytorch::inline TT_BUILD {

// --- elementwise ---
TT_API Tensor exp2(const Tensor& x, TT_LOC);   // 2^x
TT_API Tensor log2(const Tensor& x, TT_LOC);   // log(x) / log(2)
TT_API Tensor log10(const Tensor& x, TT_LOC);  // log(x) / log(10)
TT_API Tensor tan(const Tensor& x, TT_LOC);    // sin(x) / cos(x)
TT_API Tensor sinh(const Tensor& x, TT_LOC);   // (e^x - e^-x) / 2, accurate near 0
TT_API Tensor cosh(const Tensor& x, TT_LOC);   // (e^x + e^-x) / 2
TT_API Tensor atanh(const Tensor& x, TT_LOC);  // log((1 + x) / (1 - x)) / 2, accurate near 0
// Rounds towards 0. Integers stay as they are. The derivative is 0. Dtypes: all.
TT_API Tensor trunc(const Tensor& x, TT_LOC);
TT_API Tensor frac(const Tensor& x, TT_LOC);                    // x - trunc(x)
TT_API Tensor clamp_min(const Tensor& x, Scalar low, TT_LOC);   // the larger of x and low. Dtypes: all.
TT_API Tensor clamp_max(const Tensor& x, Scalar high, TT_LOC);  // the smaller of x and high. Dtypes: all.
// a + weight (b - a). All broadcast.
TT_API Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight, TT_LOC);
TT_API Tensor lerp(const Tensor& a, const Tensor& b, double weight, TT_LOC);
TT_API Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value = 1,
                      TT_LOC);  // x + value a b
TT_API Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value = 1,
                      TT_LOC);                                      // x + value a / b
TT_API Tensor logaddexp(const Tensor& a, const Tensor& b, TT_LOC);  // log(e^a + e^b), without overflow
TT_API Tensor logical_xor(const Tensor& a, const Tensor& b,
                          TT_LOC);  // bool: one of both is 0, and one is not
// NaN becomes `nan`, and the infinities become the given numbers, by default the largest finite ones of the
// dtype. Integers stay as they are.
TT_API Tensor nan_to_num(const Tensor& x, double nan = 0, std::optional<double> positive_infinity = {},
                         std::optional<double> negative_infinity = {}, TT_LOC);
// |a - b| <= absolute + relative |b|, as bool. Equal infinities are close; NaN only with equal_nan.
// Dtypes: all.
TT_API Tensor isclose(const Tensor& a, const Tensor& b, double relative = 1e-5, double absolute = 1e-8,
                      bool equal_nan = false, TT_LOC);
// Returns true if all elements are close: |a - b| <= absolute + relative |b|. It waits for the device.
TT_API bool allclose(const Tensor& a, const Tensor& b, double relative = 1e-5, double absolute = 1e-8,
                     bool equal_nan = false, TT_LOC);
// Returns true if a and b have the same shape and equal elements. It waits for the device.
TT_API bool equal(const Tensor& a, const Tensor& b, TT_LOC);

// --- activations ---
TT_API Tensor relu6(const Tensor& x, TT_LOC);                                       // clamp(x, 0, 6)
TT_API Tensor hardtanh(const Tensor& x, double low = -1, double high = 1, TT_LOC);  // clamp(x, low, high)
TT_API Tensor hardsigmoid(const Tensor& x, TT_LOC);                      // clamp(x / 6 + 1 / 2, 0, 1)
TT_API Tensor selu(const Tensor& x, TT_LOC);                             // 1.0507 elu(x, 1.6733)
TT_API Tensor celu(const Tensor& x, double alpha = 1, TT_LOC);           // alpha elu(x / alpha), alpha > 0
TT_API Tensor softsign(const Tensor& x, TT_LOC);                         // x / (1 + |x|)
TT_API Tensor logsigmoid(const Tensor& x, TT_LOC);                       // log(sigmoid(x)), without overflow
TT_API Tensor tanhshrink(const Tensor& x, TT_LOC);                       // x - tanh(x)
TT_API Tensor softshrink(const Tensor& x, double lambda = 0.5, TT_LOC);  // x - clamp(x, -lambda, lambda)
TT_API Tensor hardshrink(const Tensor& x, double lambda = 0.5, TT_LOC);  // x where |x| > lambda, else 0
TT_API Tensor threshold(const Tensor& x, double limit, double value,
                        TT_LOC);                               // x where x > limit, else value
TT_API Tensor softmin(const Tensor& x, int dim = -1, TT_LOC);  // softmax(-x)
// The first half of dimension dim times sigmoid of the second. Throws TT-SHAPE-12 for an odd size.
TT_API Tensor glu(const Tensor& x, int dim = -1, TT_LOC);
// x where x > 0, else weight x. weight [1], or [C] for x [N, C, ...]. Throws TT-SHAPE-02 for a weight of
// another shape.
TT_API Tensor prelu(const Tensor& x, const Tensor& weight, TT_LOC);

// --- reductions ---
// max and min over several dimensions; equal extremes share the gradient.
TT_API Tensor amax(const Tensor& x, const Dims& dims = {}, bool keepdim = false, TT_LOC);
TT_API Tensor amin(const Tensor& x, const Dims& dims = {}, bool keepdim = false, TT_LOC);
TT_API Tensor count_nonzero(const Tensor& x, const Dims& dims = {}, TT_LOC);  // any dtype -> i64
// Sum and mean of the elements that are not NaN. A mean of none is NaN.
TT_API Tensor nansum(const Tensor& x, const Dims& dims = {}, bool keepdim = false, TT_LOC);
TT_API Tensor nanmean(const Tensor& x, const Dims& dims = {}, bool keepdim = false, TT_LOC);
// Each element is the product of the elements up to it along dim. It takes one step for each position.
TT_API Tensor cumprod(const Tensor& x, int dim, TT_LOC);
// (sum |x|^p)^(1/p) along dims, or of all elements; p > 0 or infinity, the largest |x|. norm() is the case 2.
// Throws TT-RANGE-08 for another p.
TT_API Tensor vector_norm(const Tensor& x, double p, const Dims& dims, bool keepdim, Loc loc);
// x / max(|x|, eps), where |x| is the p-norm along dim.
TT_API Tensor normalize(const Tensor& x, double p = 2, int dim = 1, double eps = 1e-12, TT_LOC);

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(TENSOR)
#include <cmath>
#include <string>
#include <tinytorch/tensor/ops/reduce.hpp>
#include <tinytorch/tensor/ops/shape.hpp>
#include <tinytorch/tensor/rules.hpp>

namespace tinytorch::inline TT_BUILD {

TT_API Tensor exp2(const Tensor& x, Loc loc) { return exp(mul(x, Scalar(std::log(2.0)), loc), loc); }
TT_API Tensor log2(const Tensor& x, Loc loc) { return div(log(x, loc), Scalar(std::log(2.0)), loc); }
TT_API Tensor log10(const Tensor& x, Loc loc) { return div(log(x, loc), Scalar(std::log(10.0)), loc); }
TT_API Tensor tan(const Tensor& x, Loc loc) { return div(sin(x, loc), cos(x, loc), loc); }
TT_API Tensor sinh(const Tensor& x, Loc loc) {
  return mul(sub(expm1(x, loc), expm1(neg(x, loc), loc), loc), Scalar(0.5), loc);
}
TT_API Tensor cosh(const Tensor& x, Loc loc) {
  return mul(add(exp(x, loc), exp(neg(x, loc), loc), loc), Scalar(0.5), loc);
}
TT_API Tensor atanh(const Tensor& x, Loc loc) {
  return mul(sub(log1p(x, loc), log1p(neg(x, loc), loc), loc), Scalar(0.5), loc);
}
TT_API Tensor trunc(const Tensor& x, Loc loc) {
  require_defined("trunc", loc, x);
  if (!is_floating(x.dtype())) return x;
  return where(lt(x, Scalar(0.0), loc), ceil(x, loc), floor(x, loc), loc);
}
TT_API Tensor frac(const Tensor& x, Loc loc) {
  require_defined("frac", loc, x);
  require_floating("frac", x, loc);
  return sub(x, trunc(x, loc), loc);
}
TT_API Tensor clamp_min(const Tensor& x, Scalar low, Loc loc) {
  require_defined("clamp_min", loc, x);
  if (!is_floating(x.dtype())) return maximum(x, low, loc);
  return clamp(x, low, Scalar(std::numeric_limits<double>::infinity()), loc);
}
TT_API Tensor clamp_max(const Tensor& x, Scalar high, Loc loc) {
  require_defined("clamp_max", loc, x);
  if (!is_floating(x.dtype())) return minimum(x, high, loc);
  return clamp(x, Scalar(-std::numeric_limits<double>::infinity()), high, loc);
}
TT_API Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight, Loc loc) {
  require_defined("lerp", loc, a, b, weight);
  require_floating("lerp", a, loc);
  return add(a, mul(weight, sub(b, a, loc), loc), loc);
}
TT_API Tensor lerp(const Tensor& a, const Tensor& b, double weight, Loc loc) {
  require_defined("lerp", loc, a, b);
  return lerp(a, b, scalar_like(Scalar(weight), a, loc), loc);
}
TT_API Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value, Loc loc) {
  return add(x, mul(mul(a, b, loc), value, loc), loc);
}
TT_API Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value, Loc loc) {
  return add(x, mul(div(a, b, loc), value, loc), loc);
}
TT_API Tensor logaddexp(const Tensor& a, const Tensor& b, Loc loc) {
  require_defined("logaddexp", loc, a, b);
  const Shape shape = broadcast_or_fail("logaddexp", a, b, loc);
  return logsumexp(stack({expand(a, shape, loc), expand(b, shape, loc)}, 0, loc), {0}, false, loc);
}
TT_API Tensor logical_xor(const Tensor& a, const Tensor& b, Loc loc) {
  return ne(logical_not(a, loc), logical_not(b, loc), loc);
}
TT_API Tensor nan_to_num(const Tensor& x, double nan, std::optional<double> positive,
                         std::optional<double> negative, Loc loc) {
  require_defined("nan_to_num", loc, x);
  if (!is_floating(x.dtype())) return x;
  const double infinity = std::numeric_limits<double>::infinity();
  const double largest = x.dtype() == DType::f64    ? std::numeric_limits<double>::max()
                         : x.dtype() == DType::f32  ? double{std::numeric_limits<float>::max()}
                         : x.dtype() == DType::bf16 ? 0x1.fep127
                                                    : 65504.0;
  Tensor y = masked_fill(x, isnan(x, loc), Scalar(nan), loc);
  y = masked_fill(y, eq(x.detach(), Scalar(infinity), loc), Scalar(positive.value_or(largest)), loc);
  return masked_fill(y, eq(x.detach(), Scalar(-infinity), loc), Scalar(negative.value_or(-largest)), loc);
}
TT_API Tensor isclose(const Tensor& a, const Tensor& b, double relative, double absolute, bool equal_nan,
                      Loc loc) {
  require_defined("isclose", loc, a, b);
  require_same_dtype("isclose", {a, b}, loc);
  if (relative < 0 || absolute < 0) fail("TT-RANGE-08", "isclose: tolerances must be at least 0", loc);
  const DType wide = is_floating(a.dtype()) && a.dtype() != DType::f64 ? DType::f32 : DType::f64;
  const Tensor x = cast(a.detach(), wide, loc), y = cast(b.detach(), wide, loc);
  const Tensor distance = abs(sub(x, y, loc), loc);
  const Tensor limit = add(mul(abs(y, loc), Scalar(relative), loc), Scalar(absolute), loc);
  // An infinite limit would accept any finite number.
  const Tensor near = logical_and(le(distance, limit, loc), isfinite(distance, loc), loc);
  const Tensor close = logical_or(near, eq(a.detach(), b.detach(), loc), loc);
  return equal_nan ? logical_or(close, logical_and(isnan(x, loc), isnan(y, loc), loc), loc) : close;
}
TT_API bool allclose(const Tensor& a, const Tensor& b, double relative, double absolute, bool equal_nan,
                     Loc loc) {
  return all(isclose(a, b, relative, absolute, equal_nan, loc), {}, false, loc).item<bool>();
}

TT_API Tensor relu6(const Tensor& x, Loc loc) { return clamp(x, Scalar(0), Scalar(6), loc); }
TT_API Tensor hardtanh(const Tensor& x, double low, double high, Loc loc) {
  return clamp(x, Scalar(low), Scalar(high), loc);
}
TT_API Tensor hardsigmoid(const Tensor& x, Loc loc) {
  return div(relu6(add(x, Scalar(3.0), loc), loc), Scalar(6.0), loc);
}
// The constants give outputs of mean 0 and variance 1 for such inputs. Source: Klambauer et al.,
// "Self-Normalizing Neural Networks", 2017.
TT_API Tensor selu(const Tensor& x, Loc loc) {
  return mul(elu(x, 1.6732632423543772, loc), Scalar(1.0507009873554805), loc);
}
TT_API Tensor celu(const Tensor& x, double alpha, Loc loc) {
  if (!(alpha > 0)) fail("TT-RANGE-08", "celu: alpha must be above 0, got " + std::to_string(alpha), loc);
  return mul(elu(div(x, Scalar(alpha), loc), 1, loc), Scalar(alpha), loc);
}
TT_API Tensor softsign(const Tensor& x, Loc loc) { return div(x, add(abs(x, loc), Scalar(1.0), loc), loc); }
TT_API Tensor logsigmoid(const Tensor& x, Loc loc) { return neg(softplus(neg(x, loc), 1, loc), loc); }
TT_API Tensor tanhshrink(const Tensor& x, Loc loc) { return sub(x, tanh(x, loc), loc); }
TT_API Tensor softshrink(const Tensor& x, double lambda, Loc loc) {
  return sub(x, clamp(x, Scalar(-lambda), Scalar(lambda), loc), loc);
}
TT_API Tensor hardshrink(const Tensor& x, double lambda, Loc loc) {
  return masked_fill(x, le(abs(x.detach(), loc), Scalar(lambda), loc), Scalar(0.0), loc);
}
TT_API Tensor threshold(const Tensor& x, double limit, double value, Loc loc) {
  return masked_fill(x, le(x.detach(), Scalar(limit), loc), Scalar(value), loc);
}
TT_API Tensor softmin(const Tensor& x, int dim, Loc loc) { return softmax(neg(x, loc), dim, loc); }
TT_API Tensor glu(const Tensor& x, int dim, Loc loc) {
  require_defined("glu", loc, x);
  const int d = normalize_dim(dim, x.rank(), "glu", loc);
  const int64_t size = x.rank() > 0 ? x.shape()[d] : 1;
  if (size % 2 != 0) {
    fail("TT-SHAPE-12",
         "glu: halves dimension " + std::to_string(d) + ", whose size is odd in " + x.describe(), loc);
  }
  return mul(slice(x, d, 0, size / 2, 1, loc), sigmoid(slice(x, d, size / 2, kEnd, 1, loc), loc), loc);
}
TT_API Tensor prelu(const Tensor& x, const Tensor& weight, Loc loc) {
  require_defined("prelu", loc, x, weight);
  const int64_t channels = x.rank() >= 2 ? x.shape()[1] : 1;
  if (weight.rank() > 1 || (weight.numel() != 1 && weight.numel() != channels)) {
    fail("TT-SHAPE-02",
         "prelu: needs one weight, or one for each channel of x [N, C, ...]: " +
             describe_operands({x, weight}),
         loc);
  }
  Shape shape;
  for (int d = 0; d < x.rank(); ++d) shape.push_back(d == 1 && weight.numel() > 1 ? channels : 1);
  return where(gt(x.detach(), Scalar(0.0), loc), x, mul(x, reshape(weight, shape, loc), loc), loc);
}

TT_API Tensor amax(const Tensor& x, const Dims& dims, bool keepdim, Loc loc) {
  return max(x, dims, keepdim, loc);
}
TT_API Tensor amin(const Tensor& x, const Dims& dims, bool keepdim, Loc loc) {
  return min(x, dims, keepdim, loc);
}
TT_API Tensor count_nonzero(const Tensor& x, const Dims& dims, Loc loc) {
  require_defined("count_nonzero", loc, x);
  return sum(cast(ne(x.detach(), Scalar(0), loc), DType::i64, loc), dims, false, loc);
}
TT_API Tensor nansum(const Tensor& x, const Dims& dims, bool keepdim, Loc loc) {
  require_defined("nansum", loc, x);
  return sum(is_floating(x.dtype()) ? masked_fill(x, isnan(x, loc), Scalar(0.0), loc) : x, dims, keepdim,
             loc);
}
TT_API Tensor nanmean(const Tensor& x, const Dims& dims, bool keepdim, Loc loc) {
  require_defined("nanmean", loc, x);
  require_floating("nanmean", x, loc);
  // Counts in f32 or f64: f16 counts no further than 2048.
  const DType wide = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Tensor count = sum(cast(eq(x.detach(), x.detach(), loc), wide, loc), dims, keepdim, loc);
  return cast(div(nansum(cast(x, wide, loc), dims, keepdim, loc), count, loc), x.dtype(), loc);
}

TT_API bool equal(const Tensor& a, const Tensor& b, Loc loc) {
  require_defined("equal", loc, a, b);
  return a.shape() == b.shape() && all(eq(a, b, loc), {}, false, loc).item<bool>(loc);
}
TT_API Tensor cumprod(const Tensor& x, int dim, Loc loc) {
  require_defined("cumprod", loc, x);
  if (x.rank() == 0) return x;
  Tensors products;
  for (const Tensor& part : split(x, 1, normalize_dim(dim, x.rank(), "cumprod", loc), loc)) {
    products.push_back(products.empty() ? part : mul(products.back(), part, loc));
  }
  return products.empty() ? x : cat(products, dim, loc);
}
TT_API Tensor vector_norm(const Tensor& x, double p, const Dims& dims, bool keepdim, Loc loc) {
  require_defined("norm", loc, x);
  if (!(p > 0)) fail("TT-RANGE-08", "norm: p must be above 0, got " + std::to_string(p), loc);
  if (p == 2) return norm(x, dims, keepdim, loc);
  require_floating("norm", x, loc);
  const Tensor size = abs(x, loc);
  if (std::isinf(p)) return amax(size, dims, keepdim, loc);
  if (p == 1) return sum(size, dims, keepdim, loc);
  return pow(sum(pow(size, Scalar(p), loc), dims, keepdim, loc), Scalar(1 / p), loc);
}
TT_API Tensor normalize(const Tensor& x, double p, int dim, double eps, Loc loc) {
  require_defined("normalize", loc, x);
  return div(x, clamp_min(vector_norm(x, p, {dim}, true, loc), Scalar(eps), loc), loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
