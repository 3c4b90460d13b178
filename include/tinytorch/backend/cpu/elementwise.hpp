// Elementwise kernels on the CPU: unary, binary, where, casts and copies, for every dtype and layout.
//
// Contract: out has the broadcast shape; inputs broadcast to it (missing leading dimensions and sizes of 1
// stretch). out may be the same memory as an input, element for element; otherwise they must not overlap. One
// short loop per function and compute type does the arithmetic; row_walk.hpp brings operands to it.
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

#if TT_BODIES(BACKEND)
#include <algorithm>
#include <cstring>
#include <tinytorch/backend/cpu/function_kernels.hpp>
#include <tinytorch/backend/cpu/pack.hpp>
#include <tinytorch/backend/cpu/row_walk.hpp>
#include <tinytorch/backend/cpu/stream.hpp>
#include <tinytorch/backend/cpu/transposed.hpp>
#include <tinytorch/core/parallel.hpp>
#include <utility>

namespace tinytorch::inline TT_BUILD::backend::cpu {

template <class T>
void where_kernel(T* out, const T* const* in, int64_t n, const double*) {
  const T *condition = in[0], *a = in[1], *b = in[2];
  TT_SIMD
  for (int64_t i = 0; i < n; ++i) out[i] = condition[i] != T(0) ? a[i] : b[i];
}

// The same of flat operands: the condition's bytes as they are, and values of any dtype as words of its size.
template <class Word>
void where_flat(const View& out, const View& condition, const View& a, const View& b) {
  parallel_for(out.numel(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
    auto* const to = out.as<Word>();
    const auto *const x = a.as<const Word>(), *const y = b.as<const Word>();
    const auto* const chosen = condition.as<const uint8_t>();
    TT_SIMD
    for (int64_t i = begin; i < end; ++i) {
      const Word u = x[i], v = y[i];  // both, whatever the condition: else no vector is loaded whole
      to[i] = chosen[i] != 0 ? u : v;
    }
  });
}

// Bools are stored as bytes 0 and 1; functions from bool to bool run on those bytes, 64 to a vector.
inline View as_bytes(View v) {
  v.dtype = DType::u8;
  return v;
}

TT_API void unary(UnaryFn fn, const View& out, const View& x, double p0, double p1) {
  const double parameters[] = {p0, p1};
  if (fn == UnaryFn::logical_not && x.dtype == DType::boolean && out.dtype == DType::boolean) {
    return run_packed<uint8_t>(unary_kernel<UnaryFn::logical_not, uint8_t>, as_bytes(out), {as_bytes(x)},
                               parameters);
  }
  dispatch_compute(x.dtype, [&]<class T>(T*) { run_packed<T>(kernel_of<T>(fn), out, {x}, parameters); });
}

TT_API void binary(BinaryFn fn, const View& out, const View& a, const View& b, double p0) {
  const double parameters[] = {p0};
  if (a.dtype == DType::boolean && out.dtype == DType::boolean && fn >= BinaryFn::maximum &&
      fn <= BinaryFn::logical_or) {
    return run_packed<uint8_t>(kernel_of<uint8_t>(fn), as_bytes(out), {as_bytes(a), as_bytes(b)}, parameters);
  }
  dispatch_compute(a.dtype, [&]<class T>(T*) { run_packed<T>(kernel_of<T>(fn), out, {a, b}, parameters); });
}

TT_API void where(const View& out, const View& condition, const View& a, const View& b) {
  if (lies_flat(condition, DType::boolean, out) && lies_flat(a, out.dtype, out) &&
      lies_flat(b, out.dtype, out) && out.contiguous() && !streams(out, {condition, a, b})) {
    const size_t size = size_of(out.dtype);
    if (size == 1) return where_flat<uint8_t>(out, condition, a, b);
    if (size == 2) return where_flat<uint16_t>(out, condition, a, b);
    if (size == 4) return where_flat<uint32_t>(out, condition, a, b);
    return where_flat<uint64_t>(out, condition, a, b);
  }
  if (!strides_fall(out.shape, out.strides)) {
    return in_order_of(out, {condition, a, b},
                       [](const View& to, const View(&in)[3]) { where(to, in[0], in[1], in[2]); });
  }
  dispatch_compute(out.dtype, [&]<class T>(T*) {
    run_packed<T>(where_kernel<T>, out, {condition, a, b}, nullptr);
  });
}

// out = x, one dtype: no buffer between, unless out is streamed. shape and strides are collapsed.
template <class T>
void copy_same(T* out, const T* x, const Shape& shape, const Strides& to, const Strides& from,
               bool streamed) {
  const int last = shape.size() - 1, down = to[last] == 1 ? crossing_dimension(shape, from) : -1;
  if (down >= 0) {
    constexpr int64_t kBand = 64;  // rows of one matrix that a thread moves at a time
    const int64_t rows = shape[down], cols = shape[last], bands = (rows + kBand - 1) / kBand;
    Shape outer = shape;
    outer[down] = outer[last] = 1;
    return parallel_for(outer.numel() * bands, std::max<int64_t>(1, kElementwiseGrain / (kBand * cols)),
                        [&](int64_t begin, int64_t end) {
                          int64_t index[kMaxRank];
                          for (int64_t task = begin; task < end; ++task) {
                            const int64_t matrix = task / bands, row = task % bands * kBand;
                            copy_transposed(out + locate(outer, to, matrix, index) + row * to[down], to[down],
                                            x + locate(outer, from, matrix, index) + row, from[last],
                                            std::min(kBand, rows - row), cols);
                          }
                        });
  }
  if (streamed) {
    const View source{const_cast<T*>(x), dtype_of<T>, shape, from};
    return parallel_for(shape.numel(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
      alignas(64) T buffer[kPackLength<T>];
      for (int64_t i = begin; i < end; i += kPackLength<T>) {
        const int64_t n = std::min(kPackLength<T>, end - i);
        pack(buffer, source, i, n);
        stream_copy(out + i, buffer, n * static_cast<int64_t>(sizeof(T)));
      }
      stream_fence();
    });
  }
  parallel_for(shape.numel(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
    for_each_run_of_both(shape, to, from, begin, end - begin, [&](int64_t a, int64_t b, int64_t length) {
      convert_run(out + a, to[last], x + b, from[last], length);
    });
  });
}

// A constant is not streamed: nothing is read that it would push out, and what is filled is mostly used at
// once.
inline bool repeats_one(const View& x) { return bytes_of(x) <= static_cast<int64_t>(size_of(x.dtype)); }

TT_API void copy(const View& out, const View& x) {
  if (out.numel() == 0) return;
  const bool streamed = !repeats_one(x) && streams(out, {x});
  if (out.dtype == x.dtype && out.contiguous() && x.contiguous() && out.shape == x.shape) {
    return parallel_for(bytes_of(out), int64_t{1} << 18, [&](int64_t begin, int64_t end) {
      char* const to = out.as<char>() + begin;
      const char* const from = x.as<const char>() + begin;
      if (!streamed) return void(std::memcpy(to, from, static_cast<size_t>(end - begin)));
      stream_copy(to, from, end - begin);
      stream_fence();
    });
  }
  if (!strides_fall(out.shape, out.strides)) {
    return in_order_of(out, {x}, [](const View& to, const View(&in)[1]) { copy(to, in[0]); });
  }
  if (out.dtype == x.dtype) {
    Shape shape = out.shape;
    Strides strides[] = {out.strides, stretch(x, out.shape)};
    collapse(shape, strides, 2);
    return dispatch(out.dtype, [&]<class T>(T*) {
      copy_same(out.as<T>(), x.as<const T>(), shape, strides[0], strides[1], streamed);
    });
  }
  const double parameters[] = {0, 0};
  // The compute type must hold both ends exactly: integers to 16-bit floats go through double, so as to round
  // once.
  DType via = x.dtype;
  if (out.dtype == DType::f64 || (is_16_bit(out.dtype) && is_integral(x.dtype))) via = DType::f64;
  if (out.dtype == DType::f32 && !is_floating(x.dtype)) via = DType::f32;
  dispatch_compute(
      via, [&]<class T>(T*) { run_packed<T>(unary_kernel<UnaryFn::identity, T>, out, {x}, parameters); });
}

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
