// safetensors: byte-exact files of the reference implementation, round trips, every rule of the format.
#include <tinytorch/io/safetensors.hpp>

#include <io/files.hpp>

namespace tt = tinytorch;
using files::refusal_of;

namespace {

std::vector<std::byte> file_of(const std::string& header, size_t value_bytes, uint64_t length) {
  std::vector<std::byte> out;
  tt::io::append(out, length, std::endian::little);
  tt::io::append(out, tt::as_bytes(header));
  out.resize(out.size() + value_bytes);
  return out;
}
files::Refusal refused(const std::string& header, size_t value_bytes = 0) {
  const std::vector<std::byte> bytes = file_of(header, value_bytes, header.size());
  return refusal_of([&] { tt::parse_safetensors(bytes, "x.safetensors"); });
}
std::string entry(const char* name, const char* dtype, const char* shape, const char* offsets) {
  return "\"" + std::string(name) + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}
std::string one(const char* dtype, const char* shape, const char* offsets) {
  return "{" + entry("x", dtype, shape, offsets) + "}";
}
std::string two(const char* first, const char* second) {
  return "{" + entry("a", "F32", "[2]", first) + "," + entry("b", "F32", "[2]", second) + "}";
}
void check_same(const tt::TensorMap& a, const tt::TensorMap& b) {
  REQUIRE(a.size() == b.size());
  for (const auto& item : a) {
    CAPTURE(item.first);
    REQUIRE(b.contains(item.first));
    CHECK(files::same(item.second, b.at(item.first)));
  }
}

}  // namespace

TEST_CASE("a file of the reference implementation: every dtype, rank 0, empty, unusual names") {
  tt::Metadata metadata;
  const tt::TensorMap tensors = tt::load_safetensors(files::golden("all.safetensors"), &metadata);
  CHECK(metadata == tt::Metadata{{"format", "np"}});
  REQUIRE(tensors.size() == 11);
  for (const tt::DType dtype : files::all_dtypes()) {
    if (dtype == tt::bf16) continue;  // NumPy has no bf16, which has its own file below
    CAPTURE(tt::name_of(dtype));
    CHECK(files::same(tensors.at(tt::name_of(dtype)), files::ramp({2, 3, 5}, dtype)));
  }
  CHECK(tensors.at("rank0").rank() == 0);
  CHECK(tensors.at("rank0").item() == 2.5f);
  CHECK(tensors.at("empty").shape() == tt::Shape{3, 0, 2});
  CHECK(files::same(tensors.at("a \"b\" \\ c"), files::ramp({3}, tt::f32)));
  // The output equals that of the reference implementation.
  CHECK(tt::to_safetensors(tensors, metadata) == files::golden_bytes("all.safetensors"));
}

TEST_CASE("bf16 files, and files with an unsupported dtype") {
  const tt::TensorMap bf16 = tt::load_safetensors(files::golden("bf16.safetensors"));
  REQUIRE(bf16.size() == 1);
  CHECK(files::same(bf16.at("x"), files::ramp({2, 3}, tt::bf16)));
  CHECK(tt::load_safetensors(files::golden("none.safetensors")).empty());
  CHECK(tt::to_safetensors({}) == files::golden_bytes("none.safetensors"));
  const auto complex = refusal_of([] { tt::load_safetensors(files::golden("complex.safetensors")); });
  CHECK(complex.code == "TT-IO-04");
  CHECK(files::contains(complex.text, "dtype 'C64' of tensor 'x'"));
  CHECK(files::contains(complex.text, "complex.safetensors"));
}

