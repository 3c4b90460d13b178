#include "reference.hpp"

#include <tinytorch/tensor/vjp/elementwise.hpp>

using namespace course;

namespace {

enum class Gives { x, y };  // the tensor that the op saves
struct UnaryCase {
  const char* name;
  UnaryVjp rule;
  double (*f)(double);
  Gives gives;
  double low, high;
};
const UnaryCase kExp = {"exp", vjp::exp, std::exp, Gives::y, -2, 2};
const UnaryCase kLog = {"log", vjp::log, std::log, Gives::x, 0.2, 3};
const UnaryCase kSqrt = {"sqrt", vjp::sqrt, std::sqrt, Gives::y, 0.2, 3};
const UnaryCase kTanh = {"tanh", vjp::tanh, std::tanh, Gives::y, -2, 2};
const UnaryCase kSigmoid = {"sigmoid", vjp::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); },
                            Gives::y,  -3,           3};

void check_unary(const UnaryCase& u, const Shape& shape, DType dtype = f64,
                 Layout layout = Layout::contiguous) {
  const Tensor x = random_tensor(shape, dtype, layout, u.low, u.high), g = random_tensor(shape, dtype);
  Numbers results = numbers_of(x);
  for (double& v : results) v = u.f(v);
  const Tensor y = tensor_of(shape, results, dtype, layout), none;
  Numbers want = numbers_of(g);
  for (size_t i = 0; i < want.size(); ++i) want[i] *= slope_of(u.f, numbers_of(x)[i]);
  const bool gives_x = u.gives == Gives::x;
  const std::string what = std::string("vjp::") + u.name + " for g and " + (gives_x ? "x" : "y") + " of " +
                           shape.str() + ", " + name_of(dtype) + ", " + name_of_layout(layout);
  try {
    const Tensor got = u.rule({g, gives_x ? x : none, gives_x ? none : y});
    expect_close(what, got, shape, want, {.roundings = slope_roundings(dtype)});
  } catch (const Error& e) {
    if (e.code() != "TT-TENSOR-01") throw;
    throw Mismatch(what + "\n  it used a tensor that " + u.name + " does not save: c." +
                   (gives_x ? "y" : "x") + " is undefined here\n  write the derivative with c." +
                   (gives_x ? "x" : "y"));
  }
}

struct BinaryCase {
  const char* name;
  BinaryVjp rule;
  double (*f)(double, double);
  double low, high;  // range of both operands
};
const BinaryCase kMul = {"mul", vjp::mul, [](double a, double b) { return a * b; }, -2, 2};
const BinaryCase kDiv = {"div", vjp::div, [](double a, double b) { return a / b; }, 0.5, 2};
const BinaryCase kPow = {"pow", vjp::pow, std::pow, 0.3, 2};

// The position, in an operand that is broadcast to `shape`, of element i of `shape`.
size_t stretched(int64_t i, const Shape& shape, const Shape& operand) {
  const Shape at = index_of(shape, i);
  int64_t linear = 0;
  for (int d = 0; d < operand.size(); ++d) {
    linear = linear * operand[d] + (operand[d] == 1 ? 0 : at[shape.size() - operand.size() + d]);
  }
  return static_cast<size_t>(linear);
}

void check_binary(const BinaryCase& r, const Shape& sa, const Shape& sb, const Shape& shape,
                  DType dtype = f64, bool need_a = true, bool need_b = true,
                  Layout layout = Layout::contiguous) {
  const Tensor a = random_tensor(sa, dtype, layout, r.low, r.high),
               b = random_tensor(sb, dtype, layout, r.low, r.high), g = random_tensor(shape, dtype);
  const Numbers na = numbers_of(a), nb = numbers_of(b), ng = numbers_of(g);
  Numbers ny(ng.size()), wa(ng.size()), wb(ng.size());
  for (size_t i = 0; i < ng.size(); ++i) {
    const double u = na[stretched(static_cast<int64_t>(i), shape, sa)],
                 v = nb[stretched(static_cast<int64_t>(i), shape, sb)];
    ny[i] = r.f(u, v);
    wa[i] = ng[i] * slope_of([&](double t) { return r.f(t, v); }, u);
    wb[i] = ng[i] * slope_of([&](double t) { return r.f(u, t); }, v);
  }
  const std::string what = std::string("vjp::") + r.name + " for a " + sa.str() + " and b " + sb.str() +
                           ", " + name_of(dtype) + ", " + name_of_layout(layout) +
                           (need_a ? "" : ", where da is not needed") +
                           (need_b ? "" : ", where db is not needed");
  const BinaryGrads grads = r.rule({g, a, b, tensor_of(shape, ny, dtype), need_a, need_b});
  const Tolerance tolerance{.roundings = slope_roundings(dtype), .scale = 4};
  if (need_a) expect_close(what + ": da", grads.a, shape, wa, tolerance);
  if (need_b) expect_close(what + ": db", grads.b, shape, wb, tolerance);
}

}  // namespace

