// GGUF: the files of llama.cpp, with metadata and named tensors in quantized or plain types.
//
//   "GGUF"  version u32  tensors u64  entries u64
//   entries   key string, type u32, value                      string: length u64, bytes
//   tensors   name string, rank u32, sizes u64 [rank], type u32, offset u64
//   padding to a multiple of the alignment (32, or general.alignment), then the values of each tensor at its
//   offset, which is a multiple of the alignment too
//
//   const tt::GgufFile file = tt::open_gguf("model.gguf");
//   for (const auto& t : file.tensors) std::puts(t.describe().c_str());
//   tt::Tensor norm = file.tensor(*file.find("output_norm.weight"));
//
// Sizes in a file begin with the fastest dimension; `shape` is in our row-major order, the reverse. Opening a
// file reads its metadata and its table of tensors; values are read when they are asked for. Versions 2 and 3
// in little-endian order are read. Every number in a file is checked against its size before it is used:
// counts, lengths, sizes and offsets. Tensors may have gaps between them, but not overlap.
//
// Source: docs/gguf.md and src/gguf.cpp, ggml-org/ggml.
#pragma once

#include <memory>
#include <tinytorch/core/shape.hpp>
#include <tinytorch/io/file.hpp>
#include <tinytorch/io/file_kind.hpp>
#include <tinytorch/io/ggml_types.hpp>
#include <tinytorch/io/gguf_metadata.hpp>
#include <unordered_set>

namespace tinytorch::inline TT_BUILD {

namespace io {
class GgufCursor;
}

struct GgufTensorInfo {
  std::string name;
  const GgmlType* type = nullptr;
  Shape shape;          // row-major
  uint64_t offset = 0;  // from the start of the file
  uint64_t bytes = 0;

  std::string describe() const {  // "blk.0.ffn_up.weight Q4_0 [64, 32], 1152 bytes"
    return name + " " + type->name + " " + shape.str() + ", " + io::count_of(bytes, "bytes");
  }
};

// Values of a plain type, little-endian and row-major, as a tensor on the CPU. Throws TT-IO-04 for types of
// blocks and for I16. The caller has checked the number of bytes.
inline Tensor tensor_from_ggml(const GgmlType& type, const Shape& shape, Bytes bytes,
                               const std::string& name = "GGUF data", TT_LOC) {
  const io::Source source{name, "a plain tensor", loc};
  const std::optional<DType> dtype = plain_dtype(type);
  if (!dtype) {
    source.reject("one of the types F32 F64 BF16 F16 I8 I32 I64", type.name, "TT-IO-04",
                  "read its blocks with GgufFile::bytes(), or convert the file to F16 with llama-quantize");
  }
  return io::tensor_from_bytes(shape, *dtype, bytes, std::endian::little, source);
}

class GgufFile {
 public:
  std::string name;  // its path, for messages
  uint32_t version = 3;
  uint32_t alignment = 32;
  GgufMetadata metadata;
  std::vector<GgufTensorInfo> tensors;  // in the order of the file

  // The entry of the tensor with that name, or null.
  const GgufTensorInfo* find(std::string_view tensor) const {
    for (const GgufTensorInfo& t : tensors)
      if (t.name == tensor) return &t;
    return nullptr;
  }
  // Reads bytes of a tensor from byte `first`, as many as `out` takes. Throws TT-IO-01 if the file cannot be
  // read, and TT-IO-03 if it has become shorter since it was opened.
  void read(const GgufTensorInfo& t, uint64_t first, std::span<std::byte> out, TT_LOC) const {
    const io::Source source{name, "GGUF", loc};
    if (first > t.bytes || out.size() > t.bytes - first) {
      source.reject("bytes within " + io::count_of(t.bytes, "bytes of ") + io::in_quotes(t.name),
                    io::count_of(out.size(), "bytes from byte ") + std::to_string(first));
    }
    read_at(t.offset + first, out, source);
  }
  // The blocks of a tensor as they are in the file.
  std::vector<std::byte> bytes(const GgufTensorInfo& t, TT_LOC) const {
    std::vector<std::byte> out(static_cast<size_t>(t.bytes));
    read(t, 0, out, loc);
    return out;
  }
  // A tensor of a plain type; see tensor_from_ggml.
  Tensor tensor(const GgufTensorInfo& t, TT_LOC) const {
    const std::string where = name + ": " + t.name;
    if (!plain_dtype(*t.type)) return tensor_from_ggml(*t.type, t.shape, {}, where, loc);  // throws
    return tensor_from_ggml(*t.type, t.shape, bytes(t, loc), where, loc);
  }

