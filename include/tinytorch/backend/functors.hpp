// Scalar functions of all elementwise operations, shared by CPU loops and CUDA kernels.
//
// They are branch-free, so that a loop over them vectorizes. T is the compute type: float (also for bf16 and
// f16), double, int32_t (also for the narrow integers and bool) or int64_t. Integer arithmetic wraps.
#pragma once

#include <tinytorch/backend/activation.hpp>
#include <tinytorch/backend/parameters.hpp>
#include <tinytorch/core/dtype.hpp>
#include <tinytorch/core/scalar_math.hpp>

namespace tinytorch::inline TT_BUILD::backend {

using tinytorch::convert;

// Functions up to kLastIntegerUnary also exist for integers.
enum class UnaryFn : uint8_t {
  identity,
  neg,
  abs,
  sign,
  square,
  clamp,
  floor,
  ceil,
  round,
  logical_not,
  relu,
  exp,
  log,
  log1p,
  expm1,
  sqrt,
  rsqrt,
  reciprocal,
  sin,
  cos,
  tanh,
  sigmoid,
  erf,
  leaky_relu,
  silu,
  gelu,
  gelu_tanh,
  softplus,
  elu,
  hardswish,
  mish
};
inline constexpr int kUnaryCount = static_cast<int>(UnaryFn::mish) + 1;
inline constexpr int kLastIntegerUnary = static_cast<int>(UnaryFn::relu);

// *_grad(g, v): g times the derivative of an activation at v. v is the output for tanh and sigmoid, either
// for relu, and the input for all others. Functions up to kLastIntegerBinary also exist for integers.
enum class BinaryFn : uint8_t {
  add,
  sub,
  mul,
  maximum,
  minimum,
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
  logical_and,
  logical_or,
  div,
  pow,
  relu_grad,
  leaky_relu_grad,
  tanh_grad,
  sigmoid_grad,
  silu_grad,
  gelu_grad,
  gelu_tanh_grad,
  softplus_grad,
  elu_grad,
  hardswish_grad,
  mish_grad
};
inline constexpr int kBinaryCount = static_cast<int>(BinaryFn::mish_grad) + 1;
inline constexpr int kLastIntegerBinary = static_cast<int>(BinaryFn::logical_or);
constexpr bool is_activation_grad(BinaryFn fn) { return fn >= BinaryFn::relu_grad; }

// The function of an activation, and the function for g times its derivative, from the input.
constexpr UnaryFn activation_fn(Activation a) {
  constexpr UnaryFn kFn[] = {UnaryFn::identity, UnaryFn::relu, UnaryFn::silu, UnaryFn::gelu,
                             UnaryFn::gelu_tanh};
  return kFn[static_cast<int>(a)];
}
// For Activation::none the result must not be used, because g times its derivative is g.
constexpr BinaryFn activation_grad_fn(Activation a) {
  constexpr BinaryFn kFn[] = {BinaryFn::add, BinaryFn::relu_grad, BinaryFn::silu_grad, BinaryFn::gelu_grad,
                              BinaryFn::gelu_tanh_grad};
  return kFn[static_cast<int>(a)];
}

// a^b. For positive a: exp(b log a) in double; otherwise the rules of pow in C, without branches.
// always_inline: g++ prefers a call for a function of this length, and a loop with a call does not vectorize.
TT_HOST_DEVICE [[gnu::always_inline]] inline float power(float a, float b) {
  const double x = a < 0 ? -static_cast<double>(a) : static_cast<double>(a);
  const double y = static_cast<double>(b);
  const double magnitude = math::exp(y * math::log(x));
  const double nearest = y + math::Format<double>::kRound - math::Format<double>::kRound;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  // & and | instead of && and ||: g++ 13 compiles the latter to branches.
  const bool is_big = (y > 0x1p51) | (y < -0x1p51);  // then y is an even integer or infinite
  const bool is_integer = is_big | (nearest == y);
  const double half = 0.5 * y;
  const double nearest_half = half + math::Format<double>::kRound - math::Format<double>::kRound;
  const bool is_odd = is_integer & !is_big & (nearest_half != half);
  const bool negative = std::bit_cast<uint32_t>(a) >> 31 != 0;  // also for -0: odd powers keep its sign
  double r = (negative & is_odd) ? -magnitude : magnitude;
  const bool has_no_root = (a < 0) & !is_integer & (x < kInfinity);
  r = has_no_root ? std::numeric_limits<double>::quiet_NaN() : r;
  r = ((x == 1) & ((a > 0) | is_big)) ? 1.0 : r;  // also 1^NaN, (-1)^inf
  return y == 0 ? 1.0f : static_cast<float>(r);
}
TT_HOST_DEVICE inline double power(double a, double b) { return std::pow(a, b); }

// log(1 + e) for e >= 0, accurate for small e: the factor e / (u - 1) corrects the rounding of u = 1 + e.
template <class T>
TT_HOST_DEVICE inline T log1p_value(T e) {
  const T u = T(1) + e;
  return u == T(1) ? e : math::log(u) * (e / (u - T(1)));
}
// e^x - 1 for x <= 0, accurate near 0. At -40 it rounds to -1 in double, too.
TT_HOST_DEVICE inline float expm1_value(float x) { return math::expm1_bounded(x < -40.0f ? -40.0f : x); }
TT_HOST_DEVICE inline double expm1_value(double x) { return std::expm1(x); }

// log(1 + x) and e^x - 1 for every x. From 20 on, e^x - 1 rounds to e^x or its neighbour in float.
TT_HOST_DEVICE inline float log1p_any(float x) {
  return x > std::numeric_limits<float>::max() ? x : log1p_value(x);
}
TT_HOST_DEVICE inline double log1p_any(double x) { return std::log1p(x); }
TT_HOST_DEVICE inline float expm1_any(float x) {
  return x > 20.0f ? math::exp(x) : expm1_value(x > 20.0f ? 20.0f : x);
}
TT_HOST_DEVICE inline double expm1_any(double x) { return std::expm1(x); }

// log(1 + e^(beta x)) / beta = max(x, 0) + log(1 + e^-|beta x|) / beta.
template <class T>
TT_HOST_DEVICE inline T softplus_value(T x, T beta) {
  const T t = beta * x;
  return (x < T(0) ? T(0) : x) + log1p_value(math::exp(t < T(0) ? t : -t)) / beta;
}
// x where x > 0, else alpha (e^x - 1).
template <class T>
TT_HOST_DEVICE inline T elu_value(T x, T alpha) {
  return x > T(0) ? x : alpha * expm1_value(x > T(0) ? T(0) : x);
}
// x min(max(x + 3, 0), 6) / 6.
template <class T>
TT_HOST_DEVICE inline T hardswish_value(T x) {
  const T low = x + T(3) < T(0) ? T(0) : x + T(3);
  return x * ((low > T(6) ? T(6) : low) / T(6));  // x times 6 may overflow
}
template <class T>
TT_HOST_DEVICE inline T hardswish_derivative(T x) {
  const T inside = x / T(3) + T(0.5);
  return x <= T(-3) ? T(0) : (x >= T(3) ? T(1) : inside);
}
// x tanh(softplus(x)) = x n / (n + 2) with n = e^x (e^x + 2). From x = 20 on, n / (n + 2) rounds to 1.
template <class T>
TT_HOST_DEVICE inline T mish_value(T x) {
  const T e = math::exp(x > T(20) ? T(20) : x), n = e * (e + T(2));
  return x * (n / (n + T(2)));
}
// n / (n + 2) + 4 x e (1 + e) / (n + 2)^2, with e = e^x.
template <class T>
TT_HOST_DEVICE inline T mish_derivative(T x) {
  const T c = x > T(20) ? T(20) : x, e = math::exp(c), n = e * (e + T(2)), d = n + T(2);
  return n / d + T(4) * c * (e / d) * ((T(1) + e) / d);
}

template <UnaryFn fn, class T, math::Range range = math::Range::all>
TT_HOST_DEVICE inline T unary_value(T x, [[maybe_unused]] T p0, [[maybe_unused]] T p1) {
  using enum UnaryFn;
  if constexpr (fn == identity) return x;
  if constexpr (fn == abs) return x < T(0) ? static_cast<T>(T(0) - x) : (x == T(0) ? T(0) : x);
  if constexpr (fn == sign) return x > T(0) ? T(1) : (x < T(0) ? T(-1) : (x == x ? T(0) : x));
  if constexpr (fn == clamp) {
    const T low = x < p0 ? p0 : x;  // NaN passes both comparisons
    return low > p1 ? p1 : low;
  }
  if constexpr (fn == logical_not) return x == T(0) ? T(1) : T(0);
  if constexpr (fn == relu) return relu_value(x);
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    if constexpr (fn == neg) return static_cast<T>(U(0) - static_cast<U>(x));
    if constexpr (fn == square) return static_cast<T>(static_cast<U>(x) * static_cast<U>(x));
    return x;  // floor, ceil, round
  } else {
    if constexpr (fn == neg) return -x;
    if constexpr (fn == square) return x * x;
    if constexpr (fn == floor) return std::floor(x);
    if constexpr (fn == ceil) return std::ceil(x);
    if constexpr (fn == round) return std::nearbyint(x);
    if constexpr (fn == exp) return math::exp<range>(x);
    if constexpr (fn == log) return math::log<range>(x);
    if constexpr (fn == log1p) return log1p_any(x);
    if constexpr (fn == expm1) return expm1_any(x);
    if constexpr (fn == sqrt) return std::sqrt(x);
    if constexpr (fn == rsqrt) return T(1) / std::sqrt(x);
    if constexpr (fn == reciprocal) return T(1) / x;
    if constexpr (fn == sin) return math::sin(x);
    if constexpr (fn == cos) return math::cos(x);
    if constexpr (fn == tanh) return math::tanh<range>(x);
    if constexpr (fn == sigmoid) return sigmoid_value<T, range>(x);
    if constexpr (fn == erf) return math::erf(x);
    if constexpr (fn == leaky_relu) return leaky_relu_value(x, p0);
    if constexpr (fn == silu) return silu_value<T, range>(x);
    if constexpr (fn == gelu) return gelu_value(x);
    if constexpr (fn == gelu_tanh) return gelu_tanh_value(x);
    if constexpr (fn == softplus) return softplus_value(x, p0);
    if constexpr (fn == elu) return elu_value(x, p0);
    if constexpr (fn == hardswish) return hardswish_value(x);
    if constexpr (fn == mish) return mish_value(x);
  }
}

