// Packing: conversion of tensor elements of any dtype and layout into contiguous buffers of T, and back.
//
// A kernel works on at most kPackBytes of its compute type at a time. An operand that already is contiguous T
// is used in place. Any other operand is converted into a buffer that stays in the L1 cache, so strides,
// broadcasting and 16-bit floats cost one copy in the cache and no extra kernels.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <tinytorch/backend/cpu/loops/runs.hpp>
#include <tinytorch/backend/functors.hpp>
#include <tinytorch/backend/layout.hpp>
#include <type_traits>

namespace tinytorch::inline TT_BUILD::backend {

inline constexpr int64_t kPackBytes = 4096;
inline int64_t pack_length(DType t) { return kPackBytes / static_cast<int64_t>(size_of(t)); }
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

// A conversion between contiguous arrays whose types are known at run time.
using Converter = void (*)(void* out, const void* in, int64_t n);
template <class To, class From>
void convert_array(void* out, const void* in, int64_t n) {
  convert_run(static_cast<To*>(out), 1, static_cast<const From*>(in), 1, n);
}
template <class To, class From>
Converter array_converter() {
  if constexpr (std::is_same_v<To, From>) return nullptr;
  return convert_array<To, From>;
}
// The converter for two different dtypes of which one is a compute type.
inline Converter converter(DType to, DType from) {
  const auto computes = [](DType t) {
    return dispatch_compute(t, []<class T>(T*) { return dtype_of<T>; }) == t;
  };
  if (computes(to)) {
    return dispatch_compute(to, [&]<class To>(To*) {
      return dispatch(from, []<class From>(From*) -> Converter { return array_converter<To, From>(); });
    });
  }
  if (!computes(from)) fail("TT-DTYPE-00", "pack: one of the two dtypes must be a compute type");
  return dispatch_compute(from, [&]<class From>(From*) {
    return dispatch(to, []<class To>(To*) -> Converter { return array_converter<To, From>(); });
  });
}

// Elements are moved as words of their size, so that one loop serves all dtypes of a size. A word may alias
// an element of any type.
template <size_t kBytes>
struct WordOf {
  using Plain = std::conditional_t<
      kBytes == 1, uint8_t,
      std::conditional_t<kBytes == 2, uint16_t, std::conditional_t<kBytes == 4, uint32_t, uint64_t>>>;
  typedef Plain type __attribute__((may_alias));
};
// Calls f with std::integral_constant<size_t, bytes>, for the size of an element.
template <class F>
void dispatch_size(size_t bytes, F&& f) {
  switch (bytes) {
    case 1:
      return f(std::integral_constant<size_t, 1>());
    case 2:
      return f(std::integral_constant<size_t, 2>());
    case 4:
      return f(std::integral_constant<size_t, 4>());
    default:
      return f(std::integral_constant<size_t, 8>());
  }
}

// out[i * out_step] = in[i * in_step] for i < n, words of kBytes.
template <size_t kBytes>
void copy_words(void* out, int64_t out_step, const void* in, int64_t in_step, int64_t n) {
  using Word = typename WordOf<kBytes>::type;
  auto* const to = static_cast<Word*>(out);
  const auto* const from = static_cast<const Word*>(in);
  if (out_step == 1 && in_step == 1) {
    TT_SIMD
    for (int64_t i = 0; i < n; ++i) to[i] = from[i];
  } else if (out_step == 1 && in_step == 0) {
    const Word value = *from;
    TT_SIMD
    for (int64_t i = 0; i < n; ++i) to[i] = value;
  } else if (out_step == 1 && in_step == -1) {
    TT_SIMD
    for (int64_t i = 0; i < n; ++i) to[i] = from[-i];
  } else {
    for (int64_t i = 0; i < n; ++i) to[i * out_step] = from[i * in_step];
  }
}

// A signed integer of kBytes, for the types of core/simd.hpp.
template <size_t kBytes>
using SignedOf = std::make_signed_t<typename WordOf<kBytes>::Plain>;

// The address of element `offset` of a view.
inline char* element_at(const View& v, int64_t offset) {
  return v.as<char>() + offset * static_cast<int64_t>(size_of(v.dtype));
}

// to[0..n) = elements [linear, linear + n) of a view in row-major order, in the view's dtype.
inline void gather(void* to, const View& v, int64_t linear, int64_t n) {
  dispatch_size(size_of(v.dtype), [&]<size_t kBytes>(std::integral_constant<size_t, kBytes>) {
    auto* out = static_cast<char*>(to);
    for_each_run(v.shape, v.strides, linear, n, [&](int64_t offset, int64_t length) {
      copy_words<kBytes>(out, 1, element_at(v, offset), v.strides.back(), length);
      out += length * int64_t{kBytes};
    });
  });
}
// Elements [linear, linear + n) of a view in row-major order = from[0..n), in the view's dtype.
inline void scatter(const View& v, int64_t linear, const void* from, int64_t n) {
  dispatch_size(size_of(v.dtype), [&]<size_t kBytes>(std::integral_constant<size_t, kBytes>) {
    const auto* in = static_cast<const char*>(from);
    for_each_run(v.shape, v.strides, linear, n, [&](int64_t offset, int64_t length) {
      copy_words<kBytes>(element_at(v, offset), v.strides.back(), in, 1, length);
      in += length * int64_t{kBytes};
    });
  });
}

// buffer[0..n) = elements [first, first + n) of a contiguous view, converted to `dtype`.
inline void read_flat(void* buffer, DType dtype, const View& v, int64_t first, int64_t n) {
  const char* const from = element_at(v, first);
  if (v.dtype != dtype) return converter(dtype, v.dtype)(buffer, from, n);
  std::memmove(buffer, from, static_cast<size_t>(n) * size_of(dtype));
}
// Elements [first, first + n) of a contiguous view = buffer[0..n), converted from `dtype`.
inline void write_flat(const View& v, int64_t first, const void* buffer, DType dtype, int64_t n) {
  char* const to = element_at(v, first);
  if (v.dtype != dtype) return converter(v.dtype, dtype)(to, buffer, n);
  std::memmove(to, buffer, static_cast<size_t>(n) * size_of(dtype));
}

// Long contiguous rows are converted where they are. Other elements are first gathered in the L1 cache, so
// that one conversion serves many short rows.
inline constexpr int64_t kLongRun = 256;  // elements
inline bool has_long_rows(const View& v) { return v.strides.back() == 1 && v.shape.back() >= kLongRun; }

// buffer[0..n) = elements [linear, linear + n) of a view in row-major order, converted to `dtype`. The rank
// is at least 1.
inline void pack(void* buffer, DType dtype, const View& v, int64_t linear, int64_t n) {
  if (v.dtype == dtype) return gather(buffer, v, linear, n);
  const Converter convert = converter(dtype, v.dtype);
  auto* to = static_cast<char*>(buffer);
  const auto bytes = static_cast<int64_t>(size_of(dtype));
  if (has_long_rows(v)) {
    return for_each_run(v.shape, v.strides, linear, n, [&](int64_t offset, int64_t length) {
      convert(to, element_at(v, offset), length);
      to += length * bytes;
    });
  }
  alignas(64) char gathered[kPackBytes];
  const int64_t most = kPackBytes / static_cast<int64_t>(size_of(v.dtype));
  for (int64_t i = 0; i < n; i += most) {
    const int64_t m = std::min(most, n - i);
    gather(gathered, v, linear + i, m);
    convert(to + i * bytes, gathered, m);
  }
}

// Elements [linear, linear + n) of a view in row-major order = buffer[0..n), converted from `dtype`.
inline void unpack(const View& v, int64_t linear, const void* buffer, DType dtype, int64_t n) {
  if (v.dtype == dtype) return scatter(v, linear, buffer, n);
  const Converter convert = converter(v.dtype, dtype);
  const auto* from = static_cast<const char*>(buffer);
  const auto bytes = static_cast<int64_t>(size_of(dtype));
  if (has_long_rows(v)) {
    return for_each_run(v.shape, v.strides, linear, n, [&](int64_t offset, int64_t length) {
      convert(element_at(v, offset), from, length);
      from += length * bytes;
    });
  }
  alignas(64) char converted[kPackBytes];
  const int64_t most = kPackBytes / static_cast<int64_t>(size_of(v.dtype));
  for (int64_t i = 0; i < n; i += most) {
    const int64_t m = std::min(most, n - i);
    convert(converted, from + i * bytes, m);
    scatter(v, linear + i, converted, m);
  }
}

// The same for a buffer of T.
template <class T>
void read_flat(T* buffer, const View& v, int64_t first, int64_t n) {
  read_flat(buffer, dtype_of<T>, v, first, n);
}
template <class T>
void write_flat(const View& v, int64_t first, const T* buffer, int64_t n) {
  write_flat(v, first, buffer, dtype_of<T>, n);
}
template <class T>
void pack(T* buffer, const View& v, int64_t linear, int64_t n) {
  pack(buffer, dtype_of<T>, v, linear, n);
}
template <class T>
void unpack(const View& v, int64_t linear, const T* buffer, int64_t n) {
  unpack(v, linear, buffer, dtype_of<T>, n);
}

}  // namespace tinytorch::inline TT_BUILD::backend
