// StoredType: number types that files have and tensors do not: integers of 16 bits, unsigned ones, and fp8.
//
//   stored             read as   since it holds every value
//   i16, u16           i32
//   u32, u64           i64       a u64 above 2^63 - 1 is refused
//   f8_e4m3, f8_e5m2   bf16      NaN and the infinities of f8_e5m2 stay what they are
//
// A dtype of its own for each of them would add six rows to the loops of every function, for types in which
// hardly anyone computes. A writer uses these types only where its caller names one.
//
// f8_e4m3 is the type that PyTorch calls float8_e4m3fn. Source: Micikevicius et al., "FP8 formats for deep
// learning", 2022.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tinytorch/io/bytes.hpp>

namespace tinytorch::inline TT_BUILD {

enum class StoredType : uint8_t { i16, u16, u32, u64, f8_e4m3, f8_e5m2 };
inline constexpr int kStoredTypeCount = 6;
using StoredTypes = std::map<std::string, StoredType>;  // by the name of a tensor

constexpr const char* name_of(StoredType t) {
  constexpr const char* kNames[kStoredTypeCount] = {"i16", "u16", "u32", "u64", "f8_e4m3", "f8_e5m2"};
  return kNames[static_cast<size_t>(t)];
}
constexpr size_t size_of(StoredType t) {
  constexpr size_t kBytes[kStoredTypeCount] = {2, 2, 4, 8, 1, 1};
  return kBytes[static_cast<size_t>(t)];
}
// The dtype as which values of this type are read.
constexpr DType dtype_of_stored(StoredType t) {
  constexpr DType kRead[kStoredTypeCount] = {DType::i32, DType::i32,  DType::i64,
                                             DType::i64, DType::bf16, DType::bf16};
  return kRead[static_cast<size_t>(t)];
}

namespace io {

// The type of the values of a file: a dtype, or a stored type and the dtype as which it is read.
struct FileType {
  DType dtype = DType::f32;
  std::optional<StoredType> stored = {};

  constexpr FileType() = default;
  constexpr FileType(DType t) : dtype(t) {}
  constexpr FileType(StoredType t) : dtype(dtype_of_stored(t)), stored(t) {}
  constexpr size_t bytes() const { return stored ? size_of(*stored) : size_of(dtype); }
  constexpr const char* name() const { return stored ? name_of(*stored) : name_of(dtype); }
  bool operator==(const FileType&) const = default;
};

// Works like tensor_from_bytes, for every type of a file. Throws TT-IO-04 for a u64 that i64 does not hold.
TT_API Tensor tensor_of_type(const Shape& shape, FileType type, Bytes bytes, std::endian order,
                             const Source& source);

// Works like bytes_of_tensor, with the values of t as `type`. Throws TT-IO-02 for a number outside of the
// type's range, and for a tensor of the other kind: integers are stored from integers, and fp8 from
// floating-point numbers, which are rounded to nearest, ties to even.
TT_API std::vector<std::byte> bytes_of_type(const Tensor& t, FileType type, Loc loc);

}  // namespace io
}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(LAYERS)

#include <tinytorch/backend/float8_e5m2.hpp>
#include <tinytorch/backend/kv_format.hpp>

