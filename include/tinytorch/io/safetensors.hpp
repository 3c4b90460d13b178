// safetensors: named tensors in one file, without executable code.
//
//   8 bytes   length n of the header, little-endian, at most 100 MB
//   n bytes   JSON {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}, and
//             optionally "__metadata__": {"key": "text"}; padded with spaces to a multiple of 8
//   the rest  values, row-major, little-endian; the offsets cover it without gaps or overlaps
//
// Written files list tensors by element type, wide types first (so that each tensor is aligned), then by
// name, so the same tensors always give the same bytes. Types that files have and tensors do not, I16 U16 U32
// U64 F8_E4M3 F8_E5M2, are read into the next dtype (stored_type.hpp).
//
// Source: the format's description, huggingface/safetensors.
#pragma once

#include <map>
#include <tinytorch/io/stored_type.hpp>

namespace tinytorch::inline TT_BUILD {

using TensorMap = std::map<std::string, Tensor>;
using Metadata = std::map<std::string, std::string>;
namespace io {
class MappedFile;
}

// All tensors of a file held in memory. `metadata`, if given, gets the entries of __metadata__. Throws
// TT-IO-03 if the bytes violate the format, with the kind of file if that is recognized, such as a pickle or
// a git-lfs pointer (file_kind.hpp), and TT-IO-04 for a type that no dtype holds.
TT_API TensorMap parse_safetensors(Bytes bytes, const std::string& name = "safetensors data",
                                   Metadata* metadata = nullptr, TT_LOC);

// All tensors of the file, on the CPU, by name. Throws as parse_safetensors does, and TT-IO-01 if the file
// cannot be read.
TT_API TensorMap load_safetensors(const std::string& path, Metadata* metadata = nullptr, TT_LOC);

// Parses a mapped file (io/mapped_file.hpp) like parse_safetensors. The tensors are views of the mapping and
// keep it alive, so that nothing is read before it is used. Writing to a tensor never changes the file.
// Tensors of a type that becomes another dtype are copies.
TT_API TensorMap map_safetensors(const std::shared_ptr<const io::MappedFile>& file, const std::string& name,
                                 Metadata* metadata = nullptr, TT_LOC);

// The content of the file that save_safetensors writes.
TT_API std::vector<std::byte> to_safetensors(const TensorMap& tensors, const Metadata& metadata = {}, TT_LOC);

// Writes tensors (any device, any strides) and metadata. An existing file is replaced only when the new one
// is complete.
TT_API void save_safetensors(const std::string& path, const TensorMap& tensors, const Metadata& metadata = {},
                             TT_LOC);

// This overload stores the tensors named in `types` as these types. Throws TT-IO-02 if one does not hold its
// values.
//
//   save_safetensors("tokens.safetensors", {{"tokens", tokens}}, {}, {{"tokens", StoredType::u16}});
TT_API std::vector<std::byte> to_safetensors(const TensorMap& tensors, const Metadata& metadata,
                                             const StoredTypes& types, TT_LOC);
TT_API void save_safetensors(const std::string& path, const TensorMap& tensors, const Metadata& metadata,
                             const StoredTypes& types, TT_LOC);

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(LAYERS)

#include <tinytorch/io/file.hpp>
#include <tinytorch/io/file_kind.hpp>
#include <tinytorch/io/json.hpp>
#include <tinytorch/io/mapped_file.hpp>

namespace tinytorch::inline TT_BUILD {

namespace io {

inline constexpr uint64_t kSafetensorsHeaderLimit = 100'000'000;

struct SafetensorsType {
  const char* name;
  FileType type;
};
// Types in the order in which their tensors are written.
inline constexpr SafetensorsType kSafetensorsTypes[] = {{"U64", StoredType::u64},
                                                        {"I64", DType::i64},
                                                        {"F64", DType::f64},
                                                        {"F32", DType::f32},
                                                        {"U32", StoredType::u32},
                                                        {"I32", DType::i32},
                                                        {"BF16", DType::bf16},
                                                        {"F16", DType::f16},
                                                        {"U16", StoredType::u16},
                                                        {"I16", StoredType::i16},
                                                        {"F8_E4M3", StoredType::f8_e4m3},
                                                        {"F8_E5M2", StoredType::f8_e5m2},
                                                        {"I8", DType::i8},
                                                        {"U8", DType::u8},
                                                        {"BOOL", DType::boolean}};

struct SafetensorsEntry {
  std::string name;
  FileType type;
  Shape shape;
  uint64_t begin, end;
};

class SafetensorsReader {
 public:
  // With a mapping, tensors lie in it.
  SafetensorsReader(Bytes bytes, const Source& source, std::shared_ptr<const MappedFile> mapping = nullptr)
      : bytes_(bytes), source_(source), mapping_(std::move(mapping)) {}