  uint64_t size() const { return size_; }  // of the file, in bytes

 private:
  friend GgufFile parse_gguf(Bytes bytes, const std::string& name, Loc loc);
  friend GgufFile open_gguf(const std::string& path, Loc loc);
  friend class io::GgufCursor;
  void read_at(uint64_t at, std::span<std::byte> out, const io::Source& source) const {
    if (out.empty()) return;
    if (!descriptor_) {
      std::memcpy(out.data(), memory_.data() + at, out.size());
      return;
    }
    while (!out.empty()) {
      const ssize_t n = ::pread(descriptor_->get(), out.data(), out.size(), static_cast<off_t>(at));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) io::fail_system("TT-IO-01", "read", source.name, source.loc);
      if (n == 0) {
        source.reject(io::count_of(size_, "bytes, as when the file was opened"),
                      "its end at byte " + std::to_string(at));
      }
      out = out.subspan(static_cast<size_t>(n)), at += static_cast<uint64_t>(n);
    }
  }

  // The bytes are in memory_, or in a file that stays open.
  Bytes memory_;
  std::shared_ptr<io::Descriptor> descriptor_;
  uint64_t size_ = 0;
};

namespace io {

inline constexpr uint64_t kGgufHeaderLimit = uint64_t{1} << 28;  // bytes of metadata and table
inline constexpr uint64_t kGgufEntryLimit = uint64_t{1} << 16;   // entries of metadata
inline constexpr uint64_t kGgufTensorLimit = uint64_t{1} << 20;
inline constexpr uint64_t kGgufNameLimit = 64;  // bytes of the name of a tensor
inline constexpr uint64_t kGgufKeyLimit = 65535;
inline constexpr uint64_t kGgufRankLimit = 4;
inline constexpr uint32_t kGgufAlignment = 32;  // of files without general.alignment
inline constexpr uint64_t kGgufAlignmentLimit = uint64_t{1} << 20;

// Powers of two up to 1 MiB, so that padding is never large.
inline constexpr bool is_alignment(uint64_t n) {
  return n > 0 && n <= kGgufAlignmentLimit && (n & (n - 1)) == 0;
}

// Gives the bytes at the start of a file one piece after the other. A file is read into memory in growing
// steps, so that no length that the file states decides how much memory is taken.
class GgufCursor {
 public:
  GgufCursor(const GgufFile& file, const Source& source) : file_(file), source_(source) {}

  // The next n bytes, valid until the next call.
  Bytes take(uint64_t n, const char* what) {
    if (n > file_.size() - at_) {
      source_.reject(count_of(n, "bytes for ") + what + " at byte " + std::to_string(at_),
                     "a file of " + count_of(file_.size(), "bytes"));
    }
    if (n > kGgufHeaderLimit - at_) {
      source_.reject("metadata of at most " + count_of(kGgufHeaderLimit, "bytes"),
                     what + std::string(" up to byte ") + std::to_string(at_ + n), "TT-IO-06");
    }
    while (read_ < at_ + n) {
      const uint64_t end = std::min(file_.size(), std::max<uint64_t>(2 * read_, 65536));
      buffer_.resize(static_cast<size_t>(end));
      file_.read_at(read_, std::span(buffer_).subspan(static_cast<size_t>(read_)), source_);
      read_ = end;
    }
    at_ += n;
    return Bytes(buffer_).subspan(static_cast<size_t>(at_ - n), static_cast<size_t>(n));
  }
  template <class T>
  T number(const char* what) {
    return io::load<T>(take(sizeof(T), what), 0, std::endian::little);
  }
  std::string text(uint64_t limit, const char* what) {
    const auto length = number<uint64_t>(what);
    if (length > limit && limit < kGgufHeaderLimit)
      source_.reject("at most " + count_of(limit, "bytes for ") + what, count_of(length, "bytes"));
    return std::string(as_text(take(length, what)));
  }
  uint64_t at() const { return at_; }
  uint64_t left() const { return file_.size() - at_; }

 private:
  const GgufFile& file_;
  const Source& source_;
  std::vector<std::byte> buffer_;
  uint64_t read_ = 0, at_ = 0;
};

class GgufReader {
 public:
  GgufReader(GgufFile& file, const Source& source) : file_(file), source_(source), in_(file, source) {}

