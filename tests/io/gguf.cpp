// GGUF: files of the Python package gguf, round trips, every rule of the format, damaged files.
#include <tinytorch/io/gguf_write.hpp>

#include <tinytorch/tinytorch.hpp>

#include <io/files.hpp>
#include <map>
#include <random>

namespace tt = tinytorch;
using files::contains;
using files::refusal_of;

namespace {

std::string golden(const std::string& name) { return files::golden("../gguf/" + name); }
std::vector<std::byte> golden_bytes(const std::string& name) { return tt::read_file(golden(name)); }
std::string text_of(const tt::Json& json, const char* key) { return *json.find(key)->string(); }
int64_t number_of(const tt::Json& json, const char* key) { return *json.find(key)->integer(); }

// Everything that a file contains, ready to be written again.
tt::GgufContent content_of(const tt::GgufFile& file) {
  tt::GgufContent out{.metadata = file.metadata, .tensors = {}, .version = file.version};
  for (const tt::GgufTensorInfo& t : file.tensors)
    out.tensors.push_back(tt::gguf_tensor(t.name, *t.type, t.shape, file.bytes(t)));
  return out;
}

// A file by hand, so that each number can be wrong.
struct Hand {
  std::vector<std::byte> bytes;
  template <class T>
  Hand& put(T value) {
    tt::io::append(bytes, value, std::endian::little);
    return *this;
  }
  Hand& text(const std::string& s) {
    put(uint64_t{s.size()});
    tt::io::append(bytes, tt::as_bytes(s));
    return *this;
  }
  Hand& start(uint64_t tensors, uint64_t entries, uint32_t version = 3) {
    tt::io::append(bytes, tt::as_bytes("GGUF"));
    return put(version).put(tensors).put(entries);
  }
  Hand& tensor(const std::string& name, std::initializer_list<uint64_t> sizes, uint32_t type,
               uint64_t offset) {
    text(name).put(static_cast<uint32_t>(sizes.size()));
    for (const uint64_t n : sizes) put(n);
    return put(type).put(offset);
  }
  Hand& values(size_t n, size_t alignment = 32) {
    bytes.resize((bytes.size() + alignment - 1) / alignment * alignment + n);
    return *this;
  }
  files::Refusal refusal() const {
    return refusal_of([&] { tt::parse_gguf(bytes, "x.gguf"); });
  }
};
Hand one(std::initializer_list<uint64_t> sizes, uint32_t type, uint64_t offset, size_t values) {
  Hand h;
  return h.start(1, 0).tensor("w", sizes, type, offset).values(values);
}
Hand two(uint64_t first, uint64_t second, size_t values) {
  Hand h;
  return h.start(2, 0).tensor("a", {8}, 0, first).tensor("b", {8}, 0, second).values(values);
}

}  // namespace

TEST_CASE("the sizes of all types of ggml are those of the package gguf") {
  const auto bytes = golden_bytes("types.json");
  const tt::Json json = tt::parse_json(bytes, {"types.json", "types", tt::Loc::current()});
  const auto& types = *json.find("types")->array();
  CHECK(types.size() == std::size(tt::kGgmlTypes));
  for (const tt::Json& type : types) {
    const std::string name = text_of(type, "name");
    CAPTURE(name);
    const tt::GgmlType* ours = tt::find_ggml_type(name);
    REQUIRE(ours != nullptr);
    CHECK(tt::find_ggml_type(static_cast<uint32_t>(number_of(type, "id"))) == ours);
    CHECK(ours->block == number_of(type, "block"));
    CHECK(ours->bytes == number_of(type, "bytes"));
  }
  CHECK(tt::find_ggml_type("Q4_0")->bits_per_weight() == 4.5);
  CHECK(tt::find_ggml_type(4) == nullptr);
  CHECK(tt::find_ggml_type("q4_0") == nullptr);
  for (const tt::DType dtype : files::all_dtypes()) {
    const tt::GgmlType* plain = tt::ggml_type_of(dtype);
    CHECK((plain == nullptr) == (dtype == tt::u8 || dtype == tt::boolean));
    if (plain) CHECK(plain->bytes == tt::size_of(dtype));
    if (plain) CHECK(tt::plain_dtype(*plain) == dtype);
  }
  CHECK(!tt::plain_dtype(*tt::find_ggml_type("I16")));
  CHECK(!tt::plain_dtype(*tt::find_ggml_type("Q8_0")));
}

