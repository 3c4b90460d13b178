// Elementwise kernels on the CPU: unary, binary, where, casts and copies, for every dtype and layout.
//
// Contract: out has the broadcast shape, and inputs broadcast to it (missing leading dimensions and sizes of
// 1 have stride 0). out may be the same memory as an input, element for element; otherwise they must not
// overlap. Each function has one short loop per compute type; row_walk.hpp applies it to operands of any
// layout.
#pragma once

#include <tinytorch/backend/functors.hpp>
#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out = fn(x). p0, p1: bounds of clamp; p0: slope of leaky_relu.
TT_API void unary(UnaryFn fn, const View& out, const View& x, double p0 = 0, double p1 = 0);
// out = fn(a, b); a and b have one dtype, and out has the same or bool. p0: slope of leaky_relu_grad.
TT_API void binary(BinaryFn fn, const View& out, const View& a, const View& b, double p0 = 0);
// out = condition ? a : b, condition bool.
TT_API void where(const View& out, const View& condition, const View& a, const View& b);
// out = x converted to out's dtype; also the general strided copy.
TT_API void copy(const View& out, const View& x);
// out = value, converted to its dtype.
TT_API void fill(const View& out, double value);
TT_API void fill(const View& out, int64_t value);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <tinytorch/backend/cpu/loops/copy.hpp>
#include <tinytorch/backend/cpu/loops/function_kernels.hpp>
#include <tinytorch/backend/cpu/loops/non_temporal.hpp>
#include <tinytorch/backend/cpu/loops/row_walk.hpp>
#include <tinytorch/core/parallel.hpp>
#include <utility>

namespace tinytorch::inline TT_BUILD::backend::cpu {

template <class T>
void where_kernel(T* out, const T* const* in, int64_t n, const double*) {
  const T *condition = in[0], *a = in[1], *b = in[2];
  TT_SIMD
  for (int64_t i = 0; i < n; ++i) out[i] = condition[i] != T(0) ? a[i] : b[i];
}

// where() of contiguous operands: the condition is read as bytes, and values of any dtype as words of its
// size.
template <size_t kBytes>
void where_flat(const View& out, const View& condition, const View& a, const View& b) {
  parallel_for(out.numel(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
    constexpr int64_t kB = kBytes;
    char* const to = out.as<char>();
    const char *const x = a.as<const char>(), *const y = b.as<const char>();
    const auto* const chosen = condition.as<const uint8_t>();
    TT_SIMD
    for (int64_t i = begin; i < end; ++i) {
      // Both are loaded unconditionally, or the loop does not vectorize.
      const auto u = load_word<kBytes>(x + i * kB), v = load_word<kBytes>(y + i * kB);
      store_word<kBytes>(to + i * kB, chosen[i] != 0 ? u : v);
    }
  });
}

// Bools are bytes 0 and 1. Functions from bool to bool compute on these bytes, 64 to a vector.
inline View as_bytes(View v) {
  v.dtype = DType::u8;
  return v;
}

TT_API void unary(UnaryFn fn, const View& out, const View& x, double p0, double p1) {
  const double parameters[] = {p0, p1};
  if (fn == UnaryFn::logical_not && x.dtype == DType::boolean && out.dtype == DType::boolean) {
    return run_elementwise<uint8_t>(unary_kernel<UnaryFn::logical_not, uint8_t>, as_bytes(out), {as_bytes(x)},
                                    parameters);
  }
  dispatch_compute(x.dtype, [&]<class T>(T*) { run_elementwise<T>(kernel_of<T>(fn), out, {x}, parameters); });
}

TT_API void binary(BinaryFn fn, const View& out, const View& a, const View& b, double p0) {
  const double parameters[] = {p0};
  if (a.dtype == DType::boolean && out.dtype == DType::boolean && fn >= BinaryFn::maximum &&
      fn <= BinaryFn::logical_or) {
    return run_elementwise<uint8_t>(kernel_of<uint8_t>(fn), as_bytes(out), {as_bytes(a), as_bytes(b)},
                                    parameters);
  }
  dispatch_compute(a.dtype, [&]<class T>(T*) {
    run_elementwise<T>(kernel_of<T>(fn), out, {a, b}, parameters);
  });
}

TT_API void where(const View& out, const View& condition, const View& a, const View& b) {
  if (is_flat(condition, DType::boolean, out) && is_flat(a, out.dtype, out) && is_flat(b, out.dtype, out) &&
      out.contiguous() && !uses_non_temporal_stores(out, {condition, a, b})) {
    return dispatch_size(size_of(out.dtype), [&]<size_t kBytes>(std::integral_constant<size_t, kBytes>) {
      where_flat<kBytes>(out, condition, a, b);
    });
  }
  if (!strides_fall(out.shape, out.strides)) {
    return in_order_of(out, {condition, a, b},
                       [](const View& to, const View(&in)[3]) { where(to, in[0], in[1], in[2]); });
  }
  dispatch_compute(out.dtype, [&]<class T>(T*) {
    run_elementwise<T>(where_kernel<T>, out, {condition, a, b}, nullptr);
  });
}

TT_API void copy(const View& out, const View& x) { copy_view(out, x); }

template <class V>
void fill_with(const View& out, V value) {
  dispatch(out.dtype, [&]<class T>(T*) {
    T element = convert<T>(value);
    copy(out, {&element, out.dtype, out.shape, Strides::filled(out.rank(), 0)});
  });
}
TT_API void fill(const View& out, double value) { fill_with(out, value); }
TT_API void fill(const View& out, int64_t value) { fill_with(out, value); }

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
