// GGUF: any bytes are accepted or refused, an accepted file can be written and read again with the same
// result, and the configs of models accept or refuse any metadata.
#include <tinytorch/io/gguf_write.hpp>

#include <fuzz/fuzz.hpp>
#include <tinytorch/transformer/gguf_config.hpp>

namespace {

tt::GgufContent content_of(const tt::GgufFile& file) {
  tt::GgufContent out{.metadata = file.metadata, .tensors = {}, .version = file.version};
  for (const tt::GgufTensorInfo& t : file.tensors)
    out.tensors.push_back(tt::gguf_tensor(t.name, *t.type, t.shape, file.bytes(t)));
  return out;
}
void compare(const tt::GgufFile& a, const tt::GgufFile& b) {
  fuzz::require(a.metadata == b.metadata && a.alignment == b.alignment && a.version == b.version);
  fuzz::require(a.tensors.size() == b.tensors.size());
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    const tt::GgufTensorInfo &x = a.tensors[i], &y = b.tensors[i];
    fuzz::require(x.name == y.name && *x.type == *y.type && x.shape == y.shape && a.bytes(x) == b.bytes(y));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const auto read : {+[](const tt::GgufFile& f) { tt::gguf::read_gpt2(f, tt::Loc::current()); },
                          +[](const tt::GgufFile& f) { tt::gguf::read_llama(f, tt::Loc::current()); }})
    fuzz::run(data, size, [&](tt::Bytes bytes) { read(tt::parse_gguf(bytes, "input")); });
  return fuzz::run(data, size, [](tt::Bytes bytes) {
    const tt::GgufFile file = tt::parse_gguf(bytes, "input");
    for (const tt::GgufTensorInfo& t : file.tensors)
      if (tt::plain_dtype(*t.type)) fuzz::touch(file.tensor(t));
    for (const auto& [key, value] : file.metadata) fuzz::require(!value.describe().empty());
    const std::vector<std::byte> written = tt::to_gguf(content_of(file));
    const tt::GgufFile again = tt::parse_gguf(written, "written");
    compare(file, again);
    fuzz::require(tt::to_gguf(content_of(again)) == written);
  });
}
