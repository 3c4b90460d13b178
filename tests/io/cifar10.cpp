// CIFAR-10: records keep their order, planes and labels; invalid files are rejected.
#include <tinytorch/io/cifar10.hpp>

#include <io/files.hpp>

namespace tt = tinytorch;
using files::refusal_of;

namespace {

constexpr size_t kRecord = 3073;

int pixel(size_t record, size_t k) { return static_cast<int>((record * 101 + k * 7 + k / 1024) % 251); }

std::vector<std::byte> records(size_t first, size_t count) {
  std::vector<std::byte> out;
  for (size_t i = first; i < first + count; ++i) {
    out.push_back(static_cast<std::byte>((i * 3) % 10));
    for (size_t k = 0; k < kRecord - 1; ++k) out.push_back(static_cast<std::byte>(pixel(i, k)));
  }
  return out;
}

void check_records(const tt::Cifar10& set, size_t count) {
  REQUIRE(set.images.shape() == tt::Shape{static_cast<int64_t>(count), 3, 32, 32});
  REQUIRE(set.labels.shape() == tt::Shape{static_cast<int64_t>(count)});
  CHECK(set.labels.dtype() == tt::i64);
  const std::vector<int> pixels = set.images.to_vector<int>(), labels = set.labels.to_vector<int>();
  for (size_t i = 0; i < count; ++i) {
    CHECK(labels[i] == static_cast<int>(i * 3 % 10));
    for (size_t k = 0; k < kRecord - 1; ++k)
      if (pixels[i * (kRecord - 1) + k] != pixel(i, k)) FAIL("record " << i << ", pixel " << k);
  }
}

}  // namespace

TEST_CASE("records in memory, from a file, and from several files in order") {
  check_records(tt::parse_cifar10(records(0, 4)), 4);
  const files::TempFolder folder;
  tt::write_file(folder / "a.bin", records(0, 3));
  tt::write_file(folder / "b.bin", records(3, 2));
  check_records(tt::load_cifar10(folder / "a.bin"), 3);
  check_records(tt::load_cifar10({folder / "a.bin", folder / "b.bin"}), 5);
}

TEST_CASE("invalid sizes and labels are rejected") {
  const auto size = refusal_of([] { tt::parse_cifar10(std::vector<std::byte>(3074), "data_batch_1.bin"); });
  CHECK(size.code == "TT-IO-03");
  CHECK(files::contains(size.text, "'data_batch_1.bin'"));
  CHECK(files::contains(size.text, "found:    3074 bytes"));
  CHECK(refusal_of([] { tt::parse_cifar10({}); }).code == "TT-IO-03");
  std::vector<std::byte> bad = records(0, 3);
  bad[2 * kRecord] = std::byte{10};
  const auto label = refusal_of([&] { tt::parse_cifar10(bad); });
  CHECK(label.code == "TT-IO-03");
  CHECK(files::contains(label.text, "label 10 in record 2"));
}

TEST_CASE("truncated files and damaged labels are rejected") {
  files::check_cut_files(records(0, 1), [](tt::Bytes b) { tt::parse_cifar10(b); });
  for (int label = 0; label < 256; ++label) {
    std::vector<std::byte> one = records(0, 1);
    one[0] = static_cast<std::byte>(label);
    CHECK(refusal_of([&] { tt::parse_cifar10(one); }).code == (label < 10 ? "" : "TT-IO-03"));
  }
}
