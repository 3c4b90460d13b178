// Values of metadata: every type, as a file of the package gguf has them.
#include <tinytorch/io/gguf_metadata.hpp>

#include <io/gguf_files.hpp>

namespace tt = tinytorch;
using namespace gguf_files;
using files::contains;
using files::refusal_of;

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

TEST_CASE("a value keeps the type of its C++ value, and its bits") {
  const auto type = [](const tt::GgufValue& v) { return std::string(tt::name_of(v.type())); };
  CHECK(type(uint8_t{1}) == "u8");
  CHECK(type(int8_t{1}) == "i8");
  CHECK(type(uint16_t{1}) == "u16");
  CHECK(type(int16_t{1}) == "i16");
  CHECK(type(uint32_t{1}) == "u32");
  CHECK(type(1) == "i32");
  CHECK(type(uint64_t{1}) == "u64");
  CHECK(type(int64_t{1}) == "i64");
  CHECK(type(1.f) == "f32");
  CHECK(type(1.) == "f64");
  CHECK(type(true) == "bool");
  CHECK(type("text") == "string");
  const float nan = std::bit_cast<float>(0x7fc12345u);
  CHECK(tt::GgufValue(nan) == tt::GgufValue(nan));
  CHECK(!(tt::GgufValue(nan) == tt::GgufValue(-nan)));
  CHECK(!(tt::GgufValue(1) == tt::GgufValue(1u)));
  CHECK(!(tt::GgufValue(1) == tt::GgufValue(std::vector<int>{1})));
  CHECK(tt::GgufValue(std::vector<int>{1}).integer() == std::nullopt);
  CHECK(tt::GgufValue(std::vector<bool>{true}).boolean() == std::nullopt);
  CHECK(tt::GgufValue(std::vector<float>{}).count() == 0);
}

TEST_CASE("metadata keeps its order; an entry is replaced in its place") {
  tt::GgufMetadata m;
  m.set("a", 1), m.set("b", 2), m.set("a", "three");
  REQUIRE(m.size() == 2);
  CHECK(m.begin()->first == "a");
  CHECK(m.find("a")->describe() == "string 'three'");
  CHECK(m.find("c") == nullptr);
}
