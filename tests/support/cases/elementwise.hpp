// Cases of the elementwise family, for backend/cpu/elementwise and tensor/ops/elementwise.
#pragma once

#include <limits>
#include <numbers>
#include <support/op_case.hpp>

namespace cases {

inline OpCase unary(std::string name, Tensor (*f)(const Tensor&, tt::Loc), double (*g)(double), double flops,
                    double low, double high, std::function<double(double)> nudge = {}, double ulps = 4) {
  OpCase c;
  c.name = std::move(name);
  c.operands = {{.shape = mat(), .low = low, .high = high, .nudge = std::move(nudge)}};
  c.forward = [f](const Tensors& in) { return f(in[0], tt::Loc::current()); };
  c.oracle = [g](const std::vector<Array>& in) { return oracle::map(in[0], g); };
  c.flops = [flops](const std::vector<Array>&, const Array& out) {
    return flops * static_cast<double>(out.values.size());
  };
  c.ulps = ulps;
  return c;
}

inline double gelu_exact(double x) { return 0.5 * x * std::erfc(-x * std::numbers::sqrt2 / 2); }
inline double gelu_tanh_exact(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
inline double sigmoid_exact(double x) { return 1 / (1 + std::exp(-x)); }

inline std::vector<OpCase> unary_cases() {
  const auto off_integers = [](double x) { return std::floor(x) + 0.2 + 0.1 * (x - std::floor(x)); };
  std::vector<OpCase> all;
  const auto numbers = [&](OpCase c) {
    c.dtypes = kNumbers;
    all.push_back(c);
  };
  numbers(unary(
      "neg", tt::neg, [](double x) { return -x; }, 1, -3, 3));
  numbers(unary(
      "abs", tt::abs, [](double x) { return std::abs(x); }, 1, -3, 3, away_from({0})));
  numbers(unary(
      "sign", tt::sign, [](double x) { return double(x > 0) - double(x < 0); }, 1, -3, 3, away_from({0})));
  numbers(unary(
      "square", tt::square, [](double x) { return x * x; }, 1, -3, 3));
  numbers(unary(
      "floor", tt::floor, [](double x) { return std::floor(x); }, 1, -3, 3, off_integers));
  numbers(unary(
      "ceil", tt::ceil, [](double x) { return std::ceil(x); }, 1, -3, 3, off_integers));
  numbers(unary(
      "round", tt::round, [](double x) { return std::nearbyint(x); }, 1, -3, 3, off_integers));
  numbers(unary(
      "relu", tt::relu, [](double x) { return x > 0 ? x : 0; }, 1, -3, 3, away_from({0})));
  OpCase lnot = unary(
      "logical_not", tt::logical_not, [](double x) { return double(x == 0); }, 1, -3, 3);
  lnot.dtypes = kAnything;
  lnot.result = ResultType::boolean;
  lnot.differentiable = false;
  all.push_back(lnot);

  all.push_back(unary(
      "exp", tt::exp, [](double x) { return std::exp(x); }, 10, -5, 5));
  all.push_back(unary(
      "log", tt::log, [](double x) { return std::log(x); }, 10, 0.1, 9));
  all.push_back(unary(
      "sqrt", tt::sqrt, [](double x) { return std::sqrt(x); }, 1, 0.1, 9));
  all.push_back(unary(
      "rsqrt", tt::rsqrt, [](double x) { return 1 / std::sqrt(x); }, 2, 0.1, 9));
  all.push_back(unary(
      "reciprocal", tt::reciprocal, [](double x) { return 1 / x; }, 1, 0.2, 3));
  all.push_back(unary(
      "sin", tt::sin, [](double x) { return std::sin(x); }, 10, -30, 30));
  all.push_back(unary(
      "cos", tt::cos, [](double x) { return std::cos(x); }, 10, -30, 30));
  all.push_back(unary(
      "tanh", tt::tanh, [](double x) { return std::tanh(x); }, 12, -4, 4));
  all.push_back(unary("sigmoid", tt::sigmoid, sigmoid_exact, 12, -8, 8));
  all.push_back(unary(
      "erf", tt::erf, [](double x) { return std::erf(x); }, 12, -4, 4));
  all.push_back(unary(
      "silu", tt::silu, [](double x) { return x * sigmoid_exact(x); }, 13, -8, 8));
  // 1 + erf cancels for negative x, so errors are relative to x, not to the small result.
  for (OpCase c : {unary("gelu", tt::gelu, gelu_exact, 16, -4, 4),
                   unary("gelu_tanh", tt::gelu_tanh, gelu_tanh_exact, 20, -4, 4)}) {
    const auto exact = c.oracle;
    c.oracle = [exact](const std::vector<Array>& in) {
      Array out = exact(in);
      for (double x : in[0].values) out.magnitude.push_back(std::abs(x));
      return out;
    };
    all.push_back(c);
  }
  OpCase leaky = unary(
      "leaky_relu", tt::relu, [](double x) { return x < 0 ? 0.125 * x : x; }, 1, -3, 3, away_from({0}));
  leaky.forward = [](const Tensors& in) { return tt::leaky_relu(in[0], 0.125); };
  all.push_back(leaky);
  OpCase clamp = unary(
      "clamp", tt::relu, [](double x) { return x < -2 ? -2 : (x > 1 ? 1 : x); }, 2, -3, 3,
      away_from({-2, 1}));
  clamp.forward = [](const Tensors& in) { return tt::clamp(in[0], -2, 1); };
  clamp.dtypes = kNumbers;
  all.push_back(clamp);
  return all;
}

inline OpCase binary(std::string name, Tensor (*f)(const Tensor&, const Tensor&, tt::Loc),
                     double (*g)(double, double), double flops, std::vector<DType> dtypes) {
  OpCase c;
  c.name = std::move(name);
  c.operands = {{.shape = [](int64_t n) { return Shape{2, n, 1}; }}, {.shape = mat()}};  // -> [2, n, 3]
  c.forward = [f](const Tensors& in) { return f(in[0], in[1], tt::Loc::current()); };
  c.oracle = [g](const std::vector<Array>& in) { return oracle::map2(in[0], in[1], g); };
  c.flops = [flops](const std::vector<Array>&, const Array& out) {
    return flops * static_cast<double>(out.values.size());
  };
  c.dtypes = std::move(dtypes);
  return c;
}

inline std::vector<OpCase> binary_cases() {
  std::vector<OpCase> all;
  all.push_back(binary(
      "add", tt::add, [](double a, double b) { return a + b; }, 1, kNumbers));
  all.push_back(binary(
      "sub", tt::sub, [](double a, double b) { return a - b; }, 1, kNumbers));
  all.push_back(binary(
      "mul", tt::mul, [](double a, double b) { return a * b; }, 1, kNumbers));
  all.push_back(binary(
      "maximum", tt::maximum, [](double a, double b) { return a > b ? a : b; }, 1, kAnything));
  all.push_back(binary(
      "minimum", tt::minimum, [](double a, double b) { return a < b ? a : b; }, 1, kAnything));
  OpCase div = binary(
      "div", tt::div, [](double a, double b) { return a / b; }, 1, kFloating);
  div.operands[1].low = 0.5;
  all.push_back(div);
  OpCase pow = binary(
      "pow", tt::pow, [](double a, double b) { return std::pow(a, b); }, 20, kFloating);
  pow.operands[0].low = 0.2;
  all.push_back(pow);
  const auto comparison = [&](std::string name, Tensor (*f)(const Tensor&, const Tensor&, tt::Loc),
                              double (*g)(double, double)) {
    OpCase c = binary(std::move(name), f, g, 1, kAnything);
    c.result = ResultType::boolean;
    c.differentiable = false;
    c.operands[0].low = c.operands[1].low = -1.5;  // then some bf16 and f16 values are equal
    all.push_back(c);
  };
  comparison("eq", tt::eq, [](double a, double b) { return double(a == b); });
  comparison("ne", tt::ne, [](double a, double b) { return double(a != b); });
  comparison("lt", tt::lt, [](double a, double b) { return double(a < b); });
  comparison("le", tt::le, [](double a, double b) { return double(a <= b); });
  comparison("gt", tt::gt, [](double a, double b) { return double(a > b); });
  comparison("ge", tt::ge, [](double a, double b) { return double(a >= b); });
  comparison("logical_and", tt::logical_and, [](double a, double b) { return double(a != 0 && b != 0); });
  comparison("logical_or", tt::logical_or, [](double a, double b) { return double(a != 0 || b != 0); });
  return all;
}

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
