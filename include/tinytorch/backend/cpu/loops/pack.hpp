// Packing: conversion of tensor elements of any dtype and layout into contiguous buffers of T, and back.
//
// A kernel works on at most kPackBytes of its compute type at a time. An operand that already is contiguous T
// is used in place. Any other operand is converted into a buffer that stays in the L1 cache, so strides,
// broadcasting and 16-bit floats cost one copy in the cache and no extra kernels.
#pragma once

#include <algorithm>
#include <array>
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

// Calls f(offset, rows, length) for blocks of rows that are strides[rank - 2] apart, so that a few calls
// cover many short rows.
template <class F>
void for_each_block(const Shape& shape, const Strides& strides, int64_t linear, int64_t n, F&& f) {
  if (n <= 0) return;
  int64_t index[kMaxRank];
  int64_t offset = locate(shape, strides, linear, index);
  const int last = shape.size() - 1;
  while (n > 0) {
    const bool whole = last > 0 && index[last] == 0 && n >= shape[last];
    const int64_t rows = whole ? std::min(n / shape[last], shape[last - 1] - index[last - 1]) : 1;
    const int64_t length = whole ? shape[last] : std::min(n, shape[last] - index[last]);
    f(offset, rows, length);
    n -= rows * length;
    int d = whole ? last - 1 : last;
    index[d] += whole ? rows : length;
    offset += (whole ? rows : length) * strides[d];
    for (; d > 0 && index[d] == shape[d]; --d) {
      offset += strides[d - 1] - strides[d] * shape[d];
      index[d] = 0;
      ++index[d - 1];
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

// The addresses of the rows of a block: the first row, and the steps between rows and between elements.
template <class Pointer>
struct Rows {
  Pointer data;
  int64_t row_bytes = 0;
  int64_t step = 1;  // elements

  Pointer row(int64_t r) const { return data + r * row_bytes; }
};
using RowsOut = Rows<char*>;
using RowsIn = Rows<const char*>;

// A conversion of rows of n contiguous elements whose types are known at run time; *_row: bytes between rows.
using Converter = void (*)(void* out, int64_t out_row, const void* in, int64_t in_row, int64_t rows,
                           int64_t n);
template <class To, class From>
void convert_rows(void* out, int64_t out_row, const void* in, int64_t in_row, int64_t rows, int64_t n) {
  auto* const to = static_cast<char*>(out);
  const auto* const from = static_cast<const char*>(in);
  for (int64_t r = 0; r < rows; ++r)
    convert_run(reinterpret_cast<To*>(to + r * out_row), 1, reinterpret_cast<const From*>(from + r * in_row),
                1, n);
}
template <class T>
inline constexpr bool kIsComputeType = std::is_same_v<T, float> || std::is_same_v<T, double> ||
                                       std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t>;
template <class To, class... From>
constexpr std::array<Converter, sizeof...(From)> converters_to() {
  const auto find = []<class In>(In*) -> Converter {
    if constexpr (!std::is_same_v<To, In> && (kIsComputeType<To> || kIsComputeType<In>))
      return convert_rows<To, In>;
    return nullptr;
  };
  return {find(static_cast<From*>(nullptr))...};
}
template <class... T>
constexpr std::array<std::array<Converter, sizeof...(T)>, sizeof...(T)> all_converters() {
  return {converters_to<T, T...>()...};
}
// The converter for two different dtypes of which one is a compute type.
inline Converter converter(DType to, DType from) {
  static constexpr auto kConverters = all_converters<float, double, BFloat16, Half, int8_t, uint8_t, int32_t,
                                                     int64_t, bool>();  // as in DType
  const Converter found = kConverters[static_cast<size_t>(to)][static_cast<size_t>(from)];
  if (!found) fail("TT-DTYPE-00", "pack: one of the two dtypes must be a compute type");
  return found;
}

// Elements are moved as words of their size, so that one loop serves all dtypes of a size. Words are read and
// written by memcpy, because they stand for elements of any type: g++ drops the attribute may_alias of a type
// that depends on a template parameter.
template <size_t kBytes>
using WordOf = std::conditional_t<
    kBytes == 1, uint8_t,
    std::conditional_t<kBytes == 2, uint16_t, std::conditional_t<kBytes == 4, uint32_t, uint64_t>>>;
template <size_t kBytes>
WordOf<kBytes> load_word(const char* p) {
  WordOf<kBytes> word;
  std::memcpy(&word, p, kBytes);
  return word;
}
template <size_t kBytes>
void store_word(char* p, WordOf<kBytes> word) {
  std::memcpy(p, &word, kBytes);
}

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

// memcpy for rows, most of which are short: calling memcpy() would take longer than the copy. A row is copied
// in pieces of a fixed size, of which the last one ends where the row does. out may be in.
template <int64_t kPiece>
void copy_pieces(char* out, const char* in, int64_t bytes) {
  for (int64_t i = 0; i + kPiece <= bytes; i += kPiece) std::memcpy(out + i, in + i, kPiece);
  std::memcpy(out + bytes - kPiece, in + bytes - kPiece, kPiece);
}
inline void copy_row(void* out, const void* in, int64_t bytes) {
  auto* const to = static_cast<char*>(out);
  const auto* const from = static_cast<const char*>(in);
  if (bytes > 1024) return void(std::memmove(to, from, static_cast<size_t>(bytes)));
  if (bytes >= 32) return copy_pieces<32>(to, from, bytes);
  if (bytes >= 8) return copy_pieces<8>(to, from, bytes);
  if (bytes >= 4) return copy_pieces<4>(to, from, bytes);
  if (bytes >= 1) copy_pieces<1>(to, from, bytes);
}

// Copies rows of n words of kBytes.
template <size_t kBytes>
void copy_words(RowsOut out, RowsIn in, int64_t rows, int64_t n) {
  constexpr int64_t kB = kBytes;
  for (int64_t r = 0; r < rows; ++r) {
    char* const to = out.row(r);
    const char* const from = in.row(r);
    if (out.step == 1 && in.step == 1) {
      copy_row(to, from, n * kB);
    } else if (out.step == 1 && in.step == 0) {
      const auto value = load_word<kBytes>(from);
      TT_SIMD
      for (int64_t i = 0; i < n; ++i) store_word<kBytes>(to + i * kB, value);
    } else if (out.step == 1 && in.step == -1) {
      TT_SIMD
      for (int64_t i = 0; i < n; ++i) store_word<kBytes>(to + i * kB, load_word<kBytes>(from - i * kB));
    } else {
      for (int64_t i = 0; i < n; ++i)
        store_word<kBytes>(to + i * out.step * kB, load_word<kBytes>(from + i * in.step * kB));
    }
  }
}

// A signed integer of kBytes, for the types of core/simd.hpp.
template <size_t kBytes>
using SignedOf = std::make_signed_t<WordOf<kBytes>>;

// The address of element `offset` of a view.
inline char* element_at(const View& v, int64_t offset) {
  return v.as<char>() + offset * static_cast<int64_t>(size_of(v.dtype));
}

// The bytes between the rows of a view. A view of rank 1 has one row.
inline int64_t row_bytes(const View& v) {
  const int rank = v.rank();
  return rank > 1 ? v.strides[rank - 2] * static_cast<int64_t>(size_of(v.dtype)) : 0;
}

// to[0..n) = elements [linear, linear + n) of a view in row-major order, in the view's dtype.
inline void gather(void* to, const View& v, int64_t linear, int64_t n) {
  dispatch_size(size_of(v.dtype), [&]<size_t kBytes>(std::integral_constant<size_t, kBytes>) {
    auto* out = static_cast<char*>(to);
    for_each_block(v.shape, v.strides, linear, n, [&](int64_t offset, int64_t rows, int64_t length) {
      const int64_t bytes = length * int64_t{kBytes};
      copy_words<kBytes>({out, bytes}, {element_at(v, offset), row_bytes(v), v.strides.back()}, rows, length);
      out += rows * bytes;
    });
  });
}
// Elements [linear, linear + n) of a view in row-major order = from[0..n), in the view's dtype.
inline void scatter(const View& v, int64_t linear, const void* from, int64_t n) {
  dispatch_size(size_of(v.dtype), [&]<size_t kBytes>(std::integral_constant<size_t, kBytes>) {
    const auto* in = static_cast<const char*>(from);
    for_each_block(v.shape, v.strides, linear, n, [&](int64_t offset, int64_t rows, int64_t length) {
      const int64_t bytes = length * int64_t{kBytes};
      copy_words<kBytes>({element_at(v, offset), row_bytes(v), v.strides.back()}, {in, bytes}, rows, length);
      in += rows * bytes;
    });
  });
}

// buffer[0..n) = elements [first, first + n) of a contiguous view, converted to `dtype`.
inline void read_flat(void* buffer, DType dtype, const View& v, int64_t first, int64_t n) {
  const char* const from = element_at(v, first);
  if (v.dtype != dtype) return converter(dtype, v.dtype)(buffer, 0, from, 0, 1, n);
  copy_row(buffer, from, n * static_cast<int64_t>(size_of(dtype)));
}
// Elements [first, first + n) of a contiguous view = buffer[0..n), converted from `dtype`.
inline void write_flat(const View& v, int64_t first, const void* buffer, DType dtype, int64_t n) {
  char* const to = element_at(v, first);
  if (v.dtype != dtype) return converter(v.dtype, dtype)(to, 0, buffer, 0, 1, n);
  copy_row(to, buffer, n * static_cast<int64_t>(size_of(dtype)));
}

// Contiguous rows are converted where they are, unless they are very short. Other elements are first gathered
// in the L1 cache, so that one conversion serves many rows.
inline constexpr int64_t kShortestRun = 16;  // elements
inline bool has_long_rows(const View& v) { return v.strides.back() == 1 && v.shape.back() >= kShortestRun; }

// buffer[0..n) = elements [linear, linear + n) of a view in row-major order, converted to `dtype`. The rank
// is at least 1.
inline void pack(void* buffer, DType dtype, const View& v, int64_t linear, int64_t n) {
  if (v.dtype == dtype) return gather(buffer, v, linear, n);
  const Converter convert = converter(dtype, v.dtype);
  auto* to = static_cast<char*>(buffer);
  const auto size = static_cast<int64_t>(size_of(dtype));
  if (has_long_rows(v)) {
    return for_each_block(v.shape, v.strides, linear, n, [&](int64_t offset, int64_t rows, int64_t length) {
      convert(to, length * size, element_at(v, offset), row_bytes(v), rows, length);
      to += rows * length * size;
    });
  }
  alignas(64) char gathered[kPackBytes];
  const int64_t most = pack_length(v.dtype);
  for (int64_t i = 0; i < n; i += most) {
    const int64_t m = std::min(most, n - i);
    gather(gathered, v, linear + i, m);
    convert(to + i * size, 0, gathered, 0, 1, m);
  }
}

// Elements [linear, linear + n) of a view in row-major order = buffer[0..n), converted from `dtype`.
inline void unpack(const View& v, int64_t linear, const void* buffer, DType dtype, int64_t n) {
  if (v.dtype == dtype) return scatter(v, linear, buffer, n);
  const Converter convert = converter(v.dtype, dtype);
  const auto* from = static_cast<const char*>(buffer);
  const auto size = static_cast<int64_t>(size_of(dtype));
  if (has_long_rows(v)) {
    return for_each_block(v.shape, v.strides, linear, n, [&](int64_t offset, int64_t rows, int64_t length) {
      convert(element_at(v, offset), row_bytes(v), from, length * size, rows, length);
      from += rows * length * size;
    });
  }
  alignas(64) char converted[kPackBytes];
  const int64_t most = pack_length(v.dtype);
  for (int64_t i = 0; i < n; i += most) {
    const int64_t m = std::min(most, n - i);
    convert(converted, 0, from + i * size, 0, 1, m);
    scatter(v, linear + i, converted, m);
  }
}

// read_flat() into a buffer of T.
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