namespace tinytorch::inline TT_BUILD::io {

// Calls f with a null pointer of the integer type.
template <class F>
decltype(auto) dispatch_integer(StoredType t, F&& f) {
  switch (t) {
    case StoredType::i16:
      return f(static_cast<int16_t*>(nullptr));
    case StoredType::u16:
      return f(static_cast<uint16_t*>(nullptr));
    case StoredType::u32:
      return f(static_cast<uint32_t*>(nullptr));
    default:
      return f(static_cast<uint64_t*>(nullptr));
  }
}

template <class Float8Type>
void decode_float8(Bytes bytes, BFloat16* out) {
  BFloat16 values[256];
  for (unsigned code = 0; code < 256; ++code) {
    Float8Type number;
    number.bits = static_cast<uint8_t>(code);
    values[code] = BFloat16(static_cast<float>(number));
  }
  for (size_t i = 0; i < bytes.size(); ++i) out[i] = values[std::to_integer<size_t>(bytes[i])];
}

template <class From, class To>
void decode_integers(Bytes bytes, std::endian order, To* out, const Source& source) {
  using Unsigned = std::make_unsigned_t<From>;
  for (size_t i = 0; i < bytes.size() / sizeof(From); ++i) {
    const auto value = static_cast<From>(load<Unsigned>(bytes, i * sizeof(From), order));
    if constexpr (std::is_same_v<From, uint64_t>) {
      if (value >> 63) {
        source.reject("u64 values up to 2^63 - 1, which an i64 holds",
                      std::to_string(value) + " as value " + std::to_string(i), "TT-IO-04");
      }
    }
    out[i] = static_cast<To>(value);
  }
}

TT_API Tensor tensor_of_type(const Shape& shape, FileType type, Bytes bytes, std::endian order,
                             const Source& source) {
  if (!type.stored) return tensor_from_bytes(shape, type.dtype, bytes, order, source);
  Tensor t = empty(shape, type.dtype, cpu, source.loc);
  if (bytes.empty()) return t;
  if (*type.stored == StoredType::f8_e4m3) {
    decode_float8<backend::Float8>(bytes, t.data<BFloat16>(source.loc));
  } else if (*type.stored == StoredType::f8_e5m2) {
    decode_float8<backend::Float8E5M2>(bytes, t.data<BFloat16>(source.loc));
  } else if (type.dtype == DType::i32) {
    dispatch_integer(*type.stored, [&]<class From>(From*) {
      decode_integers<From>(bytes, order, t.data<int32_t>(source.loc), source);
    });
  } else {
    dispatch_integer(*type.stored, [&]<class From>(From*) {
      decode_integers<From>(bytes, order, t.data<int64_t>(source.loc), source);
    });
  }
  return t;
}

[[noreturn]] inline void fail_to_store(const std::string& expected, const std::string& found,
                                       const std::string& hint, Loc loc) {
  fail("TT-IO-02",
       "cannot store a tensor\n  expected: " + expected + "\n  found:    " + found + "\n  hint: " + hint,
       loc);
}

// An infinity is a value of f8_e5m2 and none of f8_e4m3. Other magnitudes may be larger than the largest
// value if they round to it.
inline std::byte encode_float8(float x, StoredType type, Loc loc) {
  const bool is_e5m2 = type == StoredType::f8_e5m2;
  const float magnitude = x < 0 ? -x : x;
  const bool is_infinite = magnitude == std::numeric_limits<float>::infinity();
  if (is_infinite && is_e5m2) return static_cast<std::byte>(x < 0 ? 0xfc : 0x7c);
  if (is_e5m2 ? magnitude >= 61440 : magnitude > 464) {
    fail_to_store(std::string("numbers up to ") + (is_e5m2 ? "57344 for f8_e5m2" : "448 for f8_e4m3"),
                  std::to_string(x), "divide the tensor by a scale, and store the scale beside it", loc);
  }
  return static_cast<std::byte>(is_e5m2 ? backend::Float8E5M2(x).bits : backend::Float8(x).bits);
}

TT_API std::vector<std::byte> bytes_of_type(const Tensor& t, FileType type, Loc loc) {
  if (t.device() != cpu) return bytes_of_type(t.detach().to(cpu, loc), type, loc);
  const bool is_float8 = type.stored && type.dtype == DType::bf16;
  if (type.stored ? is_float8 != is_floating(t.dtype()) || t.dtype() == DType::boolean
                  : type.dtype != t.dtype()) {
    fail_to_store(is_float8 ? "floating-point numbers" : "integers",
                  std::string(name_of(t.dtype())) + " " + t.shape().str() + " for " + type.name(),
                  "convert the tensor with .to(dtype), or choose another type", loc);
  }
  if (!type.stored) return bytes_of_tensor(t, loc);
  std::vector<std::byte> out;
  out.reserve(static_cast<size_t>(t.numel()) * type.bytes());
  dispatch(t.dtype(), [&]<class T>(T*) {
    for_each_element<T>(t.view_of(), [&](const T& value) {
      if constexpr (std::is_same_v<T, double>) {
        out.push_back(encode_float8(to_float_round_to_odd(value), *type.stored, loc));
      } else if constexpr (is_floating(dtype_of<T>)) {
        out.push_back(encode_float8(static_cast<float>(value), *type.stored, loc));
      } else {
        dispatch_integer(*type.stored, [&]<class To>(To*) {
          if (!std::in_range<To>(static_cast<int64_t>(value))) {
            fail_to_store(std::string("integers that ") + type.name() + " holds", std::to_string(value),
                          "choose a wider type", loc);
          }
          append(out, static_cast<std::make_unsigned_t<To>>(value), std::endian::little);
        });
      }
    });
  });
  return out;
}

}  // namespace tinytorch::inline TT_BUILD::io
#endif
