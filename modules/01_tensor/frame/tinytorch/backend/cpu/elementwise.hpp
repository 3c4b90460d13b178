// Elementwise operations on the CPU: unary, binary, where, casts and copies, for every dtype and layout.
//
// The frame of a course header: it has the given parts, and includes the functions of task 1.4.
#pragma once

#include <tinytorch/backend/functors.hpp>
#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out = fn(x). p0, p1: bounds of clamp, slope of leaky_relu.
TT_API void unary(UnaryFn fn, const View& out, const View& x, double p0 = 0, double p1 = 0);
// out = fn(a, b); a and b have one dtype, out the same or bool. p0: slope of leaky_relu_grad.
TT_API void binary(BinaryFn fn, const View& out, const View& a, const View& b, double p0 = 0);
// out = condition ? a : b, condition bool.
TT_API void where(const View& out, const View& condition, const View& a, const View& b);
// out = x converted to out's dtype; also the general strided copy.
TT_API void copy(const View& out, const View& x);
TT_API void fill(const View& out, double value);
TT_API void fill(const View& out, int64_t value);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND) || defined(TINYTORCH_TASK)
#include <cmath>
#include <tinytorch/backend/layout.hpp>
#include <utility>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// The rows of several operands, of which the first is the output and all are seen as its shape: the last
// dimension is left to a plain loop, the others number the rows. Neighbouring dimensions that every operand
// walks as one are merged first, so that contiguous operands are a single row.
template <size_t kCount>
struct Rows {
  Shape outer;              // the other dimensions
  Strides strides[kCount];  // of each operand, by all dimensions
  int64_t count, length;    // how many rows, of how many elements

  explicit Rows(const View (&operands)[kCount]) : outer(operands[0].shape) {
    for (size_t k = 0; k < kCount; ++k) strides[k] = stretch(operands[k], operands[0].shape);
    collapse(outer, strides, kCount);
    length = outer.back();
    outer.pop_back();
    count = outer.numel();
  }
  // Operand k begins row number `row` at its element start(k, row); step(k) elements on lies the next one of
  // the row: 1 if the row lies side by side, 0 if one element serves all of it.
  int64_t start(size_t k, int64_t row) const {
    int64_t index[kMaxRank];
    return locate(outer, strides[k], row, index);
  }
  int64_t step(size_t k) const { return strides[k].back(); }
};

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#include <tasks/backend/cpu/elementwise.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// --- from run-time names to types and functions ---

// The type in which elements of T are computed: 16-bit floats in float, narrow integers and bool in int32.
template <class T>
using Computed = std::conditional_t<std::is_same_v<T, BFloat16> || std::is_same_v<T, Half>, float,
                                    std::conditional_t<std::is_integral_v<T> && sizeof(T) == 1, int32_t, T>>;

// Calls f with a null pointer of the type that results are stored in: that of the operands, T, or bool, or of
// 16 bits where the operands are f32.
template <class T, class F>
void dispatch_result(DType t, F&& f) {
  if (t == dtype_of<T>) return f(static_cast<T*>(nullptr));
  if (t == DType::boolean) return f(static_cast<bool*>(nullptr));
  if constexpr (std::is_same_v<T, float>) {
    if (t == DType::bf16) return f(static_cast<BFloat16*>(nullptr));
    if (t == DType::f16) return f(static_cast<Half*>(nullptr));
  }
  fail("TT-DTYPE-02",
       std::string("elementwise: no result of ") + name_of(t) + " from " + name_of(dtype_of<T>));
}

// fn with its number known to the compiler.
template <UnaryFn fn, class C>
C unary_function(C x, C p0, C p1) {
  if constexpr (std::is_same_v<C, float> && (fn == UnaryFn::sin || fn == UnaryFn::cos)) {
    // Huge arguments are reduced exactly by libm alone.
    if (std::abs(x) > math::kMaxTrigArgument) return fn == UnaryFn::sin ? std::sin(x) : std::cos(x);
  }
  return unary_value<fn, C>(x, p0, p1);
}
template <BinaryFn fn, class C>
C binary_function(C a, C b, C p0) {
  return binary_value<fn, C>(a, b, p0);
}

// The function of that number; integers stop at the last one that exists for them.
template <class C, int... kFn>
auto find_unary(UnaryFn fn, std::integer_sequence<int, kFn...>) {
  static constexpr C (*kTable[])(C, C, C) = {unary_function<static_cast<UnaryFn>(kFn), C>...};
  if (static_cast<size_t>(fn) >= sizeof...(kFn)) {
    fail("TT-DTYPE-02", "unary: this function needs a floating dtype");
  }
  return kTable[static_cast<int>(fn)];
}
template <class C, int... kFn>
auto find_binary(BinaryFn fn, std::integer_sequence<int, kFn...>) {
  static constexpr C (*kTable[])(C, C, C) = {binary_function<static_cast<BinaryFn>(kFn), C>...};
  if (static_cast<size_t>(fn) >= sizeof...(kFn)) {
    fail("TT-DTYPE-02", "binary: this function needs a floating dtype");
  }
  return kTable[static_cast<int>(fn)];
}

TT_API void unary(UnaryFn fn, const View& out, const View& x, double p0, double p1) {
  dispatch(x.dtype, [&]<class In>(In*) {
    using C = Computed<In>;
    constexpr int kFunctions = std::is_integral_v<C> ? kLastIntegerUnary + 1 : kUnaryCount;
    const auto f = find_unary<C>(fn, std::make_integer_sequence<int, kFunctions>());
    const C low = convert<C>(p0), high = convert<C>(p1);
    dispatch_result<In>(out.dtype, [&]<class Out>(Out*) {
      map<Out, In>(out, x, [&](In value) { return convert<Out>(f(convert<C>(value), low, high)); });
    });
  });
}

TT_API void binary(BinaryFn fn, const View& out, const View& a, const View& b, double p0) {
  dispatch(a.dtype, [&]<class In>(In*) {
    using C = Computed<In>;
    constexpr int kFunctions = std::is_integral_v<C> ? kLastIntegerBinary + 1 : kBinaryCount;
    const auto f = find_binary<C>(fn, std::make_integer_sequence<int, kFunctions>());
    const C slope = convert<C>(p0);
    dispatch_result<In>(out.dtype, [&]<class Out>(Out*) {
      zip<Out, In>(out, a, b, [&](In left, In right) {
        return convert<Out>(f(convert<C>(left), convert<C>(right), slope));
      });
    });
  });
}

TT_API void where(const View& out, const View& condition, const View& a, const View& b) {
  dispatch(out.dtype, [&]<class T>(T*) { choose<T>(out, condition, a, b); });
}

TT_API void copy(const View& out, const View& x) {
  dispatch(out.dtype, [&]<class Out>(Out*) {
    dispatch(x.dtype,
             [&]<class In>(In*) { map<Out, In>(out, x, [](In value) { return convert<Out>(value); }); });
  });
}

// A single element, broadcast.
template <class V>
void fill_with(const View& out, V value) {
  dispatch(out.dtype, [&]<class T>(T*) {
    T element = convert<T>(value);
    copy(out, {&element, out.dtype, {}, {}});
  });
}
TT_API void fill(const View& out, double value) { fill_with(out, value); }
TT_API void fill(const View& out, int64_t value) { fill_with(out, value); }

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
