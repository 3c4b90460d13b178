// GGUF: files of the Python package gguf, every rule of the format, damaged files.
#include <tinytorch/io/gguf.hpp>

#include <io/gguf_files.hpp>

namespace tt = tinytorch;
using namespace gguf_files;
using files::contains;
using files::refusal_of;

namespace {

Hand one(std::initializer_list<uint64_t> sizes, uint32_t type, uint64_t offset, size_t values) {
  Hand h;
  return h.start(1, 0).tensor("w", sizes, type, offset).values(values);
}
Hand two(uint64_t first, uint64_t second, size_t values) {
  Hand h;
  return h.start(2, 0).tensor("a", {8}, 0, first).tensor("b", {8}, 0, second).values(values);
}

}  // namespace

TEST_CASE("a file of the package gguf: every type of tensor; written again, the bytes are the same") {
  const tt::GgufFile file = tt::open_gguf(golden("all.gguf"));
  const tt::Json json = golden_types();
  const auto& expected = *json.find("tensors")->array();
  REQUIRE(file.tensors.size() == expected.size());
  const std::vector<std::byte> whole = golden_bytes("all.gguf");
  for (size_t i = 0; i < expected.size(); ++i) {
    const tt::GgufTensorInfo& t = file.tensors[i];
    CAPTURE(t.name);
    CHECK(t.name == text_of(expected[i], "name"));
    CHECK(t.type->name == text_of(expected[i], "type"));
    CHECK(t.bytes == static_cast<uint64_t>(number_of(expected[i], "bytes")));
    REQUIRE(t.offset == static_cast<uint64_t>(number_of(expected[i], "offset")));
    tt::Shape shape;
    for (const tt::Json& n : *expected[i].find("shape")->array()) shape.push_back(*n.integer());
    CHECK(t.shape == shape);
    CHECK(file.find(t.name) == &t);
    const auto from = whole.begin() + static_cast<std::ptrdiff_t>(t.offset);
    CHECK(file.bytes(t) == std::vector<std::byte>(from, from + static_cast<std::ptrdiff_t>(t.bytes)));
    if (const auto dtype = tt::plain_dtype(*t.type)) {
      CHECK(files::same(file.tensor(t), files::ramp({2, 3, 5}, *dtype)));
    } else {
      const auto refusal = refusal_of([&] { file.tensor(t); });
      CHECK(refusal.code == "TT-IO-04");
      CHECK(contains(refusal.text, "all.gguf: " + t.name + "'"));
      CHECK(contains(refusal.text, std::string("found:    ") + t.type->name));
    }
  }
  CHECK(file.find("no such tensor") == nullptr);
  CHECK(file.find("blocks.Q4_K")->describe() == "blocks.Q4_K Q4_K [2, 256], 288 bytes");
  CHECK(tt::to_gguf(content_of(file)) == whole);
}

TEST_CASE("another alignment, a scalar and an empty tensor") {
  const std::vector<std::byte> whole = golden_bytes("aligned.gguf");
  const tt::GgufFile file = tt::parse_gguf(whole);
  CHECK(file.alignment == 128);
  REQUIRE(file.tensors.size() == 3);
  CHECK(file.tensor(*file.find("scalar")).item() == 2.5f);
  CHECK(file.find("scalar")->shape == tt::Shape{});
  CHECK(file.tensor(*file.find("empty")).shape() == tt::Shape{3, 0, 2});
  CHECK(files::same(file.tensor(*file.find("vector")), files::ramp({7}, tt::i32)));
  CHECK(tt::to_gguf(content_of(file)) == whole);
}

TEST_CASE("parts of a tensor are read on demand; a file that has become shorter is an error") {
  const files::TempFolder folder;
  const std::string path = folder / "f.gguf";
  tt::write_gguf(path, {.metadata = {}, .tensors = {tt::gguf_tensor("w", files::ramp({100}, tt::f32))}});
  const tt::GgufFile file = tt::open_gguf(path);
  const tt::GgufTensorInfo& w = *file.find("w");
  std::vector<std::byte> part(40);
  file.read(w, 120, part);
  const std::vector<std::byte> whole = files::bits_of(files::ramp({100}, tt::f32));
  CHECK(part == std::vector<std::byte>(whole.begin() + 120, whole.begin() + 160));
  file.read(w, 400, {});
  for (const auto& range : {std::pair<uint64_t, size_t>{361, 40}, {401, 0}, {UINT64_MAX, 2}}) {
    const uint64_t first = range.first;
    std::vector<std::byte> out(range.second);
    CHECK(refusal_of([&] { file.read(w, first, out); }).code == "TT-IO-03");
  }
  std::filesystem::resize_file(path, 300);
  CHECK(refusal_of([&] { file.bytes(w); }).code == "TT-IO-03");
  CHECK(refusal_of([&] { tt::open_gguf(path); }).code == "TT-IO-03");
  CHECK(refusal_of([&] { tt::open_gguf(folder / "none.gguf"); }).code == "TT-IO-01");
  CHECK(refusal_of([&] { tt::open_gguf(folder / ""); }).code == "TT-IO-01");
}

