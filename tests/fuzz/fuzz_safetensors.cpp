// safetensors: any bytes are accepted or refused, and an accepted file can be written and read again with the
// same result.
#include <tinytorch/io/safetensors.hpp>

#include <fuzz/fuzz.hpp>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return fuzz::run(data, size, [](tt::Bytes bytes) {
    tt::Metadata metadata;
    const tt::TensorMap tensors = tt::parse_safetensors(bytes, "input", &metadata);
    for (const auto& item : tensors) fuzz::touch(item.second);
    const std::vector<std::byte> written = tt::to_safetensors(tensors, metadata);
    tt::Metadata metadata_again;
    const tt::TensorMap again = tt::parse_safetensors(written, "written", &metadata_again);
    fuzz::require(metadata == metadata_again && tensors.size() == again.size());
    for (const auto& [name, tensor] : tensors) fuzz::require(fuzz::same(tensor, again.at(name)));
  });
}