TEST_CASE("2.1 exp, log and sqrt") {
  for (const UnaryCase* u : {&kExp, &kLog, &kSqrt}) check_unary(*u, {3});
}

TEST_CASE("2.1 tanh and sigmoid, from their results") {
  for (const UnaryCase* u : {&kTanh, &kSigmoid}) check_unary(*u, {5});
  // Saturated outputs have a derivative of 0, not NaN.
  const Tensor g = tensor_of({2}, {3, 5}), y = tensor_of({2}, {1, -1}), s = tensor_of({2}, {1, 0}), none;
  expect_close("vjp::tanh where y is 1 and -1", vjp::tanh({g, none, y}), {2}, {0, 0});
  expect_close("vjp::sigmoid where y is 1 and 0", vjp::sigmoid({g, none, s}), {2}, {0, 0});
}

TEST_CASE("2.1 mul and div: a gradient for each operand") {
  for (const BinaryCase* r : {&kMul, &kDiv}) check_binary(*r, {4}, {4}, {4});
}

TEST_CASE("2.1 pow") { check_binary(kPow, {4}, {4}, {4}); }

TEST_CASE("2.1 pow at zero: the limits, no NaN") {
  const double inf = HUGE_VAL;
  const Tensor a = tensor_of({5}, {0, 0, 2, -3, 0}), b = tensor_of({5}, {0, 2, 0, 2, -0.5}),
               y = tensor_of({5}, {1, 0, 1, 9, inf});
  const Tensor g = tensor_of({5}, {10, 10, 10, 10, 10});
  const BinaryGrads grads = vjp::pow({g, a, b, y});
  const std::string what = "vjp::pow for a {0, 0, 2, -3, 0} and b {0, 2, 0, 2, -0.5}, g = 10";
  expect_close(what + ": da", grads.a, {5}, {0, 0, 0, -60, -inf});
  // The negative number has no logarithm, so there db is NaN; 1 / sqrt(0) is infinite, and so is its db.
  expect_close(what + ": db", grads.b, {5}, {0, 0, 10 * std::log(2.0), NAN, -inf});
}

TEST_CASE("2.1 gradients that are not needed") {
  for (const BinaryCase* r : {&kMul, &kDiv, &kPow}) {
    check_binary(*r, {3}, {3}, {3}, f64, true, false);
    check_binary(*r, {3}, {3}, {3}, f64, false, true);
  }
}

TEST_CASE("2.1 broadcast operands: both gradients have the shape of the result") {
  for (const BinaryCase* r : {&kMul, &kDiv, &kPow}) {
    check_binary(*r, {3, 1}, {4}, {3, 4});
    check_binary(*r, {}, {2, 3}, {2, 3});
  }
}

TEST_CASE("2.1 any layout, f32 and f64, and no elements at all") {
  for (const UnaryCase* u : {&kExp, &kLog, &kSqrt, &kTanh, &kSigmoid}) {
    for (const DType dtype : {f32, f64}) check_unary(*u, {7}, dtype);
    check_unary(*u, {3, 5}, f64, Layout::transposed);
    check_unary(*u, {3, 5}, f32, Layout::reversed);
    check_unary(*u, {0, 2});
  }
  for (const BinaryCase* r : {&kMul, &kDiv, &kPow}) {
    check_binary(*r, {3, 5}, {3, 5}, {3, 5}, f32);
    check_binary(*r, {3, 5}, {3, 5}, {3, 5}, f64, true, true, Layout::gaps);
    check_binary(*r, {0}, {0}, {0});
  }
}
