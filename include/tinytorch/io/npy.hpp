// npy: the file format of one NumPy array (numpy.save, numpy.load).
//
//   "\x93NUMPY"  major minor  length (2 bytes in version 1.0, 4 in 2.0 and 3.0, little-endian)  header values
//   header       {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }  padded with spaces, ends in \n
//
// Versions 1.0, 2.0 and 3.0, both byte orders, and row- and column-major arrays can be read; the tensor is
// always row-major. NumPy has no bfloat16, so it is stored as the raw two-byte type '<V2', as the ml_dtypes
// package does. Integers of 16 bits, unsigned ones and f8_e5m2 are read into the next dtype
// (stored_type.hpp). The package writes f8_e4m3 as raw bytes, '<V1', and so it does with types that have
// other values for the same bytes; so the caller says which type such a file has.
//
// Source: NumPy Enhancement Proposal 1, numpy.lib.format.
#pragma once

#include <charconv>
#include <tinytorch/io/file.hpp>
#include <tinytorch/io/file_kind.hpp>
#include <tinytorch/io/stored_type.hpp>

namespace tinytorch::inline TT_BUILD {

namespace io {

inline constexpr size_t kNpyHeaderLimit = 65536;
inline constexpr std::string_view kNpyMagic = "\x93NUMPY";

struct NpyHeader {
  FileType type;
  std::endian order = std::endian::little;
  bool fortran_order = false;
  Shape shape;
};

struct NpyType {
  std::string_view letters;  // kind and width, as in '<f4'
  FileType type;
};
inline constexpr NpyType kNpyTypes[] = {
    {"f4", DType::f32},      {"f8", DType::f64},          {"V2", DType::bf16},        {"f2", DType::f16},
    {"i1", DType::i8},       {"u1", DType::u8},           {"i4", DType::i32},         {"i8", DType::i64},
    {"b1", DType::boolean},  {"i2", StoredType::i16},     {"u2", StoredType::u16},    {"u4", StoredType::u32},
    {"u8", StoredType::u64}, {"f1", StoredType::f8_e5m2}, {"V1", StoredType::f8_e4m3}};

// Parses the Python literal of the header: a dict with exactly three keys and constant values.
class NpyHeaderParser {
 public:
  // Raw bytes have the type `raw`; without it, they are refused.
  NpyHeaderParser(std::string_view text, const Source& source, std::optional<StoredType> raw = {})
      : text_(text), source_(source), raw_(raw) {}

  NpyHeader run() {
    bool seen[3] = {};
    require('{');
    while (!accept('}')) {
      const std::string_view key = parse_string();
      require(':');
      const int which = key == "descr" ? 0 : key == "fortran_order" ? 1 : key == "shape" ? 2 : -1;
      if (which < 0 || seen[which]) {
        source_.reject("the keys descr, fortran_order and shape, once each", "key " + in_quotes(key));
      }
      seen[which] = true;
      parse_member(which);
      if (!accept(',')) {
        require('}');
        break;
      }
    }
    skip_space();
    if (at_ < text_.size()) reject("spaces after the header");
    if (!seen[0] || !seen[1] || !seen[2]) {
      source_.reject("the keys descr, fortran_order and shape", "a header without one of them");
    }
    return header_;
  }