  TensorMap run(Metadata* metadata) {
    const Bytes header = split_header();
    source_.expect(header[0] == std::byte{'{'}, "a header that begins with '{'", "another character");
    const Json tree = parse_json(header, source_);
    std::vector<SafetensorsEntry> entries;
    for (const auto& [name, value] : *tree.object()) {
      if (name == "__metadata__") {
        read_metadata(value, metadata);
      } else {
        entries.push_back(read_entry(name, value));
      }
    }
    check_cover(entries);
    TensorMap out;
    for (const SafetensorsEntry& e : entries) {
      const Bytes values = data_.subspan(static_cast<size_t>(e.begin), static_cast<size_t>(e.end - e.begin));
      out.emplace(e.name, mapping_ && fits_in_place(e, values)
                              ? tensor_in(values, e)
                              : tensor_of_type(e.shape, e.type, values, std::endian::little, source_));
    }
    return out;
  }

 private:
  // A bool may have an invalid byte, a stored type is no dtype, and a file may place values at addresses that
  // their type forbids.
  static bool fits_in_place(const SafetensorsEntry& e, Bytes values) {
    return std::endian::native == std::endian::little && !e.type.stored && e.type.dtype != DType::boolean &&
           !values.empty() && reinterpret_cast<uintptr_t>(values.data()) % e.type.bytes() == 0;
  }
  Tensor tensor_in(Bytes values, const SafetensorsEntry& e) const {
    auto impl = std::make_shared<TensorImpl>();
    auto* const begin = const_cast<std::byte*>(values.data());  // the mapping is writable, see MappedFile
    impl->storage = std::make_shared<Storage>(begin, values.size(), mapping_);
    impl->shape = e.shape;
    impl->strides = contiguous_strides(e.shape);
    impl->dtype = e.type.dtype;
    return Tensor(std::move(impl));
  }

  Bytes split_header() {
    const bool has_length = bytes_.size() >= 8;
    const uint64_t length = has_length ? io::load<uint64_t>(bytes_, 0, std::endian::little) : 0;
    if (length > kSafetensorsHeaderLimit || length > bytes_.size()) refuse_other_kind(bytes_, source_);
    if (!has_length) {
      source_.reject("8 bytes with the length of the header", count_of(bytes_.size(), "bytes"));
    }
    if (length > kSafetensorsHeaderLimit) {
      source_.reject("a header of at most 100000000 bytes", count_of(length, "bytes"), "TT-IO-06");
    }
    if (length < 2 || length > bytes_.size() - 8) {
      source_.reject(
          "a header of 2 bytes up to the end of the file",
          "length " + std::to_string(length) + " in a file of " + count_of(bytes_.size(), "bytes"));
    }
    data_ = bytes_.subspan(8 + static_cast<size_t>(length));
    return bytes_.subspan(8, static_cast<size_t>(length));
  }

  void read_metadata(const Json& value, Metadata* metadata) const {
    if (!value.object()) source_.reject("__metadata__ as an object", value.kind());
    for (const auto& [key, text] : *value.object()) {
      if (!text.string()) source_.reject("texts in __metadata__", in_quotes(key) + " is " + text.kind());
      if (metadata) metadata->emplace(key, *text.string());
    }
  }

  const Json& member(const std::string& name, const Json& value, const char* key) const {
    const Json* found = value.find(key);
    if (!found)
      source_.reject(std::string("'") + key + "' in the entry of every tensor",
                     in_quotes(name) + " without it");
    return *found;
  }
  uint64_t size_in(const std::string& name, const Json& value) const {
    const std::optional<int64_t> n = value.integer();
    if (!n || *n < 0) {
      source_.reject(
          "sizes and offsets that are integers from 0",
          n ? std::to_string(*n) : value.kind() + std::string(" in the entry of ") + in_quotes(name));
    }
    return static_cast<uint64_t>(*n);
  }