TEST_CASE("a file of the package gguf: every type of metadata") {
  const tt::GgufFile file = tt::open_gguf(golden("all.gguf"));
  CHECK(file.version == 3);
  CHECK(file.alignment == 32);
  const tt::GgufMetadata& m = file.metadata;
  CHECK(*m.find("general.architecture")->text() == "example");
  CHECK(m.find("value.u8")->integer() == 200);
  CHECK(m.find("value.i8")->integer() == -100);
  CHECK(m.find("value.u16")->integer() == 60000);
  CHECK(m.find("value.i16")->integer() == -30000);
  CHECK(m.find("value.u32")->integer() == 4000000000);
  CHECK(m.find("value.i32")->integer() == -2000000000);
  CHECK(m.find("value.f32")->number() == static_cast<double>(0.1f));
  CHECK(m.find("value.bool")->boolean() == true);
  CHECK(*m.find("value.string")->text() == "caf\xc3\xa9 \"x\"\n");
  CHECK(!m.find("value.u64")->integer());
  CHECK(m.find("value.u64")->number() == 18446744073709551615.0);
  CHECK(m.find("value.i64")->integer() == std::numeric_limits<int64_t>::min());
  CHECK(m.find("value.f64")->number() == 0.1);
  const tt::GgufValue& numbers = *m.find("array.i32");
  CHECK(numbers.is_array());
  CHECK(numbers.count() == 4);
  CHECK(numbers.integer_at(1) == -2);
  CHECK(!numbers.integer());
  CHECK(!numbers.number());
  CHECK(numbers.describe() == "i32[4] 1 -2 3 ...");
  CHECK(m.find("array.f32")->number_at(1) == -1.5);
  CHECK(!m.find("array.f32")->integer_at(1));
  CHECK(m.find("array.bool")->describe() == "bool[2] true false");
  CHECK(*m.find("array.string")->texts() == std::vector<std::string>{"a", "bc", "\xc3\xa9"});
  CHECK(m.find("array.string")->text() == nullptr);
  CHECK(m.find("value.f32")->describe() == "f32 0.100000001");
  CHECK(m.find("no.such.key") == nullptr);
  CHECK(!m.find("value.f64")->integer());
  CHECK(!m.find("value.string")->number());
  CHECK(!m.find("value.u8")->boolean());
}

TEST_CASE("a file of the package gguf: every type of tensor; written again, the bytes are the same") {
  const tt::GgufFile file = tt::open_gguf(golden("all.gguf"));
  const auto bytes = golden_bytes("types.json");
  const tt::Json json = tt::parse_json(bytes, {"types.json", "types", tt::Loc::current()});
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
  for (const auto& [first, count] : {std::pair<uint64_t, size_t>{361, 40}, {401, 0}, {UINT64_MAX, 2}}) {
    std::vector<std::byte> out(count);
    CHECK(refusal_of([&] { file.read(w, first, out); }).code == "TT-IO-03");
  }
  std::filesystem::resize_file(path, 300);
  CHECK(refusal_of([&] { file.bytes(w); }).code == "TT-IO-03");
  CHECK(refusal_of([&] { tt::open_gguf(path); }).code == "TT-IO-03");
  CHECK(refusal_of([&] { tt::open_gguf(folder / "none.gguf"); }).code == "TT-IO-01");
  CHECK(refusal_of([&] { tt::open_gguf(folder / ""); }).code == "TT-IO-01");
}

TEST_CASE("round trips: every dtype, strided, random blocks, metadata with NaN; both versions") {
  const files::TempFolder folder;
  std::mt19937 random(3);
  for (const uint32_t version : {2u, 3u}) {
    tt::GgufContent content{.metadata = {}, .tensors = {}, .version = version};
    content.metadata.set("nan", std::bit_cast<float>(0x7fc12345u));
    content.metadata.set("list", std::vector<double>{1.5, std::nan("7")});
    content.metadata.set("none", std::vector<std::string>{});
    content.metadata.set("flags", std::vector<bool>{true, false, true});
    content.metadata.set("replaced", 1), content.metadata.set("replaced", "text with \xff and a zero \0"),
        content.metadata.set("general.alignment", uint32_t{64});
    CHECK(content.metadata.size() == 6);
    std::map<std::string, tt::Tensor> expected;
    for (const tt::DType dtype : files::all_dtypes()) {
      if (!tt::ggml_type_of(dtype)) continue;
      const std::string name = tt::name_of(dtype);
      expected["plain." + name] = files::ramp({3, 7}, dtype);
      expected["view." + name] = tt::alias(expected["plain." + name], {3, 3}, {2, 7}, 1);
      expected["empty." + name] = files::ramp({0, 4}, dtype);
    }
    for (const auto& [name, t] : expected) content.tensors.push_back(tt::gguf_tensor(name, t));
    std::vector<std::byte> blocks(5 * 4 * 144);
    for (std::byte& b : blocks) b = static_cast<std::byte>(random());
    content.tensors.push_back(tt::gguf_tensor("q", *tt::find_ggml_type("Q4_K"), {5, 1024}, blocks));
    tt::write_gguf(folder / "t.gguf", content);
    CHECK(tt::read_file(folder / "t.gguf") == tt::to_gguf(content));
    const tt::GgufFile file = tt::open_gguf(folder / "t.gguf");
    CHECK(file.version == version);
    CHECK(file.metadata == content.metadata);
    CHECK(file.tensors.size() == expected.size() + 1);
    for (const auto& item : expected) {
      CAPTURE(item.first);
      CHECK(file.find(item.first)->offset % 64 == 0);
      CHECK(files::same(file.tensor(*file.find(item.first)), item.second));
    }
    CHECK(file.bytes(*file.find("q")) == blocks);
  }
  CHECK(folder.count() == 1);
  if (const char* keep = std::getenv("TINYTORCH_SAVED_GGUF"))  // for make_gguf.py --check
    std::filesystem::copy_file(folder / "t.gguf", keep + std::string("/round_trip.gguf"));
}

