// Elementwise operations: unary, binary, and the choice of elements.
#pragma once

#include <limits>
#include <numbers>
#include <support/op_case.hpp>

namespace cases {

inline double gelu_exact(double x) { return 0.5 * x * std::erfc(-x * std::numbers::sqrt2 / 2); }
inline double gelu_tanh_exact(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
inline double gelu_slope(double x) {
  return 0.5 * std::erfc(-x * std::numbers::sqrt2 / 2) +
         x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
}
inline double gelu_tanh_slope(double x) {
  const double scale = std::sqrt(2 / std::numbers::pi), t = std::tanh(scale * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * scale * (1 + 3 * 0.044715 * x * x);
}
inline double sigmoid_exact(double x) { return 1 / (1 + std::exp(-x)); }
inline double mish_exact(double x) {
  return x * std::tanh(std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))));
}

// clang-format off
inline std::vector<OpCase> unary_cases() {
  const auto off_integers = [](double x) { return std::floor(x) + 0.2 + 0.1 * (x - std::floor(x)); };
  return {
      OP("torch.neg(x)", neg(x)).exact(UnaryFn::neg, [](double x) { return -x; }, 1, -3, 3).of(kNumbers).bench("x"),
      OP("torch.abs(x)", abs(x)).exact(UnaryFn::abs, [](double x) { return std::abs(x); }, 1, -3, 3).nudged(away_from({0})).of(kNumbers).bench("x"),
      OP("torch.sign(x)", sign(x)).exact(UnaryFn::sign, [](double x) { return x != x ? x : double(x > 0) - double(x < 0); }, 1, -3, 3).nudged(away_from({0})).of(kNumbers).bench("x"),
      OP("torch.square(x)", square(x)).exact(UnaryFn::square, [](double x) { return x * x; }, 1, -3, 3).of(kNumbers).bench("x"),
      OP("torch.floor(x)", floor(x)).exact(UnaryFn::floor, [](double x) { return std::floor(x); }, 1, -3, 3).nudged(off_integers).of(kNumbers).bench("x"),
      OP("torch.ceil(x)", ceil(x)).exact(UnaryFn::ceil, [](double x) { return std::ceil(x); }, 1, -3, 3).nudged(off_integers).of(kNumbers).bench("x"),
      OP("torch.round(x)", round(x)).exact(UnaryFn::round, [](double x) { return std::nearbyint(x); }, 1, -3, 3).nudged(off_integers).of(kNumbers).bench("x"),
      OP("torch.clamp(x, -0.5, 1.25)", clamp(x, -0.5, 1.25)).exact(UnaryFn::clamp, [](double x) { return x < -0.5 ? -0.5 : (x > 1.25 ? 1.25 : x); }, 2, -3, 3).parameters(-0.5, 1.25).nudged(away_from({-0.5, 1.25})).bench("x"),
      OP("torch.clamp(x, -2, 1)", clamp(x, -2, 1)).exact(UnaryFn::clamp, [](double x) { return x < -2 ? -2 : (x > 1 ? 1 : x); }, 2, -3, 3).parameters(-2, 1).nudged(away_from({-2, 1})).of(kNumbers),
      OP("torch.relu(x)", relu(x)).exact(UnaryFn::relu, [](double x) { return x < 0 ? 0 : x; }, 1, -3, 3).nudged(away_from({0})).of(kNumbers).bench("x").bench("half", "relu bf16").bench_grad("x")
          .derivative_at_y(BinaryFn::relu_grad, [](double y) { return y > 0 ? 1.0 : 0.0; }),
      OP("torch.logical_not(x)", logical_not(x)).exact(UnaryFn::logical_not, [](double x) { return double(x == 0); }, 1, -3, 3).gives_bool().bench("flags"),
      OP("torch.exp(x)", exp(x)).exact(UnaryFn::exp, [](double x) { return std::exp(x); }, 10, -5, 5).bench("x").bench("half", "exp bf16"),
      OP("torch.log(x)", log(x)).exact(UnaryFn::log, [](double x) { return std::log(x); }, 10, 0.1, 9).bench("positive"),
      OP("torch.log1p(x)", log1p(x)).exact(UnaryFn::log1p, [](double x) { return std::log1p(x); }, 12, -0.9, 9).bench("positive"),
      OP("torch.expm1(x)", expm1(x)).exact(UnaryFn::expm1, [](double x) { return std::expm1(x); }, 12, -5, 5).bench("x"),
      OP("torch.sqrt(x)", sqrt(x)).exact(UnaryFn::sqrt, [](double x) { return std::sqrt(x); }, 1, 0.1, 9).bench("positive"),
      OP("torch.rsqrt(x)", rsqrt(x)).exact(UnaryFn::rsqrt, [](double x) { return 1 / std::sqrt(x); }, 2, 0.1, 9).bench("positive"),
      OP("torch.reciprocal(x)", reciprocal(x)).exact(UnaryFn::reciprocal, [](double x) { return 1 / x; }, 1, 0.2, 3).bench("positive"),
      OP("torch.sin(x)", sin(x)).exact(UnaryFn::sin, [](double x) { return std::sin(x); }, 10, -30, 30).bench("x"),
      OP("torch.cos(x)", cos(x)).exact(UnaryFn::cos, [](double x) { return std::cos(x); }, 10, -30, 30).bench("x"),
      OP("torch.tanh(x)", tanh(x)).exact(UnaryFn::tanh, [](double x) { return std::tanh(x); }, 12, -4, 4).bench("x")
          .derivative_at_y(BinaryFn::tanh_grad, [](double y) { return 1 - y * y; }),
      OP("torch.sigmoid(x)", sigmoid(x)).exact(UnaryFn::sigmoid, sigmoid_exact, 12, -8, 8).bench("x")
          .derivative_at_y(BinaryFn::sigmoid_grad, [](double y) { return y * (1 - y); }),
      OP("torch.erf(x)", erf(x)).exact(UnaryFn::erf, [](double x) { return std::erf(x); }, 12, -4, 4).bench("x"),
      OP("F.leaky_relu(x)", leaky_relu(x)).exact(UnaryFn::leaky_relu, [](double x) { return x < 0 ? 0.01 * x : x; }, 1, -3, 3).parameters(0.01).nudged(away_from({0})).bench("x"),
      OP("F.leaky_relu(x, 0.25)", leaky_relu(x, 0.25)).exact(UnaryFn::leaky_relu, [](double x) { return x < 0 ? 0.25 * x : x; }, 1, -3, 3).parameters(0.25)
          .derivative_at_x(BinaryFn::leaky_relu_grad, [](double x) { return x > 0 ? 1.0 : 0.25; }).nudged(away_from({0})),
      OP("F.silu(x)", silu(x)).exact(UnaryFn::silu, [](double x) { return x * sigmoid_exact(x); }, 13, -8, 8).bench("x")
          .derivative_at_x(BinaryFn::silu_grad, [](double x) { return sigmoid_exact(x) * (1 + x * (1 - sigmoid_exact(x))); }),
      // For negative x, 1 + erf(x / sqrt(2)) cancels.
      OP("F.gelu(x)", gelu(x)).exact(UnaryFn::gelu, gelu_exact, 16, -4, 4).relative_to_argument().bench("x").bench_grad("x")
          .derivative_at_x(BinaryFn::gelu_grad, gelu_slope),
      OP("F.gelu(x, approximate='tanh')", gelu_tanh(x)).exact(UnaryFn::gelu_tanh, gelu_tanh_exact, 20, -4, 4).relative_to_argument().bench("x")
          .derivative_at_x(BinaryFn::gelu_tanh_grad, gelu_tanh_slope),
      OP("F.softplus(x)", softplus(x)).exact(UnaryFn::softplus, [](double x) { return std::log1p(std::exp(-std::abs(x))) + std::max(x, 0.0); }, 24, -8, 8).parameters(1).bench("x").bench_grad("x"),
      OP("F.softplus(x, 2)", softplus(x, 2)).exact(UnaryFn::softplus, [](double x) { return std::log1p(std::exp(-std::abs(2 * x))) / 2 + std::max(x, 0.0); }, 24, -4, 4).parameters(2)
          .derivative_at_x(BinaryFn::softplus_grad, [](double x) { return sigmoid_exact(2 * x); }),
      OP("F.elu(x)", elu(x)).exact(UnaryFn::elu, [](double x) { return x > 0 ? x : std::expm1(x); }, 12, -4, 4).parameters(1).nudged(away_from({0})).bench("x").bench_grad("x"),
      OP("F.elu(x, 0.5)", elu(x, 0.5)).exact(UnaryFn::elu, [](double x) { return x > 0 ? x : 0.5 * std::expm1(x); }, 12, -4, 4).parameters(0.5)
          .derivative_at_x(BinaryFn::elu_grad, [](double x) { return x > 0 ? 1 : 0.5 * std::exp(x); }).nudged(away_from({0})),
      OP("F.hardswish(x)", hardswish(x)).exact(UnaryFn::hardswish, [](double x) { return x * std::min(x + 3 < 0 ? 0 : x + 3, 6.0) / 6; }, 5, -5, 5).nudged(away_from({-3, 3})).bench("x").bench_grad("x")
          .derivative_at_x(BinaryFn::hardswish_grad, [](double x) { return x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5; }),
      OP("F.mish(x)", mish(x)).exact(UnaryFn::mish, mish_exact, 16, -8, 8).bench("x").bench_grad("x")
          .derivative_at_x(BinaryFn::mish_grad, [](double x) { const double t = mish_exact(x) / x; return t + x * sigmoid_exact(x) * (1 - t * t); }),
  };
}

