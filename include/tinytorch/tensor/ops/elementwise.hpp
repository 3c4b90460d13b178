// Elementwise operations: unary, binary, comparison, where, cast, and the operators of tensors.
//
// Two tables have one row per function: name, cost, accepted dtypes, tensors saved for the derivative, and
// the derivative. Kernels: backend/cpu/elementwise.hpp. Derivatives: tensor/vjp/elementwise.hpp.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <cmath>
#include <tinytorch/backend/cpu/activation_grad.hpp>
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/fill.hpp>
#include <tinytorch/tensor/kept_layout.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <tinytorch/tensor/vjp/elementwise.hpp>
#include <tinytorch/tensor/vjp/second_derivative.hpp>

namespace tinytorch::inline TT_BUILD {

using backend::BinaryFn, backend::UnaryFn, backend::PointwiseKind, backend::PointwiseStep;

struct UnaryRule {
  UnaryFn fn;
  const char* name;
  double flops;  // per element; a transcendental function counts the arithmetic of its kernel, about 10
  Accepts accepts;
  Save saves;
  UnaryVjp vjp;
};

// Rows are in the order of UnaryFn.
inline constexpr UnaryRule kUnaryRules[] = {
    {UnaryFn::identity, "identity", 0, Accepts::anything, Save::nothing, vjp::pass},
    {UnaryFn::neg, "neg", 1, Accepts::numbers, Save::nothing, vjp::neg},
    {UnaryFn::abs, "abs", 1, Accepts::numbers, Save::inputs, vjp::abs},
    {UnaryFn::sign, "sign", 1, Accepts::numbers, Save::nothing, vjp::zero},
    {UnaryFn::square, "square", 1, Accepts::numbers, Save::inputs, vjp::square},
    {UnaryFn::clamp, "clamp", 2, Accepts::numbers, Save::inputs, vjp::clamp},
    {UnaryFn::floor, "floor", 1, Accepts::numbers, Save::nothing, vjp::zero},
    {UnaryFn::ceil, "ceil", 1, Accepts::numbers, Save::nothing, vjp::zero},
    {UnaryFn::round, "round", 1, Accepts::numbers, Save::nothing, vjp::zero},
    {UnaryFn::logical_not, "logical_not", 1, Accepts::anything, Save::nothing, nullptr},
    {UnaryFn::relu, "relu", 1, Accepts::numbers, Save::outputs, vjp::at_y<BinaryFn::relu_grad>},
    {UnaryFn::exp, "exp", 10, Accepts::floating, Save::outputs, vjp::exp},
    {UnaryFn::log, "log", 10, Accepts::floating, Save::inputs, vjp::log},
    {UnaryFn::log1p, "log1p", 12, Accepts::floating, Save::inputs, vjp::log1p},
    {UnaryFn::expm1, "expm1", 12, Accepts::floating, Save::outputs, vjp::expm1},
    {UnaryFn::sqrt, "sqrt", 1, Accepts::floating, Save::outputs, vjp::sqrt},
    {UnaryFn::rsqrt, "rsqrt", 2, Accepts::floating, Save::outputs, vjp::rsqrt},
    {UnaryFn::reciprocal, "reciprocal", 1, Accepts::floating, Save::outputs, vjp::reciprocal},
    {UnaryFn::sin, "sin", 10, Accepts::floating, Save::inputs, vjp::sin},
    {UnaryFn::cos, "cos", 10, Accepts::floating, Save::inputs, vjp::cos},
    {UnaryFn::tanh, "tanh", 12, Accepts::floating, Save::outputs, vjp::tanh},
    {UnaryFn::sigmoid, "sigmoid", 12, Accepts::floating, Save::outputs, vjp::sigmoid},
    {UnaryFn::erf, "erf", 12, Accepts::floating, Save::inputs, vjp::erf},
    {UnaryFn::leaky_relu, "leaky_relu", 1, Accepts::floating, Save::inputs,
     vjp::at_x<BinaryFn::leaky_relu_grad>},
    {UnaryFn::silu, "silu", 13, Accepts::floating, Save::inputs, vjp::at_x<BinaryFn::silu_grad>},
    {UnaryFn::gelu, "gelu", 16, Accepts::floating, Save::inputs, vjp::at_x<BinaryFn::gelu_grad>},
    {UnaryFn::gelu_tanh, "gelu_tanh", 20, Accepts::floating, Save::inputs,
     vjp::at_x<BinaryFn::gelu_tanh_grad>},
    {UnaryFn::softplus, "softplus", 24, Accepts::floating, Save::inputs, vjp::at_x<BinaryFn::softplus_grad>},
    {UnaryFn::elu, "elu", 12, Accepts::floating, Save::inputs, vjp::at_x<BinaryFn::elu_grad>},
    {UnaryFn::hardswish, "hardswish", 5, Accepts::floating, Save::inputs,
     vjp::at_x<BinaryFn::hardswish_grad>},
    {UnaryFn::mish, "mish", 16, Accepts::floating, Save::inputs, vjp::at_x<BinaryFn::mish_grad>},
};
static_assert(std::size(kUnaryRules) == backend::kUnaryCount, "one row per UnaryFn, in its order");

struct Unary final : Primitive<Unary> {
  static constexpr const char* kName = "unary";
  UnaryFn fn;
  double p0, p1;
  explicit Unary(UnaryFn f, double a = 0, double b = 0) : fn(f), p0(a), p1(b) {}

