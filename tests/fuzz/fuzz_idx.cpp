// IDX files, plain and compressed: any bytes are accepted or refused.
#include <tinytorch/io/idx.hpp>

#include <fuzz/fuzz.hpp>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return fuzz::run(data, size, [](tt::Bytes bytes) { fuzz::touch(tt::parse_idx(bytes, "input")); });
}
