// gzip: any bytes are accepted or refused, and the output does not exceed its limit.
#include <tinytorch/io/gzip.hpp>

#include <fuzz/fuzz.hpp>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return fuzz::run(data, size, [](tt::Bytes bytes) {
    constexpr uint64_t kLimit = 1 << 16;
    fuzz::require(tt::gunzip(bytes, "input", kLimit).size() <= kLimit);
  });
}