  SafetensorsEntry read_entry(const std::string& name, const Json& value) const {
    if (!value.object() || value.object()->size() != 3) {
      source_.reject("dtype, shape and data_offsets for every tensor",
                     in_quotes(name) + " with " +
                         (value.object() ? count_of(value.object()->size(), "members") : value.kind()));
    }
    SafetensorsEntry e{name, read_type(name, member(name, value, "dtype")), {}, 0, 0};
    const Json& shape = member(name, value, "shape");
    const Json& offsets = member(name, value, "data_offsets");
    if (!shape.array()) source_.reject("an array as the shape of " + in_quotes(name), shape.kind());
    for (const Json& n : *shape.array()) append_size(e.shape, size_in(name, n), source_);
    if (!offsets.array() || offsets.array()->size() != 2) {
      source_.reject("two numbers as data_offsets of " + in_quotes(name), offsets.kind());
    }
    e.begin = size_in(name, (*offsets.array())[0]);
    e.end = size_in(name, (*offsets.array())[1]);
    const uint64_t needed = checked_bytes(e.shape, e.type.bytes(), source_);
    if (e.end < e.begin || e.end - e.begin != needed) {
      source_.reject(
          count_of(needed, "bytes") + " for " + in_quotes(name) + ", " + e.type.name() + " " + e.shape.str(),
          "data_offsets [" + std::to_string(e.begin) + ", " + std::to_string(e.end) + "]");
    }
    return e;
  }
  FileType read_type(const std::string& name, const Json& value) const {
    if (!value.string()) source_.reject("the dtype of " + in_quotes(name) + " as a string", value.kind());
    for (const auto& known : kSafetensorsTypes) {
      if (*value.string() == known.name) return known.type;
    }
    source_.reject("one of the dtypes U64 I64 F64 F32 U32 I32 BF16 F16 U16 I16 F8_E4M3 F8_E5M2 I8 U8 BOOL",
                   "dtype " + in_quotes(*value.string()) + " of tensor " + in_quotes(name), "TT-IO-04",
                   "convert the tensor before saving it");
  }

  // Sorts the entries by position, and checks that each tensor begins where the previous one ends.
  void check_cover(std::vector<SafetensorsEntry>& entries) const {
    std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
    });
    uint64_t at = 0;
    for (const SafetensorsEntry& e : entries) {
      if (e.begin != at) {
        source_.reject("values of " + in_quotes(e.name) + " from byte " + std::to_string(at),
                       "from byte " + std::to_string(e.begin) + (e.begin < at ? ", an overlap" : ", a gap"));
      }
      at = e.end;
    }
    if (at != data_.size()) {
      source_.reject(count_of(at, "bytes of values after the header"), count_of(data_.size(), "bytes"));
    }
  }

