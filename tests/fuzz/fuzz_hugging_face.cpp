// config.json and the index of shards of Hugging Face models: any bytes are accepted or refused, and an
// accepted config can be written and read again with the same result.
#include <tinytorch/transformer/hugging_face.hpp>

#include <fuzz/fuzz.hpp>

namespace {

std::string to_text(tt::Bytes bytes) {
  const auto config = tt::parse_hugging_face_config(bytes, "input");
  if (const auto* gpt2 = std::get_if<tt::Gpt2Config>(&config))
    return tt::hugging_face::write_gpt2(*gpt2, tt::f32);
  return tt::hugging_face::write_llama(std::get<tt::LlamaConfig>(config), tt::f32);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::run(data, size, [](tt::Bytes bytes) {
    for (const auto& [file, tensors] : tt::hugging_face::parse_shard_index(bytes, "input"))
      fuzz::require(!tensors.empty() && !file.empty() && file.find('/') == std::string::npos);
  });
  return fuzz::run(data, size, [](tt::Bytes bytes) {
    const std::string written = to_text(bytes);
    fuzz::require(to_text(tt::as_bytes(written)) == written);
  });
}