TEST_CASE("the start of a file: other kinds, versions, byte order") {
  const auto refusal = [](const std::string& start) {
    std::vector<std::byte> bytes;
    tt::io::append(bytes, tt::as_bytes(start));
    bytes.resize(64);
    return refusal_of([&] { tt::parse_gguf(bytes); });
  };
  CHECK(contains(refusal("\x93NUMPY").text, "a NumPy array"));
  CHECK(contains(refusal("<!doctype html>").text, "a web page"));
  CHECK(contains(refusal("tjgg").text, "'tjgg'"));
  CHECK(refusal("tjgg").code == "TT-IO-03");
  CHECK(Hand().start(0, 0, 2).refusal().code == "");
  for (const uint32_t version : {0u, 1u, 4u, 65535u})
    CHECK(Hand().start(0, 0, version).refusal().code == "TT-IO-04");
  const auto big = refusal_of([] { tt::open_gguf(golden("big_endian.gguf")); });
  CHECK(big.code == "TT-IO-04");
  CHECK(contains(big.text, "a big-endian file"));
  CHECK(contains(big.text, "gguf-convert-endian"));
}

TEST_CASE("counts and lengths are checked before memory is allocated") {
  CHECK(Hand().start(UINT64_MAX, 0).refusal().code == "TT-IO-06");
  CHECK(Hand().start(0, UINT64_MAX).refusal().code == "TT-IO-06");
  CHECK(Hand().start(1 << 20, 0).values(1000).refusal().code == "TT-IO-03");
  CHECK(Hand().start(0, 65536).values(1000).refusal().code == "TT-IO-03");
  for (const uint64_t length :
       {uint64_t{100}, uint64_t{65536}, uint64_t{1} << 40, UINT64_MAX, UINT64_MAX - 31}) {
    CAPTURE(length);
    const auto refused = [](Hand& h) { CHECK(h.values(64).refusal().code == "TT-IO-03"); };
    Hand key, text, numbers, texts, name;
    refused(key.start(0, 1).put(length));
    refused(text.start(0, 1).text("k").put(uint32_t{8}).put(length));
    refused(numbers.start(0, 1).text("k").put(uint32_t{9}).put(uint32_t{6}).put(length));
    refused(texts.start(0, 1).text("k").put(uint32_t{9}).put(uint32_t{8}).put(length));
    refused(name.start(1, 0).put(length));
  }
}

TEST_CASE("metadata: types, bools, duplicates, nested arrays, alignment") {
  const auto entry = [](uint32_t type) {
    Hand h;
    h.start(0, 1).text("k").put(type);
    return h;
  };
  CHECK(entry(7).put(uint8_t{1}).values(0).refusal().code == "");
  CHECK(entry(7).put(uint8_t{2}).values(0).refusal().code == "TT-IO-03");
  CHECK(entry(13).values(100).refusal().code == "TT-IO-03");
  CHECK(entry(9).put(uint32_t{13}).values(100).refusal().code == "TT-IO-03");
  const auto nested = entry(9).put(uint32_t{9}).put(uint64_t{0}).values(0).refusal();
  CHECK(nested.code == "TT-IO-04");
  CHECK(contains(nested.text, "'k', an array of arrays"));
  Hand twice;
  twice.start(0, 2).text("k").put(uint32_t{0}).put(uint8_t{1}).text("k").put(uint32_t{0}).put(uint8_t{1});
  CHECK(contains(twice.values(8).refusal().text, "'k' a second time"));
  for (const auto& [n, code] : {std::pair{1u, ""},
                                {32u, ""},
                                {1u << 20, ""},
                                {0u, "TT-IO-03"},
                                {24u, "TT-IO-03"},
                                {1u << 21, "TT-IO-03"}}) {
    Hand h;
    h.start(0, 1).text("general.alignment").put(uint32_t{4}).put(n);
    CHECK(h.refusal().code == code);
  }
  Hand of_i32;
  CHECK(of_i32.start(0, 1).text("general.alignment").put(uint32_t{5}).put(int32_t{32}).refusal().code ==
        "TT-IO-03");
}