 private:
  [[noreturn]] void reject(const std::string& expected) const {
    source_.reject(expected, at_ < text_.size() ? in_quotes(text_.substr(at_, 12)) + " in the header"
                                                : std::string("the end of the header"));
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void require(char c) {
    if (!accept(c)) reject(std::string("'") + c + "'");
  }
  bool accept_word(std::string_view word) {
    skip_space();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  std::string_view parse_string() {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') reject("a quoted text");
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) reject("a quoted text with its end");
    const std::string_view out = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return out;
  }

  void parse_member(int which) {
    if (which == 0) {
      skip_space();
      if (at_ < text_.size() && text_[at_] == '[') {
        source_.reject("one of this library's dtypes", "an array of records", "TT-IO-04",
                       "save each field as its own array");
      }
      set_dtype(parse_string());
    } else if (which == 1) {
      header_.fortran_order = accept_word("True");
      if (!header_.fortran_order && !accept_word("False")) reject("True or False");
    } else {
      parse_shape();
    }
  }
  void set_dtype(std::string_view descr) {
    const char order = descr.empty() ? '\0' : descr[0];
    const bool known_order = order == '<' || order == '>' || order == '=' || order == '|';
    for (const NpyType& known : kNpyTypes) {
      const bool needs_no_order = known.type.bytes() == 1 || known.letters == "V2";
      if (!known_order || descr.substr(1) != known.letters || (order == '|' && !needs_no_order)) continue;
      header_.type = known.letters == "V1" ? type_of_raw_bytes(descr) : known.type;
      header_.order = order == '>' ? std::endian::big : std::endian::little;
      return;
    }
    source_.reject("descr f1 f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1 or V2 with a byte order", in_quotes(descr),
                   "TT-IO-04", "convert the array with .astype(...) before saving");
  }
  FileType type_of_raw_bytes(std::string_view descr) const {
    if (raw_) return *raw_;
    source_.reject("a type of numbers", in_quotes(descr) + ", which is written for several types of 8 bits",
                   "TT-IO-04",
                   "load_npy(path, StoredType::f8_e4m3) reads the bytes as the type that it names");
  }
  void parse_shape() {
    require('(');
    while (!accept(')')) {
      skip_space();
      uint64_t size = 0;
      const char* begin = text_.data() + at_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), size);
      if (error != std::errc{}) reject("a size");
      at_ += static_cast<size_t>(end - begin);
      append_size(header_.shape, size, source_);
      if (accept(',')) continue;
      if (header_.shape.size() == 1) reject("',' in a shape with one size");
      require(')');
      break;
    }
  }

  std::string_view text_;
  const Source& source_;
  std::optional<StoredType> raw_;
  NpyHeader header_;
  size_t at_ = 0;
};

// A row-major tensor from column-major values (first index varies fastest).
inline Tensor from_column_major(const NpyHeader& header, Bytes values, const Source& source) {
  Shape reversed;
  for (int d = header.shape.size() - 1; d >= 0; --d) reversed.push_back(header.shape[d]);
  const Tensor stored = tensor_of_type(reversed, header.type, values, header.order, source);
  Strides strides;
  for (int d = header.shape.size() - 1; d >= 0; --d) strides.push_back(stored.strides()[d]);
  const std::vector<std::byte> rows = bytes_of_tensor(alias(stored, header.shape, strides, 0), source.loc);
  return tensor_from_bytes(header.shape, header.type.dtype, rows, std::endian::native, source);
}

// The bytes before the values, from the magic to the newline, for a row-major array.
inline std::string npy_head(const Shape& sizes, FileType stored) {
  size_t type = 0;
  while (kNpyTypes[type].type != stored) ++type;
  std::string shape;
  for (const int64_t n : sizes) shape += (shape.empty() ? "" : ", ") + std::to_string(n);
  if (sizes.size() == 1) shape += ",";
  const bool is_byte = !stored.stored && stored.bytes() == 1;  // ml_dtypes writes '<f1' and '<V1'
  std::string head(kNpyMagic);
  head += {'\x01', '\x00', '\x00', '\x00'};  // version 1.0; the length is set below
  head += std::string("{'descr': '") + (is_byte ? '|' : '<') + std::string(kNpyTypes[type].letters) +
          "', 'fortran_order': False, 'shape': (" + shape + "), }";
  while (head.size() % 64 != 63) head += ' ';  // the values start at a multiple of 64 bytes
  head += '\n';
  const size_t length = head.size() - 10;
  head[8] = static_cast<char>(length & 255);
  head[9] = static_cast<char>(length >> 8);
  return head;
}

}  // namespace io

