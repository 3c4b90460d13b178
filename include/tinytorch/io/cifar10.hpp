// CIFAR-10, binary version: records of one label byte and 3 x 32 x 32 pixel bytes (red, green, blue planes).
//
// Source: A. Krizhevsky, "Learning multiple layers of features from tiny images", 2009, and its data page.
#pragma once

#include <tinytorch/io/file.hpp>
#include <tinytorch/io/file_kind.hpp>

namespace tinytorch::inline TT_BUILD {

struct Cifar10 {
  Tensor images;  // u8 [N, 3, 32, 32]
  Tensor labels;  // i64 [N], 0 to 9
};

// Parses the records of one or more files, concatenated in memory.
inline Cifar10 parse_cifar10(Bytes bytes, const std::string& name = "CIFAR-10 data", TT_LOC) {
  constexpr size_t kPixels = 3 * 32 * 32, kRecord = 1 + kPixels;
  const io::Source source{name, "CIFAR-10 binary", loc};
  if (bytes.size() % kRecord != 0) io::refuse_other_kind(bytes, source);
  if (bytes.empty() || bytes.size() % kRecord != 0)
    source.reject("records of 3073 bytes, at least one", io::count_of(bytes.size(), "bytes"));
  const size_t count = bytes.size() / kRecord;
  for (size_t i = 0; i < count; ++i) {
    const int label = std::to_integer<int>(bytes[i * kRecord]);
    if (label > 9)
      source.reject("labels 0 to 9", "label " + std::to_string(label) + " in record " + std::to_string(i));
  }
  const auto n = static_cast<int64_t>(count);
  Cifar10 out{empty({n, 3, 32, 32}, DType::u8, cpu, loc), empty({n}, DType::i64, cpu, loc)};
  auto* pixels = out.images.data<uint8_t>(loc);
  auto* labels = out.labels.data<int64_t>(loc);
  for (size_t i = 0; i < count; ++i) {
    labels[i] = std::to_integer<int64_t>(bytes[i * kRecord]);
    std::memcpy(pixels + i * kPixels, bytes.data() + i * kRecord + 1, kPixels);
  }
  return out;
}

// Loads the records of the files in order, for example data_batch_1.bin to data_batch_5.bin.
inline Cifar10 load_cifar10(const std::vector<std::string>& paths, TT_LOC) {
  std::vector<std::byte> all;
  std::string names;
  for (const std::string& path : paths) {
    io::append(all, read_file(path, uint64_t{1} << 40, loc));
    names += (names.empty() ? "" : ", ") + path;
  }
  return parse_cifar10(all, names, loc);
}
inline Cifar10 load_cifar10(const std::string& path, TT_LOC) {
  return load_cifar10(std::vector<std::string>{path}, loc);
}

}  // namespace tinytorch::inline TT_BUILD
