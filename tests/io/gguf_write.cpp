// Writing GGUF: the bytes of the package gguf, round trips, what is refused.
#include <tinytorch/io/gguf_write.hpp>

#include <io/gguf_files.hpp>
#include <map>
#include <random>

namespace tt = tinytorch;
using namespace gguf_files;
using files::contains;
using files::refusal_of;

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
    std::filesystem::copy_file(folder / "t.gguf", keep + std::string("/round_trip.gguf"),
                               std::filesystem::copy_options::overwrite_existing);
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