  const UnaryRule& rule() const { return kUnaryRules[static_cast<size_t>(fn)]; }
  const char* name() const override { return rule().name; }
  Specs infer(const Tensors& in, Loc loc) const override {
    require_accepted(name(), rule().accepts, in[0], loc);
    const DType dtype = fn == UnaryFn::logical_not ? DType::boolean : in[0].dtype();
    return {{in[0].shape(), dtype, kept_layout(in, in[0].shape())}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return rule().flops * static_cast<double>(in[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], unary(fn, out[0].view_of(), in[0].view_of(), p0, p1));
  }
  bool pointwise(PointwiseStep& s) const override { return s.set(PointwiseKind::unary, fn, p0, p1); }
  Save saves() const override { return rule().saves; }
  bool differentiable() const override { return rule().vjp != nullptr; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    static const Tensor none;
    return {rule().vjp(
        {g[0], s.inputs.empty() ? none : s.inputs[0], s.outputs.empty() ? none : s.outputs[0], p0, p1})};
  }
};

struct BinaryRule {
  BinaryFn fn;
  const char* name;
  double flops;
  Accepts accepts;
  bool gives_bool;
  Save saves;
  BinaryVjp vjp;
};

// Rows are in the order of BinaryFn. *_grad: derivatives; theirs are in vjp/second_derivative.hpp.
inline constexpr BinaryRule kBinaryRules[] = {
    {BinaryFn::add, "add", 1, Accepts::numbers, false, Save::nothing, vjp::add},
    {BinaryFn::sub, "sub", 1, Accepts::numbers, false, Save::nothing, vjp::sub},
    {BinaryFn::mul, "mul", 1, Accepts::numbers, false, Save::inputs, vjp::mul},
    {BinaryFn::maximum, "maximum", 1, Accepts::anything, false, Save::inputs, vjp::maximum},
    {BinaryFn::minimum, "minimum", 1, Accepts::anything, false, Save::inputs, vjp::minimum},
    {BinaryFn::eq, "eq", 1, Accepts::anything, true, Save::nothing, nullptr},
    {BinaryFn::ne, "ne", 1, Accepts::anything, true, Save::nothing, nullptr},
    {BinaryFn::lt, "lt", 1, Accepts::anything, true, Save::nothing, nullptr},
    {BinaryFn::le, "le", 1, Accepts::anything, true, Save::nothing, nullptr},
    {BinaryFn::gt, "gt", 1, Accepts::anything, true, Save::nothing, nullptr},
    {BinaryFn::ge, "ge", 1, Accepts::anything, true, Save::nothing, nullptr},
    {BinaryFn::logical_and, "logical_and", 1, Accepts::anything, true, Save::nothing, nullptr},
    {BinaryFn::logical_or, "logical_or", 1, Accepts::anything, true, Save::nothing, nullptr},
    {BinaryFn::div, "div", 1, Accepts::floating, false, Save::inputs, vjp::div},
    {BinaryFn::pow, "pow", 20, Accepts::floating, false, Save::both, vjp::pow},
    {BinaryFn::relu_grad, "relu_grad", 1, Accepts::numbers, false, Save::inputs, nullptr},
    {BinaryFn::leaky_relu_grad, "leaky_relu_grad", 1, Accepts::floating, false, Save::inputs, nullptr},
    {BinaryFn::tanh_grad, "tanh_grad", 3, Accepts::floating, false, Save::inputs, nullptr},
    {BinaryFn::sigmoid_grad, "sigmoid_grad", 3, Accepts::floating, false, Save::inputs, nullptr},
    {BinaryFn::silu_grad, "silu_grad", 16, Accepts::floating, false, Save::inputs, nullptr},
    {BinaryFn::gelu_grad, "gelu_grad", 28, Accepts::floating, false, Save::inputs, nullptr},
    {BinaryFn::gelu_tanh_grad, "gelu_tanh_grad", 28, Accepts::floating, false, Save::inputs, nullptr},
    {BinaryFn::softplus_grad, "softplus_grad", 14, Accepts::floating, false, Save::inputs, nullptr},
    {BinaryFn::elu_grad, "elu_grad", 12, Accepts::floating, false, Save::inputs, nullptr},
    {BinaryFn::hardswish_grad, "hardswish_grad", 4, Accepts::floating, false, Save::inputs, nullptr},
    {BinaryFn::mish_grad, "mish_grad", 22, Accepts::floating, false, Save::inputs, nullptr},
};
static_assert(std::size(kBinaryRules) == backend::kBinaryCount, "one row per BinaryFn, in its order");

struct Binary final : Primitive<Binary> {
  static constexpr const char* kName = "binary";
  BinaryFn fn;
  double p0;
  explicit Binary(BinaryFn f, double a = 0) : fn(f), p0(a) {}