  void run() {
    read_version();
    const uint64_t tensors = read_count("tensors", kGgufTensorLimit);
    const uint64_t entries = read_count("entries of metadata", kGgufEntryLimit);
    if (tensors > in_.left() / 24 || entries > in_.left() / 13) {  // the smallest sizes of one
      source_.reject("a table that fits in " + count_of(file_.size(), "bytes"),
                     count_of(tensors, "tensors and ") + count_of(entries, "entries of metadata"));
    }
    std::unordered_set<std::string> keys, names;
    for (uint64_t i = 0; i < entries; ++i) {
      std::string key = in_.text(kGgufKeyLimit, "a key");
      if (!keys.insert(key).second) source_.reject("each key once", in_quotes(key) + " a second time");
      GgufValue value = read_value(key);
      file_.metadata.append(std::move(key), std::move(value));
    }
    read_alignment();
    for (uint64_t i = 0; i < tensors; ++i) {
      file_.tensors.push_back(read_tensor());
      const std::string& name = file_.tensors.back().name;
      if (!names.insert(name).second) source_.reject("each tensor once", in_quotes(name) + " a second time");
    }
    place_tensors();
  }

 private:
  void read_version() {
    const std::string start(as_text(in_.take(std::min<uint64_t>(4, file_.size()), "the letters GGUF")));
    if (start != "GGUF") {
      GgufCursor again(file_, source_);
      refuse_other_kind(again.take(std::min<uint64_t>(512, file_.size()), "the start"), source_);
      source_.reject("the letters GGUF at byte 0", in_quotes(start));
    }
    const auto version = in_.number<uint32_t>("the version");
    if (version != 0 && (version & 0xffff) == 0) {
      source_.reject("version 2 or 3 in little-endian order", "a big-endian file", "TT-IO-04",
                     "convert it with gguf-convert-endian, which the Python package gguf has");
    }
    if (version != 2 && version != 3) {
      source_.reject("version 2 or 3", "version " + std::to_string(version), "TT-IO-04",
                     "convert the original model again with a current llama.cpp");
    }
    file_.version = version;
  }
  uint64_t read_count(const char* what, uint64_t limit) {
    const auto n = in_.number<uint64_t>(what);
    if (n > limit) source_.reject("at most " + count_of(limit, what), count_of(n, what), "TT-IO-06");
    return n;
  }

  GgufValueType read_type(const std::string& key, const char* what) {
    const auto type = in_.number<uint32_t>(what);
    if (type > static_cast<uint32_t>(GgufValueType::f64)) {
      source_.reject("a type from 0 to 12 for " + in_quotes(key), "type " + std::to_string(type));
    }
    return static_cast<GgufValueType>(type);
  }
  GgufValue read_value(const std::string& key) {
    GgufValueType type = read_type(key, "the type of a value");
    if (type == GgufValueType::string) return {in_.text(kGgufHeaderLimit, "a text")};
    const bool is_array = type == GgufValueType::array;
    uint64_t count = 1;
    if (is_array) {
      type = read_type(key, "the type of elements"), count = in_.number<uint64_t>("the length of an array");
      if (type == GgufValueType::array) {
        source_.reject("an array of numbers or texts", in_quotes(key) + ", an array of arrays", "TT-IO-04",
                       "llama.cpp does not read nested arrays either; store one array for each");
      }
    }
    if (count > in_.left() / (type == GgufValueType::string ? 8 : size_of(type))) {
      source_.reject("a value that ends in the file", in_quotes(key) + ", " + count_of(count, name_of(type)));
    }
    if (type == GgufValueType::string) {
      std::vector<std::string> texts;  // no reserve: it grows with what is really there
      for (uint64_t i = 0; i < count; ++i) texts.push_back(in_.text(kGgufHeaderLimit, "a text"));
      return {std::move(texts)};
    }
    const Bytes raw = in_.take(count * size_of(type), "values");
    for (const std::byte b : raw) {
      if (type == GgufValueType::boolean && b > std::byte{1})
        source_.reject("bool bytes 0 or 1 for " + in_quotes(key), std::to_string(std::to_integer<int>(b)));
    }
    return {type, is_array, raw};
  }
  void read_alignment() {
    const GgufValue* value = file_.metadata.find("general.alignment");
    if (!value) return;
    const int64_t n = value->type() == GgufValueType::u32 ? value->integer().value_or(0) : 0;
    if (n <= 0 || !is_alignment(static_cast<uint64_t>(n)))
      source_.reject("general.alignment as a u32 that is a power of two up to 2^20", value->describe());
    file_.alignment = static_cast<uint32_t>(n);
  }

