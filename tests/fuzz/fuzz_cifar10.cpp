// CIFAR-10: any bytes are accepted or refused, and an accepted file holds only labels from 0 to 9.
#include <tinytorch/io/cifar10.hpp>

#include <fuzz/fuzz.hpp>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return fuzz::run(data, size, [](tt::Bytes bytes) {
    const tt::Cifar10 set = tt::parse_cifar10(bytes, "input");
    fuzz::touch(set.images);
    const std::vector<int64_t> labels = set.labels.to_vector<int64_t>();
    for (const int64_t label : labels) fuzz::require(label >= 0 && label <= 9);
    fuzz::require(labels.size() * 3073 == bytes.size());
  });
}