TEST_CASE("what does not fit the format is not written, and an old file stays") {
  const files::TempFolder folder;
  tt::GgufContent old;
  old.metadata.set("old", true);
  tt::write_gguf(folder / "f", old);
  const auto code = [&](auto change) {
    tt::GgufContent content;
    content.tensors.push_back(tt::gguf_tensor("w", files::ramp({2, 32}, tt::f32)));
    change(content);
    return refusal_of([&] { tt::write_gguf(folder / "f", content); }).code;
  };
  const tt::GgmlType& q8 = *tt::find_ggml_type("Q8_0");
  const auto with = [&](const std::string& name, const tt::Shape& shape, size_t bytes) {
    return code([&](tt::GgufContent& c) {
      c.tensors.push_back(tt::gguf_tensor(name, q8, shape, std::vector<std::byte>(bytes)));
    });
  };
  const auto refused = [&](const std::string& got) {
    CHECK(got == "TT-IO-02");
    CHECK(*tt::open_gguf(folder / "f").metadata.find("old") == tt::GgufValue(true));
    CHECK(folder.count() == 1);
  };
  refused(with("w", {32}, 34));                   // twice the same name
  refused(with("", {32}, 34));                    // no name
  refused(with(std::string(64, 'x'), {32}, 34));  // too long for ggml
  refused(with("\xff", {32}, 34));                // not UTF-8
  refused(with("q", {33}, 34));                   // not whole blocks
  refused(with("q", {}, 34));
  refused(with("q", {32, 16}, 34));  // the blocks must lie along rows
  refused(with("q", {32}, 33));      // too few bytes, which is only known while writing
  refused(with("q", {32}, 35));
  refused(with("q", {1, 1, 1, 1, 32}, 34));  // five dimensions
  refused(code([](tt::GgufContent& c) { c.version = 1; }));
  refused(code([](tt::GgufContent& c) { c.metadata.set("", 1); }));
  refused(code([](tt::GgufContent& c) { c.metadata.set(std::string(65536, 'k'), 1); }));
  refused(code([](tt::GgufContent& c) { c.metadata.append("k", 1), c.metadata.append("k", 2); }));
  refused(code([](tt::GgufContent& c) { c.metadata.set("general.alignment", uint32_t{48}); }));
  refused(code([](tt::GgufContent& c) { c.metadata.set("general.alignment", uint32_t{1} << 21); }));
  refused(code([](tt::GgufContent& c) { c.metadata.set("general.alignment", 32); }));
  refused(code([](tt::GgufContent& c) { c.tensors[0].type = nullptr; }));
  for (const tt::DType dtype : {tt::u8, tt::boolean})
    refused(refusal_of([&] { tt::gguf_tensor("w", files::ramp({2}, dtype)); }).code);
  CHECK(with(std::string(63, 'x'), {2, 64}, 136) == "");
  CHECK(tt::open_gguf(folder / "f").tensors.size() == 2);
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

TEST_CASE("a header of more than one reading step") {
  std::vector<std::string> tokens;
  for (int i = 0; i < 30000; ++i) tokens.push_back("token " + std::to_string(i));
  tt::GgufContent content;
  content.metadata.set("tokenizer.ggml.tokens", tokens);
  content.tensors.push_back(tt::gguf_tensor("w", files::ramp({5}, tt::i64)));
  const files::TempFolder folder;
  tt::write_gguf(folder / "f.gguf", content);
  const tt::GgufFile file = tt::open_gguf(folder / "f.gguf");
  CHECK(*file.metadata.find("tokenizer.ggml.tokens")->texts() == tokens);
  CHECK(files::same(file.tensor(file.tensors[0]), files::ramp({5}, tt::i64)));
}