  const BinaryRule& rule() const { return kBinaryRules[static_cast<size_t>(fn)]; }
  const char* name() const override { return rule().name; }
  Specs infer(const Tensors& in, Loc loc) const override {
    require_same_dtype(name(), in, loc);
    require_accepted(name(), rule().accepts, in[0], loc);
    const Shape shape = broadcast_or_fail(name(), in[0], in[1], loc);
    const DType dtype = rule().gives_bool ? DType::boolean : in[0].dtype();
    return {{shape, dtype, kept_layout(in, shape)}};
  }
  double flops(const Tensors&, const Tensors& out) const override {
    return rule().flops * static_cast<double>(out[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    if (backend::is_activation_grad(fn)) {
      TT_KERNEL(out[0], activation_grad(fn, out[0].view_of(), in[0].view_of(), in[1].view_of(), p0));
    } else {
      TT_KERNEL(out[0], binary(fn, out[0].view_of(), in[0].view_of(), in[1].view_of(), p0));
    }
  }
  bool pointwise(PointwiseStep& s) const override { return s.set(PointwiseKind::binary, fn, p0); }
  Save saves() const override { return rule().saves; }
  int reader_of(size_t i) const override {
    if (fn == BinaryFn::mul) return i == 0 ? 1 : 0;
    return fn == BinaryFn::div && i == 0 ? 1 : -1;
  }
  bool differentiable() const override { return rule().vjp != nullptr || backend::is_activation_grad(fn); }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    if (!rule().vjp) return vjp::activation_grad(fn, p0, g[0], s);
    static const Tensor none;
    const bool has_inputs = !s.inputs.empty();
    const BinaryGrads grads =
        rule().vjp({g[0], has_inputs ? s.inputs[0] : none, has_inputs ? s.inputs[1] : none,
                    s.outputs.empty() ? none : s.outputs[0], s.needs_grad[0], s.needs_grad[1]});
    return {s.needs_grad[0] ? sum_to(grads.a, s.input_shapes[0]) : Tensor(),
            s.needs_grad[1] ? sum_to(grads.b, s.input_shapes[1]) : Tensor()};
  }
};

struct Where final : Primitive<Where> {
  static constexpr const char* kName = "where";
  Specs infer(const Tensors& in, Loc loc) const override {
    if (in[0].dtype() != DType::boolean) {
      fail("TT-DTYPE-06",
           "where: the condition must be bool, got " + in[0].describe() +
               "\n  hint: compare first, for example x > 0",
           loc);
    }
    if (in[1].dtype() != in[2].dtype()) require_same_dtype(kName, {in[1], in[2]}, loc);
    const Shape values = broadcast_or_fail(kName, in[1], in[2], loc);
    if (const auto shape = broadcast_shapes(values, in[0].shape())) {
      return {{*shape, in[1].dtype(), kept_layout(in, *shape)}};
    }
    fail("TT-SHAPE-02", "where: shapes do not broadcast: " + describe_operands(in), loc);
  }
  double flops(const Tensors&, const Tensors& out) const override {
    return static_cast<double>(out[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], where(out[0].view_of(), in[0].view_of(), in[1].view_of(), in[2].view_of()));
  }
  bool pointwise(PointwiseStep& s) const override { return s.set(PointwiseKind::where); }
  Save saves() const override { return Save::inputs; }
  bool saves_input(size_t i) const override { return i == 0; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    const Tensor zero = scalar_like(0, g[0]);
    return {Tensor(), sum_to(tinytorch::where(s.inputs[0], g[0], zero), s.input_shapes[1]),
            sum_to(tinytorch::where(s.inputs[0], zero, g[0]), s.input_shapes[2])};
  }
};

// Conversion of the element type; with the same type, a copy.
struct Cast final : Primitive<Cast> {
  static constexpr const char* kName = "cast";
  DType from, to;
  bool row_major;  // regardless of the input's layout
  Cast(DType f, DType t, bool in_rows = false) : from(f), to(t), row_major(in_rows) {}
  Specs infer(const Tensors& in, Loc) const override {
    return {{in[0].shape(), to, row_major ? int8_t{-1} : kept_layout(in, in[0].shape())}};
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], copy(out[0].view_of(), in[0].view_of()));
  }
  bool pointwise(PointwiseStep& s) const override { return s.set(PointwiseKind::convert); }
  bool differentiable() const override { return is_floating(from) && is_floating(to); }
  Tensors vjp(const Saved&, const Tensors& g) const override { return {g[0].to(from)}; }
};

TT_API Tensor derivative_times(BinaryFn fn, const Tensor& g, const Tensor& v, double p0) {
  return apply(Binary(fn, p0), {g, v});
}

// clang-format off
TT_API Tensor neg(const Tensor& x, Loc loc) { return apply(Unary(UnaryFn::neg), {x}, loc); }
TT_API Tensor abs(const Tensor& x, Loc loc) { return apply(Unary(UnaryFn::abs), {x}, loc); }
TT_API Tensor sign(const Tensor& x, Loc loc) { return apply(Unary(UnaryFn::sign), {x}, loc); }
TT_API Tensor square(const Tensor& x, Loc loc) { return apply(Unary(UnaryFn::square), {x}, loc); }
TT_API Tensor floor(const Tensor& x, Loc loc) { return apply(Unary(UnaryFn::floor), {x}, loc); }
TT_API Tensor ceil(const Tensor& x, Loc loc) { return apply(Unary(UnaryFn::ceil), {x}, loc); }
TT_API Tensor round(const Tensor& x, Loc loc) { return apply(Unary(UnaryFn::round), {x}, loc); }
TT_API Tensor logical_not(const Tensor& x, Loc loc) { return apply(Unary(UnaryFn::logical_not), {x}, loc); }
TT_API Tensor exp(const Tensor& x, Loc loc) { return apply(Unary(UnaryFn::exp), {x}, loc); }
TT_API Tensor log(const Tensor& x, Loc loc) { return apply(Unary(UnaryFn::log), {x}, loc); }
TT_API Tensor log1p(const Tensor& x, Loc loc) { return apply(Unary(UnaryFn::log1p), {x}, loc); }
TT_API Tensor expm1(const Tensor& x, Loc loc) { return apply(Unary(UnaryFn::expm1), {x}, loc); }
TT_API Tensor sqrt(const Tensor& x, Loc loc) { return apply(Unary(UnaryFn::sqrt), {x}, loc); }
TT_API Tensor rsqrt(const Tensor& x, Loc loc) { return apply(Unary(UnaryFn::rsqrt), {x}, loc); }
TT_API Tensor reciprocal(const Tensor& x, Loc loc) { return apply(Unary(UnaryFn::reciprocal), {x}, loc); }
TT_API Tensor sin(const Tensor& x, Loc loc) { return apply(Unary(UnaryFn::sin), {x}, loc); }
TT_API Tensor cos(const Tensor& x, Loc loc) { return apply(Unary(UnaryFn::cos), {x}, loc); }
TT_API Tensor tanh(const Tensor& x, Loc loc) { return apply(Unary(UnaryFn::tanh), {x}, loc); }
TT_API Tensor sigmoid(const Tensor& x, Loc loc) { return apply(Unary(UnaryFn::sigmoid), {x}, loc); }
TT_API Tensor erf(const Tensor& x, Loc loc) { return apply(Unary(UnaryFn::erf), {x}, loc); }
TT_API Tensor relu(const Tensor& x, Loc loc) { return apply(Unary(UnaryFn::relu), {x}, loc); }
TT_API Tensor leaky_relu(const Tensor& x, double slope, Loc loc) { return apply(Unary(UnaryFn::leaky_relu, slope), {x}, loc); }
TT_API Tensor silu(const Tensor& x, Loc loc) { return apply(Unary(UnaryFn::silu), {x}, loc); }
TT_API Tensor gelu(const Tensor& x, Loc loc) { return apply(Unary(UnaryFn::gelu), {x}, loc); }
TT_API Tensor gelu_tanh(const Tensor& x, Loc loc) { return apply(Unary(UnaryFn::gelu_tanh), {x}, loc); }
TT_API Tensor softplus(const Tensor& x, double beta, Loc loc) {
  if (!(beta > 0)) fail("TT-RANGE-02", "softplus: beta must be positive, got " + std::to_string(beta), loc);
  return apply(Unary(UnaryFn::softplus, beta), {x}, loc);
}
TT_API Tensor elu(const Tensor& x, double alpha, Loc loc) { return apply(Unary(UnaryFn::elu, alpha), {x}, loc); }
TT_API Tensor hardswish(const Tensor& x, Loc loc) { return apply(Unary(UnaryFn::hardswish), {x}, loc); }
TT_API Tensor mish(const Tensor& x, Loc loc) { return apply(Unary(UnaryFn::mish), {x}, loc); }

TT_API Tensor add(const Tensor& a, const Tensor& b, Loc loc) { return apply(Binary(BinaryFn::add), {a, b}, loc); }
TT_API Tensor sub(const Tensor& a, const Tensor& b, Loc loc) { return apply(Binary(BinaryFn::sub), {a, b}, loc); }
TT_API Tensor mul(const Tensor& a, const Tensor& b, Loc loc) { return apply(Binary(BinaryFn::mul), {a, b}, loc); }
TT_API Tensor div(const Tensor& a, const Tensor& b, Loc loc) { return apply(Binary(BinaryFn::div), {a, b}, loc); }
TT_API Tensor pow(const Tensor& a, const Tensor& b, Loc loc) { return apply(Binary(BinaryFn::pow), {a, b}, loc); }
TT_API Tensor maximum(const Tensor& a, const Tensor& b, Loc loc) { return apply(Binary(BinaryFn::maximum), {a, b}, loc); }
TT_API Tensor minimum(const Tensor& a, const Tensor& b, Loc loc) { return apply(Binary(BinaryFn::minimum), {a, b}, loc); }
TT_API Tensor eq(const Tensor& a, const Tensor& b, Loc loc) { return apply(Binary(BinaryFn::eq), {a, b}, loc); }
TT_API Tensor ne(const Tensor& a, const Tensor& b, Loc loc) { return apply(Binary(BinaryFn::ne), {a, b}, loc); }
TT_API Tensor lt(const Tensor& a, const Tensor& b, Loc loc) { return apply(Binary(BinaryFn::lt), {a, b}, loc); }
TT_API Tensor le(const Tensor& a, const Tensor& b, Loc loc) { return apply(Binary(BinaryFn::le), {a, b}, loc); }
TT_API Tensor gt(const Tensor& a, const Tensor& b, Loc loc) { return apply(Binary(BinaryFn::gt), {a, b}, loc); }
TT_API Tensor ge(const Tensor& a, const Tensor& b, Loc loc) { return apply(Binary(BinaryFn::ge), {a, b}, loc); }
TT_API Tensor logical_and(const Tensor& a, const Tensor& b, Loc loc) { return apply(Binary(BinaryFn::logical_and), {a, b}, loc); }
TT_API Tensor logical_or(const Tensor& a, const Tensor& b, Loc loc) { return apply(Binary(BinaryFn::logical_or), {a, b}, loc); }
TT_API Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b, Loc loc) { return apply(Where(), {condition, a, b}, loc); }
TT_API Tensor clone(const Tensor& x, Loc loc) { require_defined("clone", loc, x); return apply(Cast(x.dtype(), x.dtype()), {x}, loc); }
TT_API Tensor cast(const Tensor& x, DType dtype, Loc loc) { require_defined("cast", loc, x); return dtype == x.dtype() ? x : apply(Cast(x.dtype(), dtype), {x}, loc); }
TT_API Tensor contiguous(const Tensor& x, Loc loc) { require_defined("contiguous", loc, x); return x.is_contiguous() ? x : apply(Cast(x.dtype(), x.dtype(), true), {x}, loc); }
// clang-format on