TEST_CASE("tensors: rank, sizes, types, blocks, offsets, overlap") {
  CHECK(one({8}, 0, 0, 32).refusal().code == "");
  CHECK(one({8}, 0, 0, 31).refusal().code == "TT-IO-03");
  CHECK(one({8}, 0, 32, 64).refusal().code == "");  // a gap at the start
  CHECK(one({8}, 0, 32, 63).refusal().code == "TT-IO-03");
  CHECK(one({8}, 0, 1, 64).refusal().code == "TT-IO-03");
  CHECK(one({8}, 0, UINT64_MAX - 31, 64).refusal().code == "TT-IO-03");
  CHECK(one({0}, 0, 64, 64).refusal().code == "");
  CHECK(one({0}, 0, 96, 64).refusal().code == "TT-IO-03");
  CHECK(one({1, 1, 1, 1, 1}, 0, 0, 32).refusal().code == "TT-IO-03");
  for (const uint32_t type : {4u, 5u, 31u, 36u, 42u, UINT32_MAX})
    CHECK(one({8}, type, 0, 64).refusal().code == "TT-IO-04");
  CHECK(one({32, 3}, 8, 0, 102).refusal().code == "");
  CHECK(one({32, 3}, 8, 0, 101).refusal().code == "TT-IO-03");
  CHECK(one({31, 32}, 8, 0, 2000).refusal().code == "TT-IO-03");
  CHECK(one({}, 8, 0, 2000).refusal().code == "TT-IO-03");
  for (const auto& sizes : {std::initializer_list<uint64_t>{UINT64_MAX},
                            {uint64_t{1} << 58},
                            {uint64_t{1} << 32, uint64_t{1} << 32},
                            {uint64_t{1} << 40, uint64_t{1} << 40, 0},
                            {1 << 16, 1 << 16, 1 << 16, 1 << 16},
                            {uint64_t{1} << 58, 1, 1}}) {
    CHECK(one(sizes, 0, 0, 64).refusal().code == "TT-IO-03");
    CHECK(one(sizes, 15, 0, 64).refusal().code == "TT-IO-03");
  }
  CHECK(two(0, 32, 64).refusal().code == "");
  CHECK(two(32, 0, 64).refusal().code == "");  // any order
  CHECK(two(0, 96, 128).refusal().code == "");
  const auto overlap = two(0, 0, 64).refusal();
  CHECK(overlap.code == "TT-IO-03");
  CHECK(contains(overlap.text, "tensors that do not overlap"));
  Hand second;
  second.start(2, 0).tensor("a", {16}, 0, 0).tensor("b", {8}, 0, 32).values(64);
  CHECK(second.refusal().code == "TT-IO-03");
  Hand same;
  same.start(2, 0).tensor("a", {8}, 0, 0).tensor("a", {8}, 0, 32).values(64);
  CHECK(contains(same.refusal().text, "'a' a second time"));
  Hand long_name;
  CHECK(long_name.start(1, 0).tensor(std::string(65, 'n'), {8}, 0, 0).values(32).refusal().code ==
        "TT-IO-03");
}

TEST_CASE("gguf: truncated and damaged files are rejected, in memory and as files") {
  const auto parse = [](tt::Bytes b) {
    const tt::GgufFile file = tt::parse_gguf(b);
    for (const tt::GgufTensorInfo& t : file.tensors) file.bytes(t);
  };
  // The end of the file is that of its last tensor: padding after it may be missing.
  std::vector<std::byte> all = golden_bytes("all.gguf");
  uint64_t end = 0;
  for (const tt::GgufTensorInfo& t : tt::parse_gguf(all).tensors) end = std::max(end, t.offset + t.bytes);
  all.resize(static_cast<size_t>(end));
  files::check_cut_files(all, parse);
  CHECK(files::check_damaged_files(golden_bytes("all.gguf"), parse) > 3000);
  const files::TempFolder folder;
  const auto parse_file = [&](tt::Bytes b) {
    tt::write_file(folder / "f.gguf", b);
    tt::open_gguf(folder / "f.gguf");
  };
  std::vector<std::byte> small = golden_bytes("aligned.gguf");
  small.resize(static_cast<size_t>(tt::parse_gguf(small).find("vector")->offset) + 28);
  files::check_cut_files(small, parse_file);
}