inline std::vector<OpCase> binary_cases() {
  return {
      OP("torch.add(x, y)", add(x, y)).exact(BinaryFn::add, [](double a, double b) { return a + b; }, 1).of(kNumbers).bench("x y").bench("m row", "add row")
          .bench("m column", "add column").bench("square other_t", "add transposed").bench("half half", "add bf16").bench_grad("m row", "add row"),
      OP("torch.sub(x, y)", sub(x, y)).exact(BinaryFn::sub, [](double a, double b) { return a - b; }, 1).of(kNumbers).bench("x y"),
      OP("torch.mul(x, y)", mul(x, y)).exact(BinaryFn::mul, [](double a, double b) { return a * b; }, 1).of(kNumbers).bench("x y").bench_grad("x y"),
      OP("torch.div(x, y)", div(x, y)).exact(BinaryFn::div, [](double a, double b) { return a / b; }, 1).range_of(1, 0.5, 3).bench("x y"),
      OP("torch.pow(x, y)", pow(x, y)).exact(BinaryFn::pow, [](double a, double b) { return std::pow(a, b); }, 20).range_of(0, 0.2, 3).bench("positive y"),
      OP("torch.maximum(x, y)", maximum(x, y)).exact(BinaryFn::maximum, [](double a, double b) { return a > b || a != a ? a : b; }, 1).of(kAnything).bench("x y"),
      OP("torch.minimum(x, y)", minimum(x, y)).exact(BinaryFn::minimum, [](double a, double b) { return a < b || a != a ? a : b; }, 1).of(kAnything).bench("x y"),
      OP("torch.eq(x, y)", eq(x, y)).exact(BinaryFn::eq, [](double a, double b) { return double(a == b); }, 1).gives_bool().with_ties().bench("x y"),
      OP("torch.ne(x, y)", ne(x, y)).exact(BinaryFn::ne, [](double a, double b) { return double(a != b); }, 1).gives_bool().with_ties().bench("x y"),
      OP("torch.lt(x, y)", lt(x, y)).exact(BinaryFn::lt, [](double a, double b) { return double(a < b); }, 1).gives_bool().with_ties().bench("x y"),
      OP("torch.le(x, y)", le(x, y)).exact(BinaryFn::le, [](double a, double b) { return double(a <= b); }, 1).gives_bool().with_ties().bench("x y"),
      OP("torch.gt(x, y)", gt(x, y)).exact(BinaryFn::gt, [](double a, double b) { return double(a > b); }, 1).gives_bool().with_ties().bench("x y"),
      OP("torch.ge(x, y)", ge(x, y)).exact(BinaryFn::ge, [](double a, double b) { return double(a >= b); }, 1).gives_bool().with_ties().bench("x y"),
      OP("torch.logical_and(x, y)", logical_and(x, y)).exact(BinaryFn::logical_and, [](double a, double b) { return double(a != 0 && b != 0); }, 1).gives_bool().with_ties().bench("flags flags"),
      OP("torch.logical_or(x, y)", logical_or(x, y)).exact(BinaryFn::logical_or, [](double a, double b) { return double(a != 0 || b != 0); }, 1).gives_bool().with_ties().bench("flags flags"),
  };
}

