// Helpers of the tests of GGUF: golden files, files with chosen numbers, and the content of a file.
#pragma once

#include <tinytorch/io/gguf_write.hpp>
#include <tinytorch/tinytorch.hpp>

#include <io/files.hpp>

namespace gguf_files {

namespace tt = tinytorch;

inline std::string golden(const std::string& name) { return files::golden("../gguf/" + name); }
inline std::vector<std::byte> golden_bytes(const std::string& name) { return tt::read_file(golden(name)); }
// types.json, which lists the types of ggml and the tensors of all.gguf.
inline tt::Json golden_types() {
  return tt::parse_json(golden_bytes("types.json"), {"types.json", "types", tt::Loc::current()});
}
inline std::string text_of(const tt::Json& json, const char* key) { return *json.find(key)->string(); }
inline int64_t number_of(const tt::Json& json, const char* key) { return *json.find(key)->integer(); }

// Everything that a file contains, ready to be written again.
inline tt::GgufContent content_of(const tt::GgufFile& file) {
  tt::GgufContent out{.metadata = file.metadata, .tensors = {}, .version = file.version};
  for (const tt::GgufTensorInfo& t : file.tensors)
    out.tensors.push_back(tt::gguf_tensor(t.name, *t.type, t.shape, file.bytes(t)));
  return out;
}

// A file by hand, so that each number can be wrong.
struct Hand {
  std::vector<std::byte> bytes;
  template <class T>
  Hand& put(T value) {
    tt::io::append(bytes, value, std::endian::little);
    return *this;
  }
  Hand& text(const std::string& s) {
    put(uint64_t{s.size()});
    tt::io::append(bytes, tt::as_bytes(s));
    return *this;
  }
  Hand& start(uint64_t tensors, uint64_t entries, uint32_t version = 3) {
    tt::io::append(bytes, tt::as_bytes("GGUF"));
    return put(version).put(tensors).put(entries);
  }
  Hand& tensor(const std::string& name, std::initializer_list<uint64_t> sizes, uint32_t type,
               uint64_t offset) {
    text(name).put(static_cast<uint32_t>(sizes.size()));
    for (const uint64_t n : sizes) put(n);
    return put(type).put(offset);
  }
  Hand& values(size_t n, size_t alignment = 32) {
    bytes.resize((bytes.size() + alignment - 1) / alignment * alignment + n);
    return *this;
  }
  files::Refusal refusal() const {
    return files::refusal_of([&] { tt::parse_gguf(bytes, "x.gguf"); });
  }
};

}  // namespace gguf_files
