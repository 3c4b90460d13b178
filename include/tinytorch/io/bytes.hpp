// Conversion between bytes and tensors, for every file format: byte order, checked sizes, and error reports.
//
// A reader takes a span of bytes and a Source with the file's name. Sizes that the bytes state are checked
// against the number of bytes present before anything is allocated, so a short file cannot cause a large
// allocation.
//
// Error codes: TT-IO-01 cannot read; -02 cannot write; -03 violates the format; -04 valid, but not supported
// here; -05 built without the library that reads it; -06 larger than a limit.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <tinytorch/tensor/tensor.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

using Bytes = std::span<const std::byte>;

inline Bytes as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace tinytorch::inline TT_BUILD

namespace tinytorch::inline TT_BUILD::io {

// Text from a file in a form that is safe to print: in quotes, at most 60 characters, with every byte other
// than plain ASCII as \xNN.
inline std::string in_quotes(std::string_view text) {
  constexpr size_t kShown = 60;
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "'";
  for (const char c : text.substr(0, kShown)) {
    const auto u = static_cast<unsigned char>(c);
    if (u >= 0x20 && u < 0x7f && c != '\'' && c != '\\') {
      out += c;
    } else {
      out += {'\\', 'x', kHex[u >> 4], kHex[u & 15]};
    }
  }
  return out + (text.size() > kShown ? "'..." : "'");
}

inline std::string count_of(uint64_t n, const char* what) { return std::to_string(n) + " " + what; }

// Origin of the bytes; creates error messages that name it.
struct Source {
  std::string name;    // path, or the caller's name for the bytes
  const char* format;  // "safetensors", "npy", ...
  Loc loc;

  [[noreturn]] void reject(const std::string& expected, const std::string& found,
                           const char* code = "TT-IO-03", const std::string& hint = {}) const {
    fail(code,
         std::string("cannot read ") + quoted_path() + " as " + format + "\n  expected: " + expected +
             "\n  found:    " + found + (hint.empty() ? "" : "\n  hint: " + hint),
         loc);
  }
  void expect(bool holds, const char* expected, const char* found) const {
    if (!holds) reject(expected, found);
  }
  std::string quoted_path() const { return "'" + name + "'"; }
};

// --- numbers ---

template <class T>
T reverse_bytes(T value) {
  std::byte raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  for (size_t i = 0; i < sizeof(T) / 2; ++i) std::swap(raw[i], raw[sizeof(T) - 1 - i]);
  std::memcpy(&value, raw, sizeof(T));
  return value;
}

// The unsigned integer at offset `at`; the caller has checked that it is inside.
template <class T>
T load(Bytes bytes, size_t at, std::endian order) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return order == std::endian::native ? value : reverse_bytes(value);
}

template <class T>
void append(std::vector<std::byte>& out, T value, std::endian order) {
  if (order != std::endian::native) value = reverse_bytes(value);
  const auto* raw = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), raw, raw + sizeof(T));
}
inline void append(std::vector<std::byte>& out, Bytes bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// --- shapes ---

// Appends a size read from a file to `shape`. Throws if the rank exceeds 8 or no tensor can have that size.
inline void append_size(Shape& shape, uint64_t size, const Source& source) {
  if (shape.size() == kMaxRank) {
    source.reject("at most 8 dimensions", "more", "TT-IO-04", "merge dimensions before saving");
  }
  if (size > uint64_t{1} << 58) source.reject("sizes up to 2^58", std::to_string(size));
  shape.push_back(static_cast<int64_t>(size));
}

// Bytes of a tensor of that shape. The overflow check leaves out sizes of 0, so that strides, which are
// products too, cannot overflow either; the result for an empty tensor is 0.
inline uint64_t checked_bytes(const Shape& shape, size_t element_bytes, const Source& source) {
  uint64_t product = element_bytes;
  bool is_empty = false;
  for (const int64_t s : shape) {
    if (s == 0) is_empty = true;
    if (s > 0 &&
        (__builtin_mul_overflow(product, static_cast<uint64_t>(s), &product) || product > uint64_t{1} << 58))
      source.reject("a shape of at most 2^58 bytes", "shape " + shape.str());
  }
  return is_empty ? 0 : product;
}

// --- tensors ---

// A new tensor with the row-major values `bytes`. The caller has checked that their number matches the shape.
inline Tensor tensor_from_bytes(const Shape& shape, DType dtype, Bytes bytes, std::endian order,
                                const Source& source) {
  if (dtype == DType::boolean) {  // a C++ bool with any other byte is undefined behaviour
    for (const std::byte b : bytes) {
      if (b > std::byte{1}) source.reject("bool bytes 0 or 1", std::to_string(std::to_integer<int>(b)));
    }
  }
  Tensor t = empty(shape, dtype, cpu, source.loc);
  if (bytes.empty()) return t;
  auto* out = static_cast<std::byte*>(t.raw(source.loc));
  const size_t width = size_of(dtype);
  if (order == std::endian::native || width == 1) {
    std::memcpy(out, bytes.data(), bytes.size());
  } else {
    for (size_t i = 0; i < bytes.size(); ++i) out[i] = bytes[i / width * width + (width - 1 - i % width)];
  }
  return t;
}

// The values of t, row-major and little-endian, for any strides and device.
inline std::vector<std::byte> bytes_of_tensor(const Tensor& t, Loc loc) {
  static_assert(std::endian::native == std::endian::little, "files are written on little-endian machines");
  if (t.device() != cpu) return bytes_of_tensor(t.detach().to(cpu, loc), loc);
  std::vector<std::byte> out(t.bytes());
  const void* raw = t.raw(loc);
  if (out.empty()) return out;
  if (t.is_contiguous()) {
    std::memcpy(out.data(), raw, out.size());
    return out;
  }
  std::byte* at = out.data();
  dispatch(t.dtype(), [&]<class T>(T*) {
    for_each_element<T>(t.view_of(), [&](const T& value) {
      std::memcpy(at, &value, sizeof(T));
      at += sizeof(T);
    });
  });
  return out;
}

}  // namespace tinytorch::inline TT_BUILD::io
