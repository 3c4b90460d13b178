// npy: any bytes are accepted or refused, and an accepted array can be written and read again with the same
// result.
#include <tinytorch/io/npy.hpp>

#include <fuzz/fuzz.hpp>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return fuzz::run(data, size, [](tt::Bytes bytes) {
    const tt::Tensor t = tt::parse_npy(bytes, "input");
    fuzz::require(fuzz::same(t, tt::parse_npy(tt::to_npy(t), "written")));
  });
}
