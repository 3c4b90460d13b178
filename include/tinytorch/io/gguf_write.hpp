// Writes GGUF files (gguf.hpp has the format): metadata, and tensors in any type of ggml.
//
//   tt::GgufContent content;
//   content.metadata.set("general.architecture", "example");
//   content.tensors.push_back(tt::gguf_tensor("weight", w));                                 // a Tensor
//   content.tensors.push_back(tt::gguf_tensor("packed", *tt::find_ggml_type("Q4_0"), {64, 32}, blocks));
//   tt::write_gguf("example.gguf", content);
//
// Tensors follow each other in the order of the list, each at a multiple of the alignment, as llama.cpp
// requires. The same content always gives the same bytes.
#pragma once

#include <functional>
#include <tinytorch/io/gguf.hpp>
#include <tinytorch/io/json.hpp>

namespace tinytorch::inline TT_BUILD {

// A tensor to be written. `bytes` is called once, when its turn has come, so that a large model is never in
// memory a second time.
struct GgufTensorData {
  std::string name;
  const GgmlType* type = nullptr;
  Shape shape;  // row-major
  std::function<std::vector<std::byte>()> bytes;
};

// Values of a tensor (any device, any strides) in the plain type of its dtype. Throws TT-IO-02 for u8 and
// bool, which ggml does not have.
inline GgufTensorData gguf_tensor(const std::string& name, const Tensor& t, TT_LOC) {
  const GgmlType* type = ggml_type_of(t.dtype());
  if (!type) {
    fail("TT-IO-02",
         "write_gguf: ggml has no type for the " + std::string(name_of(t.dtype())) + " tensor " +
             io::in_quotes(name) + "\n  hint: convert it to i8 or i32",
         loc);
  }
  return {name, type, t.shape(), [t, loc] { return io::bytes_of_tensor(t, loc); }};
}
// Blocks that are already in the form of the file.
inline GgufTensorData gguf_tensor(const std::string& name, const GgmlType& type, const Shape& shape,
                                  std::vector<std::byte> blocks) {
  return {name, find_ggml_type(type.id), shape, [blocks = std::move(blocks)] { return blocks; }};
}

struct GgufContent {
  GgufMetadata metadata;  // general.alignment sets the alignment of the file
  std::vector<GgufTensorData> tensors;
  uint32_t version = 3;  // or 2, whose files differ in this number only
};

namespace io {

class GgufWriter {
 public:
  GgufWriter(const GgufContent& content, Loc loc) : content_(content), loc_(loc) {
    require(content.version == 2 || content.version == 3, "the version is not 2 or 3");
    if (const GgufValue* given = content.metadata.find("general.alignment")) {
      const auto n = static_cast<uint64_t>(given->integer().value_or(0));
      require(given->type() == GgufValueType::u32 && is_alignment(n),
              "general.alignment is " + given->describe() +
                  "; it should be a u32 that is a power of two up to 2^20");
      alignment_ = n;
    }
  }

  // Passes the parts of the file to write(Bytes), in order.
  template <class Write>
  void run(Write&& write) {
    const std::vector<std::byte> header = make_header();
    write(Bytes(header));
    for (size_t i = 0; i < content_.tensors.size(); ++i) {
      const GgufTensorData& t = content_.tensors[i];
      std::vector<std::byte> bytes = t.bytes();
      require(bytes.size() == sizes_[i], count_of(bytes.size(), "bytes for ") + in_quotes(t.name) + ", " +
                                             t.type->name + " " + t.shape.str() + ", which takes " +
                                             std::to_string(sizes_[i]));
      bytes.resize(static_cast<size_t>(round_up(bytes.size(), alignment_)));
      write(Bytes(bytes));
    }
  }