  // Reads an entry of the table; its offset is still relative to the start of the values.
  GgufTensorInfo read_tensor() {
    GgufTensorInfo t;
    t.name = in_.text(kGgufNameLimit, "the name of a tensor");
    const auto rank = in_.number<uint32_t>("a rank");
    if (rank > kGgufRankLimit)
      source_.reject("at most 4 dimensions for " + in_quotes(t.name), std::to_string(rank));
    Shape reversed;
    for (uint32_t i = 0; i < rank; ++i) append_size(reversed, in_.number<uint64_t>("a size"), source_);
    for (int i = reversed.size(); i > 0; --i) t.shape.push_back(reversed[i - 1]);
    const auto id = in_.number<uint32_t>("the type of a tensor");
    t.type = find_ggml_type(id);
    if (!t.type) {
      source_.reject("a type of ggml for " + in_quotes(t.name), "type " + std::to_string(id), "TT-IO-04",
                     "types 4, 5, 31 to 33 and 36 to 38 were removed from ggml: convert the original model "
                     "again");
    }
    t.offset = in_.number<uint64_t>("the offset of a tensor");
    const uint64_t elements = checked_bytes(t.shape, 1, source_);
    if ((reversed.empty() ? 1 : reversed[0]) % t.type->block != 0) {
      source_.reject("rows of whole blocks of " + std::to_string(t.type->block) + " for " + in_quotes(t.name),
                     t.type->name + std::string(" ") + t.shape.str());
    }
    t.bytes = elements / t.type->block * t.type->bytes;  // at most 2^58 elements of 8 bytes
    return t;
  }
  // Checks the offsets, and makes them relative to the start of the file.
  void place_tensors() {
    if (file_.tensors.empty()) return;
    const uint64_t start = round_up(in_.at(), file_.alignment);
    const uint64_t space = file_.size() - std::min(start, file_.size());
    std::vector<const GgufTensorInfo*> order;
    for (GgufTensorInfo& t : file_.tensors) {
      if (t.offset % file_.alignment != 0) {
        source_.reject("an offset that is a multiple of " + std::to_string(file_.alignment) + " for " +
                           in_quotes(t.name),
                       std::to_string(t.offset));
      }
      if (start > file_.size() || t.offset > space || t.bytes > space - t.offset) {
        source_.reject(count_of(t.bytes, "bytes of ") + in_quotes(t.name) + " from byte " +
                           std::to_string(t.offset) + " of the values",
                       count_of(space, "bytes of values"));
      }
      t.offset += start;
      if (t.bytes > 0) order.push_back(&t);
    }
    std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->offset < b->offset; });
    for (size_t i = 1; i < order.size(); ++i) {
      if (order[i]->offset - order[i - 1]->offset >= order[i - 1]->bytes) continue;
      source_.reject("tensors that do not overlap",
                     in_quotes(order[i - 1]->name) + " and " + in_quotes(order[i]->name));
    }
  }

  GgufFile& file_;
  const Source& source_;
  GgufCursor in_;
};

}  // namespace io

// The file with these bytes, which must outlive the result. Throws TT-IO-03 if they violate the format,
// TT-IO-04 for versions, byte orders and types that are not supported, and TT-IO-06 for more than 256 MiB of
// metadata, 65536 entries or 2^20 tensors.
inline GgufFile parse_gguf(Bytes bytes, const std::string& name = "GGUF data", TT_LOC) {
  GgufFile file;
  file.name = name, file.memory_ = bytes, file.size_ = bytes.size();
  const io::Source source{name, "GGUF", loc};
  io::GgufReader(file, source).run();
  return file;
}

// Opens the file at `path` and reads its metadata and its table of tensors. Throws as parse_gguf does, and
// TT-IO-01 if the file cannot be read.
inline GgufFile open_gguf(const std::string& path, TT_LOC) {
  GgufFile file;
  file.name = path;
  file.descriptor_ = std::make_shared<io::Descriptor>(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (file.descriptor_->get() < 0 || ::fstat(file.descriptor_->get(), &info) != 0)
    io::fail_system("TT-IO-01", "read", path, loc);
  if (S_ISDIR(info.st_mode)) {
    errno = EISDIR;
    io::fail_system("TT-IO-01", "read", path, loc);
  }
  file.size_ = static_cast<uint64_t>(info.st_size);
  const io::Source source{path, "GGUF", loc};
  io::GgufReader(file, source).run();
  return file;
}

}  // namespace tinytorch::inline TT_BUILD