  Bytes bytes_;
  Bytes data_;
  const Source& source_;
  std::shared_ptr<const MappedFile> mapping_;
};

TT_API size_t write_rank(FileType type) {
  size_t i = 0;
  while (kSafetensorsTypes[i].type != type) ++i;
  return i;
}

// A tensor to be written.
struct SafetensorsItem {
  const std::string& name;
  const Tensor& tensor;
  FileType type;
  size_t bytes() const { return static_cast<size_t>(tensor.numel()) * type.bytes(); }
};

// The tensors in the order of writing.
TT_API std::vector<SafetensorsItem> items_in_order(const TensorMap& tensors, const StoredTypes& types) {
  std::vector<std::pair<size_t, const TensorMap::value_type*>> order;
  const auto type_of = [&](const TensorMap::value_type& item) {
    const auto chosen = types.find(item.first);
    return chosen == types.end() ? FileType(item.second.dtype()) : FileType(chosen->second);
  };
  for (const auto& item : tensors) order.emplace_back(write_rank(type_of(item)), &item);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<SafetensorsItem> out;
  for (const auto& item : order)
    out.push_back({item.second->first, item.second->second, kSafetensorsTypes[item.first].type});
  return out;
}

TT_API std::string safetensors_header(const std::vector<SafetensorsItem>& items, const Metadata& metadata) {
  std::string members;
  if (!metadata.empty()) {
    for (const auto& [key, text] : metadata)
      members += (members.empty() ? "" : ",") + to_json_string(key) + ":" + to_json_string(text);
    members = "\"__metadata__\":{" + members + "}";
  }
  size_t at = 0;
  for (const SafetensorsItem& item : items) {
    std::string shape;
    for (const int64_t n : item.tensor.shape()) shape += (shape.empty() ? "" : ",") + std::to_string(n);
    members += (members.empty() ? "" : ",") + to_json_string(item.name) + ":{\"dtype\":\"" +
               kSafetensorsTypes[write_rank(item.type)].name + "\",\"shape\":[" + shape +
               "],\"data_offsets\":[" + std::to_string(at) + "," + std::to_string(at + item.bytes()) + "]}";
    at += item.bytes();
  }
  std::string header = "{" + members + "}";
  header.resize(round_up(header.size(), size_t{8}), ' ');
  return header;
}

TT_API void check_saved_names(const TensorMap& tensors, const Metadata& metadata, Loc loc) {
  const auto check = [&](const std::string& text, const char* what, bool reserved = false) {
    if (find_invalid_utf8(text) != text.size() || reserved) {
      fail("TT-IO-02",
           std::string("save_safetensors: ") + what + " " + in_quotes(text) +
               (reserved ? " is reserved by the format" : " is not UTF-8") + "\n  hint: choose another",
           loc);
    }
  };
  for (const auto& item : tensors) check(item.first, "the tensor name", item.first == "__metadata__");
  for (const auto& [key, text] : metadata) {
    check(key, "the metadata key");
    check(text, "the metadata text");
  }
}

TT_API void check_stored_names(const TensorMap& tensors, const StoredTypes& types, Loc loc) {
  for (const auto& item : types) {
    if (tensors.contains(item.first)) continue;
    fail("TT-IO-02",
         "save_safetensors: there is no tensor " + in_quotes(item.first) + " to be stored as " +
             name_of(item.second) + "\n  hint: the types go by the names of the tensors",
         loc);
  }
}

// Passes the parts of the file to write(Bytes), in order.
template <class Write>
void write_safetensors(const TensorMap& tensors, const Metadata& metadata, const StoredTypes& types, Loc loc,
                       Write&& write) {
  check_saved_names(tensors, metadata, loc);
  check_stored_names(tensors, types, loc);
  const std::vector<SafetensorsItem> items = items_in_order(tensors, types);
  const std::string header = safetensors_header(items, metadata);
  std::vector<std::byte> length;
  append(length, uint64_t{header.size()}, std::endian::little);
  write(Bytes(length));
  write(as_bytes(header));
  for (const SafetensorsItem& item : items) write(Bytes(bytes_of_type(item.tensor, item.type, loc)));
}

}  // namespace io

TT_API TensorMap parse_safetensors(Bytes bytes, const std::string& name, Metadata* metadata, Loc loc) {
  const io::Source source{name, "safetensors", loc};
  return io::SafetensorsReader(bytes, source).run(metadata);
}

TT_API TensorMap load_safetensors(const std::string& path, Metadata* metadata, Loc loc) {
  return parse_safetensors(read_file(path, uint64_t{1} << 40, loc), path, metadata, loc);
}

TT_API TensorMap map_safetensors(const std::shared_ptr<const io::MappedFile>& file, const std::string& name,
                                 Metadata* metadata, Loc loc) {
  const io::Source source{name, "safetensors", loc};
  return io::SafetensorsReader(file->bytes(), source, file).run(metadata);
}

TT_API std::vector<std::byte> to_safetensors(const TensorMap& tensors, const Metadata& metadata, Loc loc) {
  return to_safetensors(tensors, metadata, StoredTypes{}, loc);
}

TT_API std::vector<std::byte> to_safetensors(const TensorMap& tensors, const Metadata& metadata,
                                             const StoredTypes& types, Loc loc) {
  std::vector<std::byte> out;
  io::write_safetensors(tensors, metadata, types, loc, [&](Bytes piece) { io::append(out, piece); });
  return out;
}

TT_API void save_safetensors(const std::string& path, const TensorMap& tensors, const Metadata& metadata,
                             Loc loc) {
  save_safetensors(path, tensors, metadata, StoredTypes{}, loc);
}

TT_API void save_safetensors(const std::string& path, const TensorMap& tensors, const Metadata& metadata,
                             const StoredTypes& types, Loc loc) {
  AtomicFile file(path, loc);
  io::write_safetensors(tensors, metadata, types, loc, [&](Bytes piece) { file.write(piece); });
  file.commit();
}

}  // namespace tinytorch::inline TT_BUILD
#endif
