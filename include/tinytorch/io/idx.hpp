// IDX: the file format of MNIST, plain or gzip-compressed.
//
//   00 00  type  rank  then one 4-byte size per dimension, then the values, row-major; all big-endian
//   type   08 u8   09 i8   0B 16-bit integers (widened to i32)   0C i32   0D f32   0E f64
//
// Source: "The MNIST database of handwritten digits", file format.
#pragma once

#include <tinytorch/io/file.hpp>
#include <tinytorch/io/gzip.hpp>

namespace tinytorch::inline TT_BUILD {

namespace io {

struct IdxType {
  int code;
  DType dtype;
  size_t stored_bytes;
};
inline constexpr IdxType kIdxTypes[] = {{0x08, DType::u8, 1},  {0x09, DType::i8, 1},  {0x0b, DType::i32, 2},
                                        {0x0c, DType::i32, 4}, {0x0d, DType::f32, 4}, {0x0e, DType::f64, 8}};

inline const IdxType& idx_type(int code, const Source& source) {
  for (const IdxType& type : kIdxTypes) {
    if (type.code == code) return type;
  }
  source.reject("type 08, 09, 0B, 0C, 0D or 0E in byte 2", "type " + std::to_string(code) + " (decimal)");
}

inline Tensor widen_16_bit(const Shape& shape, Bytes values, const Source& source) {
  Tensor t = empty(shape, DType::i32, cpu, source.loc);
  auto* out = t.data<int32_t>(source.loc);
  for (size_t i = 0; i < values.size() / 2; ++i)
    out[i] = static_cast<int16_t>(load<uint16_t>(values, 2 * i, std::endian::big));
  return t;
}

inline Tensor parse_plain_idx(Bytes bytes, const Source& source) {
  if (bytes.empty() || bytes[0] != std::byte{0}) refuse_other_kind(bytes, source);
  if (bytes.size() < 4) source.reject("a head of 4 bytes", count_of(bytes.size(), "bytes"));
  source.expect(bytes[0] == std::byte{0} && bytes[1] == std::byte{0}, "two zero bytes at the start",
                "other bytes");
  const IdxType& type = idx_type(std::to_integer<int>(bytes[2]), source);
  const auto rank = std::to_integer<size_t>(bytes[3]);
  if (rank == 0) source.reject("at least one dimension", "none");
  if (rank > kMaxRank) source.reject("at most 8 dimensions", std::to_string(rank), "TT-IO-04");
  const size_t start = 4 + 4 * rank;
  if (bytes.size() < start) source.reject(count_of(rank, "sizes of 4 bytes"), "the end of the file");
  Shape shape;
  for (size_t d = 0; d < rank; ++d)
    append_size(shape, load<uint32_t>(bytes, 4 + 4 * d, std::endian::big), source);
  const Bytes values = bytes.subspan(start);
  const uint64_t needed = checked_bytes(shape, type.stored_bytes, source);
  if (values.size() != needed) {
    source.reject(count_of(needed, "bytes of values for shape ") + shape.str(),
                  count_of(values.size(), "bytes"));
  }
  return type.code == 0x0b ? widen_16_bit(shape, values, source)
                           : tensor_from_bytes(shape, type.dtype, values, std::endian::big, source);
}

}  // namespace io

// Parses an array held in memory; gzip compression is recognized by its first bytes.
inline Tensor parse_idx(Bytes bytes, const std::string& name = "IDX data", TT_LOC) {
  const io::Source source{name, "IDX", loc};
  if (is_gzip(bytes)) return io::parse_plain_idx(gunzip(bytes, name, kGzipOutputLimit, loc), source);
  return io::parse_plain_idx(bytes, source);
}

//   Tensor images = load_idx("mnist/t10k-images-idx3-ubyte.gz");  // u8 [10000, 28, 28]
inline Tensor load_idx(const std::string& path, TT_LOC) {
  return parse_idx(read_file(path, uint64_t{1} << 40, loc), path, loc);
}

}  // namespace tinytorch::inline TT_BUILD