namespace io {

inline Tensor read_npy(Bytes bytes, std::optional<StoredType> raw, const Source& source) {
  const std::string_view text = as_text(bytes);
  if (!text.starts_with(kNpyMagic)) refuse_other_kind(bytes, source);
  source.expect(text.starts_with(kNpyMagic), "a file that begins with \\x93NUMPY", "other bytes");
  source.expect(bytes.size() >= 8, "two bytes of version", "the end of the file");
  const int major = std::to_integer<int>(bytes[6]), minor = std::to_integer<int>(bytes[7]);
  if (major < 1 || major > 3 || minor != 0) {
    source.reject("version 1.0, 2.0 or 3.0", std::to_string(major) + "." + std::to_string(minor), "TT-IO-04");
  }
  const size_t start = major == 1 ? 10 : 12;
  if (bytes.size() < start) source.reject("the length of the header", "the end of the file");
  const size_t length = major == 1 ? load<uint16_t>(bytes, 8, std::endian::little)
                                   : load<uint32_t>(bytes, 8, std::endian::little);
  if (length > bytes.size() - start || length > kNpyHeaderLimit) {
    source.reject(
        "a header of up to " + std::to_string(std::min(bytes.size() - start, kNpyHeaderLimit)) + " bytes",
        count_of(length, "bytes"));
  }
  const NpyHeader header = NpyHeaderParser(text.substr(start, length), source, raw).run();
  const Bytes values = bytes.subspan(start + length);
  const uint64_t needed = checked_bytes(header.shape, header.type.bytes(), source);
  if (values.size() != needed) {
    source.reject(count_of(needed, "bytes of values for ") + header.type.name() + " " + header.shape.str(),
                  count_of(values.size(), "bytes"));
  }
  return header.fortran_order ? from_column_major(header, values, source)
                              : tensor_of_type(header.shape, header.type, values, header.order, source);
}

}  // namespace io

// Parses an array held in memory into a row-major tensor. Throws TT-IO-04 for types that no dtype holds
// (complex, text, records, large u64).
inline Tensor parse_npy(Bytes bytes, const std::string& name = "npy data", TT_LOC) {
  return io::read_npy(bytes, {}, {name, "npy", loc});
}
// As above; raw bytes ('V1') have the type `raw`, f8_e4m3 or f8_e5m2.
inline Tensor parse_npy(Bytes bytes, StoredType raw, const std::string& name = "npy data", TT_LOC) {
  const io::Source source{name, "npy", loc};
  if (size_of(raw) != 1) source.reject("a type of one byte", name_of(raw), "TT-IO-04");
  return io::read_npy(bytes, raw, source);
}

// The content of the file that save_npy writes.
inline std::vector<std::byte> to_npy(const Tensor& t, TT_LOC) {
  std::vector<std::byte> out;
  io::append(out, as_bytes(io::npy_head(t.shape(), t.dtype())));
  io::append(out, io::bytes_of_tensor(t, loc));
  return out;
}
inline std::vector<std::byte> to_npy(const Tensor& t, StoredType type, TT_LOC) {
  std::vector<std::byte> out;
  io::append(out, as_bytes(io::npy_head(t.shape(), type)));
  io::append(out, io::bytes_of_type(t, type, loc));
  return out;
}

inline Tensor load_npy(const std::string& path, TT_LOC) {
  return parse_npy(read_file(path, uint64_t{1} << 40, loc), path, loc);
}
inline Tensor load_npy(const std::string& path, StoredType raw, TT_LOC) {
  return parse_npy(read_file(path, uint64_t{1} << 40, loc), raw, path, loc);
}
// Writes t (any device, any strides) as a row-major array, in version 1.0.
inline void save_npy(const std::string& path, const Tensor& t, TT_LOC) {
  write_file(path, to_npy(t, loc), loc);
}
// As above, with the values as `type`, which must hold them (TT-IO-02): save_npy("tokens.npy", tokens,
// StoredType::u16).
inline void save_npy(const std::string& path, const Tensor& t, StoredType type, TT_LOC) {
  write_file(path, to_npy(t, type, loc), loc);
}

}  // namespace tinytorch::inline TT_BUILD