TEST_CASE("round trips: every dtype, strided, empty, rank 0 and 8, metadata; the output is deterministic") {
  const files::TempFolder folder;
  tt::TensorMap tensors;
  for (const tt::DType dtype : files::all_dtypes()) {
    const std::string name = tt::name_of(dtype);
    tensors["plain." + name] = files::ramp({3, 7}, dtype);
    tensors["view." + name] = tt::alias(tensors["plain." + name], {3, 3}, {2, 7}, 1);
    tensors["scalar." + name] = files::ramp({}, dtype);
    tensors["empty." + name] = files::ramp({0, 4}, dtype);
  }
  tensors["rank8"] = files::ramp({1, 2, 1, 3, 2, 1, 2, 2}, tt::f32);
  tensors["\xc3\xa4\n\x01"] = files::ramp({2}, tt::u8);
  const tt::Metadata metadata = {{"k", "v"}, {"note", "two\nlines \"quoted\" \xe2\x82\xac"}, {"", ""}};
  tt::save_safetensors(folder / "t.safetensors", tensors, metadata);
  tt::Metadata read;
  check_same(tensors, tt::load_safetensors(folder / "t.safetensors", &read));
  CHECK(read == metadata);
  const std::vector<std::byte> bytes = tt::read_file(folder / "t.safetensors");
  CHECK(bytes == tt::to_safetensors(tensors, metadata));
  CHECK(tt::io::load<uint64_t>(bytes, 0, std::endian::little) % 8 == 0);
  CHECK(folder.count() == 1);
}

TEST_CASE("invalid names and metadata are rejected before anything is written") {
  const files::TempFolder folder;
  tt::save_safetensors(folder / "f", {{"old", files::ramp({1}, tt::f32)}});
  const auto code = [&](const tt::TensorMap& tensors, const tt::Metadata& metadata) {
    return refusal_of([&] { tt::save_safetensors(folder / "f", tensors, metadata); }).code;
  };
  CHECK(code({{"__metadata__", files::ramp({1}, tt::f32)}}, {}) == "TT-IO-02");
  CHECK(code({{"\xff", files::ramp({1}, tt::f32)}}, {}) == "TT-IO-02");
  CHECK(code({}, {{"k", "\xc3"}}) == "TT-IO-02");
  CHECK(code({{"undefined", tt::Tensor()}}, {}) == "TT-TENSOR-01");
  CHECK(tt::load_safetensors(folder / "f").contains("old"));
  CHECK(folder.count() == 1);
}

TEST_CASE("the length of the header is checked") {
  const auto code = [](const std::vector<std::byte>& bytes) {
    return refusal_of([&] { tt::parse_safetensors(bytes); }).code;
  };
  CHECK(code(file_of("{}", 0, 2)) == "");
  CHECK(code(file_of("{}   ", 0, 5)) == "");
  CHECK(code(file_of("{}", 0, 3)) == "TT-IO-03");
  CHECK(code(file_of("{}", 0, 1)) == "TT-IO-03");
  CHECK(code(file_of("{}", 0, 0)) == "TT-IO-03");
  CHECK(code(file_of("{}", 0, 100'000'000)) == "TT-IO-03");
  CHECK(code(file_of("{}", 0, 100'000'001)) == "TT-IO-06");
  CHECK(code(file_of("{}", 0, UINT64_MAX)) == "TT-IO-06");
  CHECK(code(file_of(" {}", 0, 3)) == "TT-IO-03");
  CHECK(code(file_of("[]", 0, 2)) == "TT-IO-03");
}