// A bound outside the dtype's range has no effect if it is a lower bound below the range or an upper bound
// above.
TT_API Tensor clamp(const Tensor& x, Scalar low, Scalar high, Loc loc) {
  require_defined("clamp", loc, x);
  const DType t = x.dtype();
  const auto idle = [&](Scalar bound, bool below) {
    const bool whole = bound.integral || std::floor(bound.real) == bound.real;
    return whole && !can_hold(t, bound) && (bound.real < 0) == below;
  };
  const bool no_low = idle(low, true), no_high = idle(high, false);
  if (!no_low) require_holds(x, low, loc);
  if (!no_high) require_holds(x, high, loc);
  if (t == DType::i64) {  // the kernel's bounds are doubles, which cannot hold every i64
    const Tensor at_least = no_low ? x : maximum(x, scalar_like(low, x, loc), loc);
    return no_high ? at_least : minimum(at_least, scalar_like(high, x, loc), loc);
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return apply(Unary(UnaryFn::clamp, no_low ? -kInfinity : low.real, no_high ? kInfinity : high.real), {x},
               loc);
}
TT_API Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value, Loc loc) {
  require_defined("masked_fill", loc, x, mask);
  return where(mask, scalar_like(value, x, loc), x, loc);
}

// --- operators ---

// The number in `x op value` as a tensor of rank 0.
inline Tensor scalar_operand(const char* op, const TensorArg& x, Scalar value) {
  require_defined(op, x.loc, x.tensor);
  return scalar_like(value, x.tensor, x.loc);
}