 private:
  void require(bool holds, const std::string& what) const {
    if (!holds) fail("TT-IO-02", "write_gguf: " + what, loc_);
  }
  // Checks a key or name, and that it has not been used before.
  void require_name(std::unordered_set<std::string>& seen, const std::string& name, uint64_t limit,
                    const char* what) const {
    require(!name.empty() && name.size() <= limit && find_invalid_utf8(name) == name.size(),
            std::string(what) + " " + in_quotes(name) + " should be UTF-8 of 1 to " + std::to_string(limit) +
                " bytes");
    require(seen.insert(name).second, std::string(what) + " " + in_quotes(name) + " occurs twice");
  }
  template <class T>
  void put(T value) {
    append(out_, value, std::endian::little);
  }
  void put(const std::string& text) {
    put(uint64_t{text.size()});
    append(out_, as_bytes(text));
  }
  void put(const GgufValue& value) {
    const std::vector<std::string>* texts = value.texts();
    put(static_cast<uint32_t>(value.is_array() ? GgufValueType::array : value.type()));
    if (value.is_array()) put(static_cast<uint32_t>(value.type())), put(uint64_t{value.count()});
    if (const std::string* text = value.text()) put(*text);
    for (size_t i = 0; texts && i < texts->size(); ++i) put((*texts)[i]);
    append(out_, value.raw());
  }
  void put_entry_of(const GgufTensorData& t, uint64_t offset) {
    put(t.name);
    put(static_cast<uint32_t>(t.shape.size()));
    for (int i = t.shape.size(); i > 0; --i) put(static_cast<uint64_t>(t.shape[i - 1]));
    put(t.type->id);
    put(offset);
  }
  uint64_t size_of_tensor(const GgufTensorData& t) const {
    require(t.type && t.bytes, "tensor " + in_quotes(t.name) + " has no type or no values");
    require(t.shape.size() <= static_cast<int>(kGgufRankLimit),
            "tensor " + in_quotes(t.name) + " has shape " + t.shape.str() + "; at most 4 dimensions fit");
    require((t.shape.empty() ? 1 : t.shape.back()) % t.type->block == 0,
            "tensor " + in_quotes(t.name) + " has rows of " +
                std::to_string(t.shape.empty() ? 1 : t.shape.back()) + " elements, which are not whole " +
                t.type->name + " blocks of " + std::to_string(t.type->block));
    return checked_bytes(t.shape, 1, {t.name, "the tensor", loc_}) / t.type->block * t.type->bytes;
  }

  std::vector<std::byte> make_header() {
    append(out_, as_bytes("GGUF"));
    put(content_.version);
    put(uint64_t{content_.tensors.size()}), put(uint64_t{content_.metadata.size()});
    std::unordered_set<std::string> keys, names;
    for (const auto& [key, value] : content_.metadata) {
      require_name(keys, key, kGgufKeyLimit, "the key");
      put(key), put(value);
    }
    uint64_t offset = 0;
    for (const GgufTensorData& t : content_.tensors) {
      require_name(names, t.name, kGgufNameLimit - 1, "the tensor name");  // ggml adds a final zero
      sizes_.push_back(size_of_tensor(t));
      put_entry_of(t, offset);
      offset += round_up(sizes_.back(), alignment_);
    }
    out_.resize(static_cast<size_t>(round_up(out_.size(), alignment_)));
    return std::move(out_);
  }

  const GgufContent& content_;
  Loc loc_;
  uint64_t alignment_ = kGgufAlignment;
  std::vector<uint64_t> sizes_;
  std::vector<std::byte> out_;
};

}  // namespace io

// The content of the file that write_gguf writes.
inline std::vector<std::byte> to_gguf(const GgufContent& content, TT_LOC) {
  std::vector<std::byte> out;
  io::GgufWriter(content, loc).run([&](Bytes piece) { io::append(out, piece); });
  return out;
}

// Writes the file. An existing file is replaced only when the new one is complete. Throws TT-IO-02 if it
// cannot be written, or if a name, shape, or number of bytes does not fit the format.
inline void write_gguf(const std::string& path, const GgufContent& content, TT_LOC) {
  AtomicFile file(path, loc);
  io::GgufWriter(content, loc).run([&](Bytes piece) { file.write(piece); });
  file.commit();
}

}  // namespace tinytorch::inline TT_BUILD