// Calls without an oracle here: with numbers, and the choice of elements, whose oracles are in choice_cases().
inline std::vector<OpCase> elementwise_calls() {
  return {
      OP("x + 1.5", x + 1.5).bench("x", "add scalar"),
      OP("x * 3", mul(x, scalar_like(3, x))),
      OP("torch.where(x, y, z)", where(x, y, z)).bench("flags m k"),
      OP("x.masked_fill(y, -2.5)", masked_fill(x, y, -2.5)).bench("m flags"),
  };
}
// clang-format on

inline std::vector<OpCase> choice_cases() {
  OpCase where;
  where.name = "where";
  where.operands = {{.shape = mat(), .dtype = tt::boolean},
                    {.shape =
                         [](int64_t n) {
                           return Shape{2, n, 1};
                         }},
                    {.shape = [](int64_t) { return Shape{3}; }}};
  where.forward = [](const Tensors& in) { return tt::where(in[0], in[1], in[2]); };
  where.oracle = [](const std::vector<Array>& in) {
    return oracle::tabulate(oracle::broadcast(in[1].shape, oracle::broadcast(in[0].shape, in[2].shape)),
                            [&](const Dims& i) { return in[0](i) != 0 ? in[1](i) : in[2](i); });
  };
  where.flops = [](const std::vector<Array>&, const Array& out) {
    return static_cast<double>(out.values.size());
  };
  where.dtypes = kAnything;

  OpCase same = where;  // all operands have the same shape
  for (auto& operand : same.operands) operand.shape = mat();

  OpCase fill;
  fill.name = "masked_fill";
  fill.operands = {{.shape = cube()}, {.shape = mat(), .dtype = tt::boolean}};
  fill.forward = [](const Tensors& in) { return tt::masked_fill(in[0], in[1], 7); };
  fill.oracle = [](const std::vector<Array>& in) {
    return oracle::map2(in[0], in[1], [](double x, double m) { return m != 0 ? 7 : x; });
  };
  fill.dtypes = kNumbers;
  return {where, same, fill};
}

inline std::vector<OpCase> elementwise_cases() {
  std::vector<OpCase> all = unary_cases();
  for (const OpCase& c : binary_cases()) all.push_back(c);
  for (const OpCase& c : choice_cases()) all.push_back(c);
  return all;
}

}  // namespace cases