// Compares x with a number that the dtype cannot hold. Every element of an integer tensor is on the same side
// of it; so is every finite element of a float tensor.
[[gnu::noinline]] inline Tensor compare_out_of_range(BinaryFn fn, const Tensor& x, Scalar value, Loc loc) {
  const bool above = value.real > 0;  // the number is above all finite elements
  if (!is_floating(x.dtype())) {
    const bool fraction = !value.integral && std::floor(value.real) != value.real;
    if (fraction) scalar_like(value, x, loc);  // throws: the user must round to say which integer is meant
    const bool less = above, answer = fn == BinaryFn::ne || (fn == BinaryFn::lt && less) ||
                                      (fn == BinaryFn::le && less) || (fn == BinaryFn::gt && !less) ||
                                      (fn == BinaryFn::ge && !less);
    return full(x.shape(), answer, DType::boolean, x.device(), loc);
  }
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor beyond = scalar_like(above ? infinity : -infinity, x, loc);
  const bool never = fn == BinaryFn::eq, always = fn == BinaryFn::ne;
  if (never || always) return full(x.shape(), always, DType::boolean, x.device(), loc);
  const bool asks_less = fn == BinaryFn::lt || fn == BinaryFn::le;
  if (asks_less) return above ? lt(x, beyond, loc) : le(x, beyond, loc);
  return above ? ge(x, beyond, loc) : gt(x, beyond, loc);
}
inline Tensor compare(BinaryFn fn, TensorArg x, Scalar value) {
  const Tensor& t = x.tensor;
  if (!t.defined()) fail_undefined(Binary(fn).name(), 1, x.loc);
  if (!can_hold(t.dtype(), value)) return compare_out_of_range(fn, t, value, x.loc);
  return apply(Binary(fn), {t, scalar_like(value, t, x.loc)}, x.loc);
}

