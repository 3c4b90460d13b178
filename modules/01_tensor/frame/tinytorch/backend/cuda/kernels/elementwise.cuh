// Elementwise kernels: unary, binary, where, casts, copies and fills, for every dtype and layout.
//
// The frame of a course header: it has the given parts, and includes the functions of tasks 1.8 and 1.9.
#pragma once

#include <cstring>
#include <tinytorch/backend/cuda/device/walk.cuh>
#include <tinytorch/backend/cuda/launch.hpp>
#include <tinytorch/backend/functors.hpp>
#include <utility>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kBlock = 256;  // threads of a block

// Element number i, counted in row-major order of the output's shape, of operand k, as a C.
template <class C, int kCount>
__device__ __forceinline__ C element(const Operands<kCount>& o, int k, int64_t i) {
  const int64_t at = o.offset(k, i);
  C value{};
  for_stored<C>(o.operand[k].dtype,
                [&]<class T>(T*) { value = to<C>(static_cast<const T*>(o.operand[k].data)[at]); });
  return value;
}
// The reverse, to the output, which is operand 0.
template <class C, int kCount>
__device__ __forceinline__ void put_element(const Operands<kCount>& o, int64_t i, C value) {
  const int64_t at = o.offset(0, i);
  for_stored<C>(o.operand[0].dtype,
                [&]<class T>(T*) { static_cast<T*>(o.operand[0].data)[at] = to<T>(value); });
}

// fn with its number known to the compiler. A function of its own for double: it is long, and rare.
template <UnaryFn fn>
static __device__ __noinline__ double unary_of(double x, double p0, double p1) {
  return unary_value<fn, double>(x, p0, p1);
}
template <UnaryFn fn>
__device__ __forceinline__ float unary_of(float x, float p0, float p1) {
  if constexpr (fn == UnaryFn::sin) return sinf(x);  // the device's own reduces huge arguments exactly
  if constexpr (fn == UnaryFn::cos) return cosf(x);
  return unary_value<fn, float>(x, p0, p1);
}
template <UnaryFn fn, class C>
__device__ __forceinline__ C unary_of(C x, C p0, C p1) {
  return unary_value<fn, C>(x, p0, p1);
}
template <BinaryFn fn, class C>
static __device__ __noinline__ C binary_of(C a, C b, C p0) {
  return binary_value<fn, C>(a, b, p0);
}

// The function of that number, among those that exist for C.
template <class C, int... kFn>
__device__ __forceinline__ C apply(UnaryFn fn, C x, C p0, C p1, std::integer_sequence<int, kFn...>) {
  C y{};
  ((fn == static_cast<UnaryFn>(kFn) ? void(y = unary_of<static_cast<UnaryFn>(kFn)>(x, p0, p1)) : void()),
   ...);
  return y;
}
template <class C>
__device__ __forceinline__ C apply(UnaryFn fn, C x, C p0, C p1) {
  constexpr int kFunctions = std::is_integral_v<C> ? kLastIntegerUnary + 1 : kUnaryCount;
  return apply(fn, x, p0, p1, std::make_integer_sequence<int, kFunctions>());
}
template <class C, int... kFn>
__device__ __forceinline__ C apply(BinaryFn fn, C a, C b, C p0, std::integer_sequence<int, kFn...>) {
  C y{};
  ((fn == static_cast<BinaryFn>(kFn) ? void(y = binary_of<static_cast<BinaryFn>(kFn)>(a, b, p0)) : void()),
   ...);
  return y;
}
template <class C>
__device__ __forceinline__ C apply(BinaryFn fn, C a, C b, C p0) {
  constexpr int kFunctions = std::is_integral_v<C> ? kLastIntegerBinary + 1 : kBinaryCount;
  return apply(fn, a, b, p0, std::make_integer_sequence<int, kFunctions>());
}

// --- a map: one operand ---

}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#include <tasks/backend/cuda/kernels/elementwise.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// --- moves ---

template <class C>
static __global__ void __launch_bounds__(kBlock) where_kernel(const __grid_constant__ Operands<4> o) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= o.count) return;
  put_element(o, i, element<C>(o, element<C>(o, 1, i) != C(0) ? 2 : 3, i));
}

void where(const View& out, const View& condition, const View& a, const View& b) {
  if (out.numel() == 0) return;
  const Plan<4> plan({out, condition, a, b}, 1);
  dispatch_compute(out.dtype, [&]<class C>(C*) {
    launch(where_kernel<C>, over(plan.operands.count, kBlock), plan.operands);
  });
}

static __global__ void __launch_bounds__(kBlock) copy_kernel(const __grid_constant__ Operands<2> o) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= o.count) return;
  const int64_t from = o.offset(1, i), at = o.offset(0, i);
  for_any_stored(o.operand[1].dtype, [&]<class From>(From*) {
    const From x = static_cast<const From*>(o.operand[1].data)[from];
    for_any_stored(o.operand[0].dtype,
                   [&]<class To>(To*) { static_cast<To*>(o.operand[0].data)[at] = to<To>(x); });
  });
}

void copy(const View& out, const View& x) {
  if (out.numel() == 0) return;
  const Plan<2> plan({out, x}, 1);
  launch(copy_kernel, over(plan.operands.count, kBlock), plan.operands);
}

// V: double, or int64_t, which holds numbers that double does not.
template <class V>
static __global__ void __launch_bounds__(kBlock) fill_kernel(const __grid_constant__ Operands<1> o, V value) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= o.count) return;
  const int64_t at = o.offset(0, i);
  for_any_stored(o.operand[0].dtype,
                 [&]<class T>(T*) { static_cast<T*>(o.operand[0].data)[at] = to<T>(value); });
}

template <class V>
void fill_with(const View& out, V value) {
  if (out.numel() == 0) return;
  const Plan<1> plan({out}, 1);
  launch(fill_kernel<V>, over(plan.operands.count, kBlock), plan.operands, value);
}
void fill(const View& out, double value) { fill_with(out, value); }
void fill(const View& out, int64_t value) { fill_with(out, value); }

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