template <BinaryFn fn, class T>
TT_HOST_DEVICE inline T binary_value(T a, T b, [[maybe_unused]] T p0) {
  using enum BinaryFn;
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    if constexpr (fn == add) return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    if constexpr (fn == sub) return static_cast<T>(static_cast<U>(a) - static_cast<U>(b));
    if constexpr (fn == mul) return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  } else {
    if constexpr (fn == add) return a + b;
    if constexpr (fn == sub) return a - b;
    if constexpr (fn == mul) return a * b;
    if constexpr (fn == div) return a / b;
    if constexpr (fn == pow) return power(a, b);
    if constexpr (fn == relu_grad) return b > T(0) ? a : T(0);
    if constexpr (fn == leaky_relu_grad) return b > T(0) ? a : a * p0;
    if constexpr (fn == tanh_grad) return a * (T(1) - b * b);
    if constexpr (fn == sigmoid_grad) return a * b * (T(1) - b);
    if constexpr (fn == silu_grad) return a * silu_derivative(b);
    if constexpr (fn == gelu_grad) return a * gelu_derivative(b);
    if constexpr (fn == gelu_tanh_grad) return a * gelu_tanh_derivative(b);
    if constexpr (fn == softplus_grad) return a * sigmoid_value(p0 * b);
    if constexpr (fn == elu_grad) return b > T(0) ? a : a * (p0 * math::exp(b));
    if constexpr (fn == hardswish_grad) return a * hardswish_derivative(b);
    if constexpr (fn == mish_grad) return a * mish_derivative(b);
  }
  if constexpr (fn == maximum) return a > b || a != a ? a : b;  // NaN if one is NaN
  if constexpr (fn == minimum) return a < b || a != a ? a : b;
  if constexpr (fn == eq) return T(a == b);
  if constexpr (fn == ne) return T(a != b);
  if constexpr (fn == lt) return T(a < b);
  if constexpr (fn == le) return T(a <= b);
  if constexpr (fn == gt) return T(a > b);
  if constexpr (fn == ge) return T(a >= b);
  if constexpr (fn == logical_and) return T(a != T(0) && b != T(0));
  if constexpr (fn == logical_or) return T(a != T(0) || b != T(0));
}

// Pointwise losses, and their derivatives with respect to the prediction x and the target t.
template <PointwiseLoss fn, class T>
TT_HOST_DEVICE inline T loss_value(T x, T t) {
  if constexpr (fn == PointwiseLoss::mse) return (x - t) * (x - t);
  if constexpr (fn == PointwiseLoss::bce_with_logits) {
    return (x < T(0) ? T(0) : x) - x * t + log1p_value(math::exp(x < T(0) ? x : -x));
  }
}
template <PointwiseLoss fn, class T>
TT_HOST_DEVICE inline T loss_derivative(T x, T t) {
  if constexpr (fn == PointwiseLoss::mse) return T(2) * (x - t);
  if constexpr (fn == PointwiseLoss::bce_with_logits) return sigmoid_value(x) - t;
}
// Derivative with respect to the target.
template <PointwiseLoss fn, class T>
TT_HOST_DEVICE inline T loss_target_derivative(T x, T t) {
  if constexpr (fn == PointwiseLoss::mse) return T(2) * (t - x);
  if constexpr (fn == PointwiseLoss::bce_with_logits) return -x;
}

}  // namespace tinytorch::inline TT_BUILD::backend
