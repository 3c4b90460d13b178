// Functions of elements on the device: those of backend/functors.hpp, with CUDA's own ones where they are as
// exact and shorter, and the choice of one at run time.
//
// Kernels of single functions (kernels/elementwise.cuh), the interpreter of fused steps
// (kernels/pointwise.cuh) and the kernels that are compiled at run time (acceleration/emit_cuda.hpp) call the
// same text, so they give the same bits.
#pragma once

#include <tinytorch/backend/cuda/device/vector.cuh>
#include <tinytorch/backend/functors.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Calls f.operator()<fn>() for function number `fn` of the kCount functions from kFirst on.
template <auto kFirst, int kCount, class F>
__device__ __forceinline__ void select(int fn, F&& f) {
  using Fn = decltype(kFirst);
  if constexpr (kCount == 1) {
    f.template operator()<kFirst>();
  } else {
    constexpr int kHalf = kCount / 2;
    constexpr auto kMiddle = static_cast<Fn>(static_cast<int>(kFirst) + kHalf);
    if (fn < static_cast<int>(kMiddle)) {
      select<kFirst, kHalf>(fn, f);
    } else {
      select<kMiddle, kCount - kHalf>(fn, f);
    }
  }
}

// Functions with long code are not inlined into every kernel: f64 is rare, and pow is long.
template <UnaryFn fn>
static __device__ __noinline__ double unary_f64(double x, double p0, double p1) {
  return unary_value<fn, double>(x, p0, p1);
}
template <BinaryFn fn, class C>
static __device__ __noinline__ C long_binary(C a, C b, C p0) {
  return binary_value<fn, C>(a, b, p0);
}

template <UnaryFn fn, class C>
__device__ __forceinline__ C unary_of(C x, C p0, C p1) {
  // CUDA's own functions are as exact as the library's, and shorter here.
  if constexpr (std::is_same_v<C, float>) {
    using enum UnaryFn;
    if constexpr (fn == sin) return sinf(x);
    if constexpr (fn == cos) return cosf(x);
    if constexpr (fn == exp) return expf(x);
    if constexpr (fn == log) return logf(x);
    if constexpr (fn == log1p) return log1pf(x);
    if constexpr (fn == expm1) return expm1f(x);
    if constexpr (fn == tanh) return tanhf(x);
    if constexpr (fn == erf) return erff(x);
    if constexpr (fn == sigmoid) return 1.0f / (1.0f + expf(-x));
    if constexpr (fn == silu) return x / (1.0f + expf(-x));
    if constexpr (fn == gelu) return 0.5f * x * (1.0f + erff(x * static_cast<float>(kSqrtHalf)));
    if constexpr (fn == gelu_tanh) return 0.5f * x * (1.0f + tanhf(gelu_tanh_inner(x)));
  }
  if constexpr (std::is_same_v<C, double> && fn >= UnaryFn::exp) return unary_f64<fn>(x, p0, p1);
  return unary_value<fn, C>(x, p0, p1);
}
template <BinaryFn fn, class C>
__device__ __forceinline__ C binary_of(C a, C b, C p0) {
  constexpr bool kLong = fn == BinaryFn::pow || (std::is_same_v<C, double> && fn >= BinaryFn::tanh_grad);
  if constexpr (kLong && std::is_floating_point_v<C>) return long_binary<fn, C>(a, b, p0);
  return binary_value<fn, C>(a, b, p0);
}

// gelu(x) = max(x, 0) - |x| (1 - Phi(|x|)) for 16-bit results. It needs half the instructions of erff, with
// which the kernel would be compute-bound. The error of the tail 1 - Phi is below 7.5e-8.
// Source: Abramowitz and Stegun, "Handbook of Mathematical Functions", 7.1.26.
__device__ __forceinline__ float gelu_16_bit(float x) {
  const float a = fabsf(x);
  const float t = reciprocal_approx(fmaf(0.3275911f * static_cast<float>(kSqrtHalf), a, 1.0f));
  float tail = fmaf(0.5f * 1.061405429f, t, 0.5f * -1.453152027f);
  tail = fmaf(tail, t, 0.5f * 1.421413741f);
  tail = fmaf(tail, t, 0.5f * -0.284496736f);
  tail = fmaf(tail, t, 0.5f * 0.254829592f) * t * exp2_approx(-0.72134752f * x * x);
  // For |x| >= 20, the tail is 0. NaN and -infinity (0 * infinity) give NaN.
  return fmaxf(x, 0.0f) - (a < 20.0f ? a * tail : 0.0f * (x > 0.0f ? 1.0f : x));
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