TT_API Tensor operator-(TensorArg x) { return neg(x.tensor, x.loc); }
TT_API Tensor operator!(const Tensor& x) { return logical_not(x); }
TT_API Tensor operator&&(const Tensor& a, TensorArg b) { return logical_and(a, b.tensor, b.loc); }
TT_API Tensor operator||(const Tensor& a, TensorArg b) { return logical_or(a, b.tensor, b.loc); }

TT_API Tensor operator+(TensorArg a, TensorArg b) { return add(a.tensor, b.tensor, a.loc); }
TT_API Tensor operator+(TensorArg a, Scalar b) { return add(a.tensor, scalar_operand("add", a, b), a.loc); }
TT_API Tensor operator+(Scalar a, TensorArg b) { return add(scalar_operand("add", b, a), b.tensor, b.loc); }

TT_API Tensor operator-(TensorArg a, TensorArg b) { return sub(a.tensor, b.tensor, a.loc); }
TT_API Tensor operator-(TensorArg a, Scalar b) { return sub(a.tensor, scalar_operand("sub", a, b), a.loc); }
TT_API Tensor operator-(Scalar a, TensorArg b) { return sub(scalar_operand("sub", b, a), b.tensor, b.loc); }

TT_API Tensor operator*(TensorArg a, TensorArg b) { return mul(a.tensor, b.tensor, a.loc); }
TT_API Tensor operator*(TensorArg a, Scalar b) { return mul(a.tensor, scalar_operand("mul", a, b), a.loc); }
TT_API Tensor operator*(Scalar a, TensorArg b) { return mul(scalar_operand("mul", b, a), b.tensor, b.loc); }

