// Elementwise kernels: unary, binary, where, casts, copies and fills, for every dtype and layout.
//
// One thread per element of the output. It finds its element in each operand, by the operand's own strides
// (walk.cuh), computes, and stores. Which function runs and what the operands hold is decided in the kernel,
// alike for all threads, so that one kernel per compute type serves every case. Limit: memory, each element
// once.
#pragma once

#include <cstring>
#include <tinytorch/backend/cuda/device/walk.cuh>
#include <tinytorch/backend/cuda/kernels/launch.hpp>
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

// out = fn(x): operand 0 of o is out, operand 1 is x, o.count is the number of elements. A thread computes
// the element of its own number, if there is one: the last block has more threads than elements are left.
// The number is counted in 64 bits: blockIdx.x and blockDim.x are of 32, and so is their product, which
// wraps in a tensor of more than 2^32 elements.
//   element<C>(o, 1, i)      element i of x, in the compute type
//   apply(fn, x, p0, p1)     what becomes of it
//   put_element(o, i, y)     stored as element i of out
template <class C>
static __global__ void __launch_bounds__(kBlock)
    map_kernel(const __grid_constant__ Operands<2> o, UnaryFn fn, C p0, C p1) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= o.count) return;
  put_element(o, i, apply(fn, element<C>(o, 1, i), p0, p1));
}

// out = fn(x), x broadcast to out's shape; p0, p1: bounds of clamp, slope of leaky_relu. Nothing to do for an
// empty out. Otherwise
//   Plan<2>({out, x}, 1).operands            is what the kernel walks,
//   dispatch_compute(x.dtype, f)             calls f with a null pointer of the compute type C,
//   launch(kernel, over(n, block), ...)      starts at least n threads, in blocks of `block`,
//   convert<C>(p0)                           is a bound as a C.
// Functions beyond kLastIntegerUnary do not exist for integers: fail("TT-DTYPE-02", ...).
void unary(UnaryFn fn, const View& out, const View& x, double p0, double p1) {
  if (out.numel() == 0) return;
  const Plan<2> plan({out, x}, 1);
  dispatch_compute(x.dtype, [&]<class C>(C*) {
    if (std::is_integral_v<C> && static_cast<int>(fn) > kLastIntegerUnary) {
      fail("TT-DTYPE-02", "unary: this function needs a floating dtype");
    }
    launch(map_kernel<C>, over(plan.operands.count, kBlock), plan.operands, fn, convert<C>(p0),
           convert<C>(p1));
  });
}

// --- a zip: two operands ---

// out = fn(a, b): operand 0 of o is out, operands 1 and 2 are a and b. element() finds each of them by its
// own strides, which are 0 where it is broadcast. Threads are counted as in map_kernel, in 64 bits.
template <class C>
static __global__ void __launch_bounds__(kBlock)
    zip_kernel(const __grid_constant__ Operands<3> o, BinaryFn fn, C p0) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= o.count) return;
  put_element(o, i, apply(fn, element<C>(o, 1, i), element<C>(o, 2, i), p0));
}

// out = fn(a, b), each broadcast to out's shape. a and b have one dtype, in which it is computed; out has the
// same or bool. Functions beyond kLastIntegerBinary do not exist for integers: TT-DTYPE-02.
void binary(BinaryFn fn, const View& out, const View& a, const View& b, double p0) {
  if (out.numel() == 0) return;
  const Plan<3> plan({out, a, b}, 1);
  dispatch_compute(a.dtype, [&]<class C>(C*) {
    if (std::is_integral_v<C> && static_cast<int>(fn) > kLastIntegerBinary) {
      fail("TT-DTYPE-02", "binary: this function needs a floating dtype");
    }
    launch(zip_kernel<C>, over(plan.operands.count, kBlock), plan.operands, fn, convert<C>(p0));
  });
}

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
