// npz files, which libzip reads: any bytes are accepted or refused.
#include <tinytorch/io/npz.hpp>

#include <fuzz/fuzz.hpp>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return fuzz::run(data, size, [](tt::Bytes bytes) {
    for (const auto& item : tt::parse_npz(bytes, "input")) fuzz::touch(item.second);
  });
}