TT_API Tensor operator/(TensorArg a, TensorArg b) { return div(a.tensor, b.tensor, a.loc); }
TT_API Tensor operator/(TensorArg a, Scalar b) { return div(a.tensor, scalar_operand("div", a, b), a.loc); }
TT_API Tensor operator/(Scalar a, TensorArg b) { return div(scalar_operand("div", b, a), b.tensor, b.loc); }

TT_API Tensor operator==(TensorArg a, TensorArg b) { return eq(a.tensor, b.tensor, a.loc); }
TT_API Tensor operator==(TensorArg a, Scalar b) { return compare(BinaryFn::eq, a, b); }
TT_API Tensor operator==(Scalar a, TensorArg b) { return compare(BinaryFn::eq, b, a); }

TT_API Tensor operator!=(TensorArg a, TensorArg b) { return ne(a.tensor, b.tensor, a.loc); }
TT_API Tensor operator!=(TensorArg a, Scalar b) { return compare(BinaryFn::ne, a, b); }
TT_API Tensor operator!=(Scalar a, TensorArg b) { return compare(BinaryFn::ne, b, a); }

TT_API Tensor operator<(TensorArg a, TensorArg b) { return lt(a.tensor, b.tensor, a.loc); }
TT_API Tensor operator<(TensorArg a, Scalar b) { return compare(BinaryFn::lt, a, b); }
TT_API Tensor operator<(Scalar a, TensorArg b) { return compare(BinaryFn::gt, b, a); }

TT_API Tensor operator<=(TensorArg a, TensorArg b) { return le(a.tensor, b.tensor, a.loc); }
TT_API Tensor operator<=(TensorArg a, Scalar b) { return compare(BinaryFn::le, a, b); }
TT_API Tensor operator<=(Scalar a, TensorArg b) { return compare(BinaryFn::ge, b, a); }

TT_API Tensor operator>(TensorArg a, TensorArg b) { return gt(a.tensor, b.tensor, a.loc); }
TT_API Tensor operator>(TensorArg a, Scalar b) { return compare(BinaryFn::gt, a, b); }
TT_API Tensor operator>(Scalar a, TensorArg b) { return compare(BinaryFn::lt, b, a); }

TT_API Tensor operator>=(TensorArg a, TensorArg b) { return ge(a.tensor, b.tensor, a.loc); }
TT_API Tensor operator>=(TensorArg a, Scalar b) { return compare(BinaryFn::ge, a, b); }
TT_API Tensor operator>=(Scalar a, TensorArg b) { return compare(BinaryFn::le, b, a); }

}  // namespace tinytorch::inline TT_BUILD
#endif