TEST_CASE("each entry of the header is checked") {
  CHECK(refused(one("F32", "[2]", "[0,8]"), 8).code == "");
  for (const std::string& header :
       {one("F32", "[2]", "[0,7]"), one("F32", "[2]", "[8,0]"), one("F32", "[2]", "[0]"),
        one("F32", "[2]", "[0,8,8]"), one("F32", "[2]", "[0,8.0]"), one("F32", "[2]", "{}"),
        one("F32", "[-2]", "[0,8]"), one("F32", "[2.5]", "[0,8]"), one("F32", "[\"2\"]", "[0,8]"),
        one("F32", "2", "[0,8]"), one("F64", "[2]", "[0,8]"), one("F32", "[3]", "[0,8]"),
        one("F32", "[2]", "[-8,0]"), std::string("{\"x\":[]}"), std::string("{\"x\":{}}"),
        std::string("{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"offsets\":[0,8]}}"),
        std::string("{\"x\":{\"dtype\":7,\"shape\":[2],\"data_offsets\":[0,8]}}"),
        std::string("{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"more\":0}}")}) {
    CAPTURE(header);
    CHECK(refused(header, 8).code == "TT-IO-03");
  }
  for (const char* dtype :
       {"C64", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F6_E2M3", "F4", "f32", "u16", "I128", ""}) {
    const auto r = refused(one(dtype, "[2]", "[0,8]"), 8);
    CHECK(r.code == "TT-IO-04");
    CHECK(files::contains(r.text, "'" + std::string(dtype) + "'"));
  }
  CHECK(refused(one("F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]"), 8).code == "TT-IO-04");
}

TEST_CASE("values: no gap, no overlap, no extra bytes, unique names") {
  CHECK(refused(two("[0,8]", "[8,16]"), 16).code == "");
  CHECK(refused(two("[8,16]", "[0,8]"), 16).code == "");  // any order in the header
  const auto gap = refused(two("[0,8]", "[9,17]"), 17);
  CHECK(gap.code == "TT-IO-03");
  CHECK(files::contains(gap.text, "expected: values of 'b' from byte 8"));
  CHECK(files::contains(gap.text, "found:    from byte 9, a gap"));
  CHECK(files::contains(refused(two("[0,8]", "[4,12]"), 12).text, "an overlap"));
  CHECK(files::contains(refused(two("[0,8]", "[0,8]"), 8).text, "an overlap"));
  CHECK(refused(two("[1,9]", "[9,17]"), 17).code == "TT-IO-03");
  CHECK(refused(two("[0,8]", "[8,16]"), 17).code == "TT-IO-03");
  CHECK(refused(two("[0,8]", "[8,16]"), 15).code == "TT-IO-03");
  CHECK(refused("{" + entry("a", "U8", "[0]", "[0,0]") + "," + entry("b", "U8", "[1]", "[0,1]") + "}", 1)
            .code == "");
  CHECK(refused("{" + entry("a", "U8", "[1]", "[0,1]") + "," + entry("a", "U8", "[1]", "[1,2]") + "}", 2)
            .code == "TT-IO-03");
}

TEST_CASE("values are located by their offsets, independently of the order of names") {
  std::vector<std::byte> bytes = file_of(two("[8,16]", "[0,8]"), 0, two("[8,16]", "[0,8]").size());
  for (const float v : {1.0f, 2.0f, 3.0f, 4.0f})
    tt::io::append(bytes, std::bit_cast<uint32_t>(v), std::endian::little);
  const tt::TensorMap tensors = tt::parse_safetensors(bytes);
  CHECK(tensors.at("a").to_vector<float>() == std::vector<float>{3, 4});
  CHECK(tensors.at("b").to_vector<float>() == std::vector<float>{1, 2});
}

TEST_CASE("metadata may contain only strings") {
  CHECK(refused(R"({"__metadata__":{"a":"b"}})").code == "");
  CHECK(refused(R"({"__metadata__":{"a":1}})").code == "TT-IO-03");
  CHECK(refused(R"({"__metadata__":[]})").code == "TT-IO-03");
  CHECK(refused(R"({"__metadata__":{"a":"b","a":"c"}})").code == "TT-IO-03");
}

TEST_CASE("safetensors: sizes are checked before memory is allocated") {
  tt::reset_peak();
  const size_t before = tt::allocator_stats().peak;
  for (const char* shape :
       {"[1000000000000]", "[4294967296,4294967296]", "[9223372036854775807]", "[9223372036854775808]",
        "[0,288230376151711745]", "[4294967296,4294967296,0,4294967296]"}) {
    CAPTURE(shape);
    CHECK(refused(one("F64", shape, "[0,8000000000000]"), 8).code == "TT-IO-03");
    CHECK(refused(one("F64", shape, "[0,0]"), 0).code == "TT-IO-03");
  }
  CHECK(refused(one("F32", "[2000000000]", "[0,8000000000]"), 8).code == "TT-IO-03");
  CHECK(tt::allocator_stats().peak == before);
}

TEST_CASE("safetensors: truncated and damaged files are rejected") {
  const auto parse = [](tt::Bytes b) { tt::parse_safetensors(b); };
  for (const char* name : {"all.safetensors", "bf16.safetensors", "none.safetensors"})
    files::check_cut_files(files::golden_bytes(name), parse);
  CHECK(files::check_damaged_files(files::golden_bytes("all.safetensors"), parse) > 1000);
}
