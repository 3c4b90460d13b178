// Kernels of the functions in backend/functors.hpp: loops over contiguous arrays of the compute type, with no
// layout and no allocation.
//
// elementwise.hpp applies them to operands of any layout; GEMM epilogues and fused kernels call them on
// values that are in cache. They have a header of their own, so that a replacement of elementwise.hpp does
// not remove them.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <tinytorch/backend/cpu/loops/argument_range.hpp>
#include <tinytorch/backend/cpu/loops/pack.hpp>
#include <tinytorch/backend/functors.hpp>
#include <tinytorch/core/error.hpp>
#include <utility>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out[i] = fn(in[0][i], in[1][i], ...) for i < n; out may be an input. `parameters` has two values for a
// unary function, one for a binary function.
template <class T>
using Kernel = void (*)(T* out, const T* const* in, int64_t n, const double* parameters);

inline constexpr size_t kMostOperands = kMostInputs + 1;

// A kernel whose type of values is known at run time, so that the loops over operands are compiled once for
// all types. It has at most kMostInputs inputs; `in` has that many pointers.
class AnyKernel {
 public:
  template <class T>
  AnyKernel(Kernel<T> kernel)
      : dtype_(dtype_of<T>), kernel_(reinterpret_cast<void (*)()>(kernel)), call_(call<T>) {}

  DType dtype() const { return dtype_; }
  void operator()(void* out, const void* const (&in)[kMostInputs], int64_t n,
                  const double* parameters) const {
    constexpr int64_t kNone[kMostOperands] = {};
    call_(kernel_, out, in, 1, n, kNone, parameters);
  }
  // Calls the kernel for each of several rows of n values. steps: bytes between the rows of out, and of each
  // input.
  void rows(void* out, const void* const (&in)[kMostInputs], int64_t rows, int64_t n,
            const int64_t (&steps)[kMostOperands], const double* parameters) const {
    call_(kernel_, out, in, rows, n, steps, parameters);
  }

 private:
  template <class T>
  static void call(void (*kernel)(), void* out, const void* const* in, int64_t rows, int64_t n,
                   const int64_t* steps, const double* parameters) {
    const T* source[kMostInputs];
    for (int64_t r = 0; r < rows; ++r) {
      for (size_t k = 0; k < kMostInputs; ++k)
        source[k] = reinterpret_cast<const T*>(static_cast<const char*>(in[k]) + r * steps[k + 1]);
      reinterpret_cast<Kernel<T>>(kernel)(reinterpret_cast<T*>(static_cast<char*>(out) + r * steps[0]),
                                          source, n, parameters);
    }
  }

  DType dtype_;
  void (*kernel_)();  // a Kernel of the dtype
  void (*call_)(void (*)(), void*, const void* const*, int64_t, int64_t, const int64_t*, const double*);
};

// A kernel with its operands, whose types are known at run time. Operand 0 is out, the others are inputs.
struct ElementwiseCall {
  AnyKernel kernel;
  const double* parameters;
  const View& out;
  std::span<const View> in;

  size_t operands() const { return in.size() + 1; }
  const View& operand(size_t k) const { return k == 0 ? out : in[k - 1]; }
  DType dtype() const { return kernel.dtype(); }  // of the values that the kernel computes
  int64_t bytes() const { return static_cast<int64_t>(size_of(dtype())); }
};

using Sources = const void* [kMostInputs];  // the inputs of one call of a kernel

template <UnaryFn fn, class T, math::Range range>
void unary_loop(T* out, const T* x, int64_t n, const double* parameters) {
  constexpr bool kIsSin = fn == UnaryFn::sin;
  if constexpr ((kIsSin || fn == UnaryFn::cos) && std::is_same_v<T, float> && range == math::Range::all) {
    for (int64_t i = 0; i < n; ++i) {  // rare: libm reduces huge arguments exactly
      const bool huge = std::abs(x[i]) > math::kMaxTrigArgument;
      out[i] = huge ? (kIsSin ? std::sin(x[i]) : std::cos(x[i])) : unary_value<fn, T>(x[i], T(0), T(0));
    }
  } else {
    const T p0 = convert<T>(parameters[0]), p1 = convert<T>(parameters[1]);  // saturates: clamp to +-infinity
    TT_SIMD
    for (int64_t i = 0; i < n; ++i) out[i] = unary_value<fn, T, range>(x[i], p0, p1);
  }
}

// The result of an element has the same bits for either version of the loop, because blocks begin at other
// elements if the number of threads changes.
template <UnaryFn fn, class T>
void unary_kernel(T* out, const T* const* in, int64_t n, const double* parameters) {
  if constexpr (tells_ordinary<fn, T>()) {
    constexpr int64_t kBlock = kPackLength<T>;  // elements: the second read comes from the L1 cache
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t m = std::min(kBlock, n - i);
      const auto loop = all_ordinary<fn>(in[0] + i, m) ? unary_loop<fn, T, math::Range::ordinary>
                                                       : unary_loop<fn, T, math::Range::all>;
      loop(out + i, in[0] + i, m, parameters);
    }
  } else {
    unary_loop<fn, T, math::Range::all>(out, in[0], n, parameters);
  }
}

template <BinaryFn fn, class T>
void binary_kernel(T* out, const T* const* in, int64_t n, const double* parameters) {
  const T *a = in[0], *b = in[1];
  const T p0 = static_cast<T>(parameters[0]);
  TT_SIMD
  for (int64_t i = 0; i < n; ++i) out[i] = binary_value<fn, T>(a[i], b[i], p0);
}

// Tables of kernels, indexed by function. The tables of integers end at the last function that exists for
// integers.
template <class T, int... kFn>
Kernel<T> kernel_of(UnaryFn fn, std::integer_sequence<int, kFn...>) {
  static constexpr Kernel<T> kTable[] = {unary_kernel<static_cast<UnaryFn>(kFn), T>...};
  return kTable[static_cast<int>(fn)];
}
template <class T, int... kFn>
Kernel<T> kernel_of(BinaryFn fn, std::integer_sequence<int, kFn...>) {
  static constexpr Kernel<T> kTable[] = {binary_kernel<static_cast<BinaryFn>(kFn), T>...};
  return kTable[static_cast<int>(fn)];
}
// The kernel of fn, or TT-DTYPE-02 if T is an integer type and fn does not exist for integers.
template <class T>
Kernel<T> kernel_of(UnaryFn fn) {
  constexpr int kCount = std::is_integral_v<T> ? kLastIntegerUnary + 1 : kUnaryCount;
  if (static_cast<int>(fn) >= kCount) fail("TT-DTYPE-02", "unary: this function needs a floating dtype");
  return kernel_of<T>(fn, std::make_integer_sequence<int, kCount>{});
}
template <class T>
Kernel<T> kernel_of(BinaryFn fn) {
  constexpr int kCount = std::is_integral_v<T> ? kLastIntegerBinary + 1 : kBinaryCount;
  if (static_cast<int>(fn) >= kCount) fail("TT-DTYPE-02", "binary: this function needs a floating dtype");
  return kernel_of<T>(fn, std::make_integer_sequence<int, kCount>{});
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
