// Byte order, quoting of names, checked sizes, and conversion between tensors and bytes.
#include <tinytorch/io/bytes.hpp>

#include <io/files.hpp>

namespace tt = tinytorch;
namespace io = tinytorch::io;
using files::refusal_of;

namespace {

const io::Source kSource{"some.file", "test", tt::Loc::current()};

std::vector<std::byte> bytes(std::initializer_list<int> values) {
  std::vector<std::byte> out;
  for (const int v : values) out.push_back(static_cast<std::byte>(v));
  return out;
}

}  // namespace

TEST_CASE("integers are read and written in the requested byte order") {
  const auto raw = bytes({0x01, 0x02, 0x03, 0x04, 0x05});
  CHECK(io::load<uint32_t>(raw, 0, std::endian::big) == 0x01020304u);
  CHECK(io::load<uint32_t>(raw, 0, std::endian::little) == 0x04030201u);
  CHECK(io::load<uint16_t>(raw, 3, std::endian::big) == 0x0405u);
  std::vector<std::byte> out;
  io::append(out, uint32_t{0x01020304}, std::endian::big);
  io::append(out, uint16_t{0x0605}, std::endian::little);
  CHECK(out == bytes({1, 2, 3, 4, 5, 6}));
}

TEST_CASE("text from a file is quoted safely") {
  CHECK(io::in_quotes("F32") == "'F32'");
  CHECK(io::in_quotes(std::string_view("a\0\x1b[31m'\\\xff", 9)) == "'a\\x00\\x1b[31m\\x27\\x5c'");
  CHECK(io::in_quotes(std::string(61, 'x')) == "'" + std::string(60, 'x') + "'...");
}

TEST_CASE("an error names the file, the format, what was expected and found, and the caller's line") {
  const auto refusal = refusal_of([] { kSource.reject("4 bytes", "3 bytes", "TT-IO-03", "save it again"); });
  CHECK(refusal.code == "TT-IO-03");
  CHECK(
      refusal.text.starts_with("TT-IO-03: cannot read 'some.file' as test\n  expected: 4 bytes\n"
                               "  found:    3 bytes\n  hint: save it again\n  at "));
  CHECK(files::contains(refusal.text, "bytes.cpp:"));
}

TEST_CASE("sizes: rank, overflow, and overflow next to a size of 0") {
  CHECK(io::checked_bytes({2, 3, 5}, 4, kSource) == 120);
  CHECK(io::checked_bytes({}, 8, kSource) == 8);
  CHECK(io::checked_bytes({3, 0, 2}, 8, kSource) == 0);
  const int64_t big = int64_t{1} << 40;
  CHECK(refusal_of([&] { io::checked_bytes({big, big}, 1, kSource); }).code == "TT-IO-03");
  CHECK(refusal_of([&] { io::checked_bytes({big, 0, big}, 1, kSource); }).code == "TT-IO-03");
  CHECK(refusal_of([&] { io::checked_bytes({int64_t{1} << 57}, 4, kSource); }).code == "TT-IO-03");
  tt::Shape shape;
  for (int i = 0; i < 8; ++i) io::append_size(shape, static_cast<uint64_t>(i), kSource);
  CHECK(shape == tt::Shape{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(refusal_of([&] { io::append_size(shape, 1, kSource); }).code == "TT-IO-04");
  tt::Shape one;
  CHECK(refusal_of([&] { io::append_size(one, UINT64_MAX, kSource); }).code == "TT-IO-03");
}

TEST_CASE("the bytes of a tensor are row-major for any strides") {
  for (const tt::DType dtype : files::all_dtypes()) {
    CAPTURE(tt::name_of(dtype));
    const tt::Tensor t = files::ramp({2, 3, 5}, dtype);
    const auto raw = io::bytes_of_tensor(t, tt::Loc::current());
    REQUIRE(raw.size() == 30 * tt::size_of(dtype));
    CHECK(files::same(io::tensor_from_bytes({2, 3, 5}, dtype, raw, std::endian::little, kSource), t));
    // Transposed with a step: element [i, j] of the view is element [0, 2 j, i] of t.
    const tt::Tensor view = tt::alias(t, {5, 2}, {1, 10}, 0);
    const auto picked = io::bytes_of_tensor(view, tt::Loc::current());
    const tt::Tensor copy = io::tensor_from_bytes({5, 2}, dtype, picked, std::endian::little, kSource);
    const std::vector<double> values = copy.to_vector<double>();
    for (int64_t i = 0; i < 5; ++i) {
      for (int64_t j = 0; j < 2; ++j)
        CHECK(values[static_cast<size_t>(i * 2 + j)] == files::ramp_value(10 * j + i, dtype));
    }
  }
}

TEST_CASE("big-endian values, and bytes that are not a bool") {
  const tt::Tensor t = io::tensor_from_bytes({2}, tt::i32, bytes({0, 0, 1, 2, 0xff, 0xff, 0xff, 0xfe}),
                                             std::endian::big, kSource);
  CHECK(t.to_vector<int>() == std::vector<int>{258, -2});
  const auto refusal = refusal_of([] {
    io::tensor_from_bytes({2}, tt::boolean, bytes({1, 2}), std::endian::little, kSource);
  });
  CHECK(refusal.code == "TT-IO-03");
  CHECK(files::contains(refusal.text, "found:    2"));
}
