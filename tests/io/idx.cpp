// IDX: all element types, gzip, rejected files, and MNIST if its files are present.
#include <tinytorch/io/idx.hpp>

#include <io/files.hpp>
#include <support/data.hpp>

namespace tt = tinytorch;
using files::refusal_of;

namespace {

std::vector<std::byte> idx(std::initializer_list<int> head, size_t value_bytes = 0) {
  std::vector<std::byte> out;
  for (const int v : head) out.push_back(static_cast<std::byte>(v));
  out.resize(out.size() + value_bytes);
  return out;
}
files::Refusal refused(const std::vector<std::byte>& bytes) {
  return refusal_of([&] { tt::parse_idx(bytes, "x.idx"); });
}

}  // namespace

TEST_CASE("every element type is read") {
  const auto check = [](const char* name, tt::DType dtype) {
    CAPTURE(name);
    CHECK(files::same(tt::load_idx(files::golden(name)), files::ramp({2, 3, 5}, dtype)));
  };
  check("type08.idx", tt::u8);
  check("type09.idx", tt::i8);
  check("type0b.idx", tt::i32);  // 16-bit integers are widened; the ramp has negative values
  check("type0c.idx", tt::i32);
  check("type0d.idx", tt::f32);
  check("type0e.idx", tt::f64);
#if TINYTORCH_WITH_ZLIB
  check("type08.idx.gz", tt::u8);
#else
  CHECK(refusal_of([] { tt::load_idx(files::golden("type08.idx.gz")); }).code == "TT-IO-05");
#endif
}

TEST_CASE("empty arrays and arrays of rank 8 are read") {
  CHECK(tt::parse_idx(idx({0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0, 9})).shape() == tt::Shape{0, 9});
  std::vector<std::byte> eight = idx({0, 0, 9, 8});
  for (int d = 0; d < 8; ++d) tt::io::append(eight, uint32_t{d == 5 ? 3u : 1u}, std::endian::big);
  eight.resize(eight.size() + 3);
  CHECK(tt::parse_idx(eight).shape() == tt::Shape{1, 1, 1, 1, 1, 3, 1, 1});
}

TEST_CASE("invalid headers are rejected") {
  CHECK(refused(idx({0, 1, 8, 1, 0, 0, 0, 1}, 1)).code == "TT-IO-03");
  CHECK(refused(idx({0, 0, 8, 0}, 1)).code == "TT-IO-03");
  CHECK(refused(idx({0, 0, 8, 9}, 100)).code == "TT-IO-04");
  for (const int type : {0, 7, 0x0a, 0x0f, 0xff})
    CHECK(refused(idx({0, 0, type, 1, 0, 0, 0, 1}, 8)).code == "TT-IO-03");
  const auto size = refused(idx({0, 0, 0x0d, 1, 0, 0, 0, 3}, 11));
  CHECK(size.code == "TT-IO-03");
  CHECK(files::contains(size.text, "'x.idx'"));
  CHECK(files::contains(size.text, "expected: 12 bytes of values for shape [3]"));
  CHECK(files::contains(size.text, "found:    11 bytes"));
  CHECK(refused(idx({0, 0, 8, 1, 0, 0, 0, 3}, 4)).code == "TT-IO-03");
}

TEST_CASE("large sizes in a short file do not allocate memory") {
  tt::reset_peak();
  const size_t before = tt::allocator_stats().peak;
  CHECK(refused(idx({0, 0, 0x0e, 1, 0xff, 0xff, 0xff, 0xff}, 80)).code == "TT-IO-03");
  std::vector<std::byte> all = idx({0, 0, 0x0e, 8});
  all.resize(100, std::byte{0xff});  // 8 sizes of 2^32 - 1: the product overflows
  CHECK(refused(all).code == "TT-IO-03");
  CHECK(tt::allocator_stats().peak == before);
}

TEST_CASE("IDX: truncated and damaged files are rejected") {
  const auto parse = [](tt::Bytes b) { tt::parse_idx(b); };
  for (const char* name : {"type08.idx", "type0b.idx", "type0e.idx"}) {
    files::check_cut_files(files::golden_bytes(name), parse);
    CHECK(files::check_damaged_files(files::golden_bytes(name), parse) >= 40);
  }
#if TINYTORCH_WITH_ZLIB
  files::check_cut_files(files::golden_bytes("type08.idx.gz"), parse);
  CHECK(files::check_damaged_files(files::golden_bytes("type08.idx.gz"), parse) > 100);
#endif
}

#if TINYTORCH_WITH_ZLIB
TEST_CASE("MNIST, if its files are present" * test::needs_data("mnist/t10k-images-idx3-ubyte.gz")) {
  const std::string folder = test::data_file("mnist");
  const tt::Tensor images = tt::load_idx(folder + "/t10k-images-idx3-ubyte.gz");
  const tt::Tensor labels = tt::load_idx(folder + "/t10k-labels-idx1-ubyte.gz");
  CHECK(images.shape() == tt::Shape{10000, 28, 28});
  CHECK(labels.shape() == tt::Shape{10000});
  CHECK(images.dtype() == tt::u8);
  const std::vector<int> l = labels.to_vector<int>();
  CHECK(std::vector<int>(l.begin(), l.begin() + 10) == std::vector<int>{7, 2, 1, 0, 4, 1, 4, 9, 5, 9});
  std::vector<int> counts(10);
  for (const int label : l) ++counts[static_cast<size_t>(label)];
  CHECK(counts == std::vector<int>{980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009});
  int64_t sum = 0;
  for (const int64_t v : images.to_vector<int64_t>()) sum += v;
  CHECK(static_cast<double>(sum) / (10000.0 * 784) == doctest::Approx(33.791).epsilon(1e-4));
}
#endif
