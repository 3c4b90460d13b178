// Packing: conversion of tensor elements of any dtype and layout into contiguous buffers of T, and back.
//
// A kernel works on at most kPackBytes of its compute type at a time. An operand that already is contiguous T
// is used in place. Any other operand is converted into a buffer that stays in the L1 cache, so strides,
// broadcasting and 16-bit floats cost one copy in the cache and no extra kernels.
#pragma once

#include <algorithm>
#include <limits>
#include <tinytorch/backend/cpu/loops/runs.hpp>
#include <tinytorch/backend/functors.hpp>
#include <tinytorch/backend/layout.hpp>

namespace tinytorch::inline TT_BUILD::backend {

inline constexpr int64_t kPackBytes = 4096;
template <class T>
inline constexpr int64_t kPackLength = kPackBytes / static_cast<int64_t>(sizeof(T));

// Calls f(offset, length) for the runs along the last dimension that contain the elements [linear, linear +
// n) in row-major order.
template <class F>
void for_each_run(const Shape& shape, const Strides& strides, int64_t linear, int64_t n, F&& f) {
  if (n <= 0) return;  // locate() cannot divide by a size of 0
  int64_t index[kMaxRank];
  int64_t offset = locate(shape, strides, linear, index);
  const int last = shape.size() - 1;
  while (n > 0) {
    const int64_t length = std::min(n, shape[last] - index[last]);
    f(offset, length);
    n -= length;
    if (n <= 0) return;
    offset -= index[last] * strides[last];
    index[last] = 0;
    for (int d = last - 1; d >= 0; --d) {
      offset += strides[d];
      if (++index[d] < shape[d]) break;
      offset -= strides[d] * shape[d];
      index[d] = 0;
    }
  }
}

// for_each_run for two layouts of one shape: calls f(offset in a, offset in b, length). n > 0.
template <class F>
void for_each_run_of_both(const Shape& shape, const Strides& a, const Strides& b, int64_t linear, int64_t n,
                          F&& f) {
  int64_t index[kMaxRank];
  int64_t at_b = locate(shape, b, linear, index), at_a = locate(shape, a, linear, index);
  const int last = shape.size() - 1;
  while (n > 0) {
    const int64_t length = std::min(n, shape[last] - index[last]);
    f(at_a, at_b, length);
    n -= length;
    if (n <= 0) return;
    at_a -= index[last] * a[last];
    at_b -= index[last] * b[last];
    index[last] = 0;
    for (int d = last - 1; d >= 0; --d) {
      at_a += a[d];
      at_b += b[d];
      if (++index[d] < shape[d]) break;
      at_a -= a[d] * shape[d];
      at_b -= b[d] * shape[d];
      index[d] = 0;
    }
  }
}

// Converts floats to i64. A block whose values fit into i32 is converted by way of i32, because only AVX-512
// has vector conversions to 64 bits.
template <class From>
void convert_to_i64(int64_t* out, const From* in, int64_t n) {
  constexpr int64_t kBlock = 64;
  constexpr From kLimit =
      From(1u << 31) * (1 - std::numeric_limits<From>::epsilon());  // largest value below 2^31
  for (int64_t first = 0; first < n; first += kBlock) {
    const int64_t end = std::min(n, first + kBlock);
    if (cpu::all_within(kLimit, in + first, end - first)) {
      TT_SIMD
      for (int64_t i = first; i < end; ++i) out[i] = static_cast<int32_t>(in[i]);
    } else {
      for (int64_t i = first; i < end; ++i) out[i] = convert<int64_t>(in[i]);
    }
  }
}

// out[i * out_stride] = in[i * in_stride], converted, for i < n.
template <class To, class From>
void convert_run(To* out, int64_t out_stride, const From* in, int64_t in_stride, int64_t n) {
  if (out_stride == 1 && in_stride == 1) {
    if constexpr (std::is_same_v<To, int64_t> && std::is_floating_point_v<From> && kSimdBytes < 64) {
      convert_to_i64(out, in, n);
    } else {
      TT_SIMD
      for (int64_t i = 0; i < n; ++i) out[i] = convert<To>(in[i]);
    }
  } else if (out_stride == 1 && in_stride == 0) {
    const To value = convert<To>(*in);
    TT_SIMD
    for (int64_t i = 0; i < n; ++i) out[i] = value;
  } else if (out_stride == 1 && in_stride == -1) {
    TT_SIMD
    for (int64_t i = 0; i < n; ++i) out[i] = convert<To>(in[-i]);
  } else {
    for (int64_t i = 0; i < n; ++i) out[i * out_stride] = convert<To>(in[i * in_stride]);
  }
}

// buffer[0..n) = elements [first, first + n) of a contiguous view, as T.
template <class T>
void read_flat(T* buffer, const View& v, int64_t first, int64_t n) {
  dispatch(v.dtype, [&]<class From>(From*) { convert_run(buffer, 1, v.as<const From>() + first, 1, n); });
}
// Elements [first, first + n) of a contiguous view = buffer[0..n), converted.
template <class T>
void write_flat(const View& v, int64_t first, const T* buffer, int64_t n) {
  dispatch(v.dtype, [&]<class To>(To*) { convert_run(v.as<To>() + first, 1, buffer, 1, n); });
}

// buffer[0..n) = elements [linear, linear + n) of a view in row-major order, as T. The rank is at least 1.
template <class T>
void pack(T* buffer, const View& v, int64_t linear, int64_t n) {
  dispatch(v.dtype, [&]<class From>(From*) {
    const int64_t step = v.strides.back();
    for_each_run(v.shape, v.strides, linear, n, [&](int64_t offset, int64_t length) {
      convert_run(buffer, 1, v.as<const From>() + offset, step, length);
      buffer += length;
    });
  });
}

// Elements [linear, linear + n) of a view in row-major order = buffer[0..n), converted.
template <class T>
void unpack(const View& v, int64_t linear, const T* buffer, int64_t n) {
  dispatch(v.dtype, [&]<class To>(To*) {
    const int64_t step = v.strides.back();
    for_each_run(v.shape, v.strides, linear, n, [&](int64_t offset, int64_t length) {
      convert_run(v.as<To>() + offset, step, buffer, 1, length);
      buffer += length;
    });
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend
