// Formats against blocks that another program packed and decoded (golden/make_blocks.py).
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <support/golden_file.hpp>
#include <tinytorch/backend/cpu/block_linear.hpp>
#include <vector>

using namespace tinytorch;

namespace {

template <class T>
std::vector<T> from_hex(const nlohmann::json& value) {
  const std::string text = value.get<std::string>();
  std::vector<uint8_t> bytes(text.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<uint8_t>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

}  // namespace

TEST_CASE("a row is packed into the bytes that ggml's formats have elsewhere") {
  const nlohmann::json golden = read_golden("blocks");
  for (const nlohmann::json& row : golden.at("pack")) {
    for (const auto& [name, bytes] : row.at("bytes").items()) {
      const BlockFormat* const f = find_block_format(name);
      REQUIRE(f != nullptr);
      CAPTURE(name);
      CAPTURE(row.at("row").get<std::string>());
      const auto x = from_hex<float>(row.at("numbers"));
      const auto want = from_hex<uint8_t>(bytes);
      std::vector<uint8_t> got(want.size());
      REQUIRE(f->row_bytes(std::ssize(x)) == std::ssize(want));
      f->pack(x.data(), std::ssize(x) / f->block, got.data());
      CHECK(got == want);
    }
  }
}

TEST_CASE("bytes are decoded into the numbers that ggml's formats have elsewhere") {
  const nlohmann::json golden = read_golden("blocks");
  for (const auto& [name, value] : golden.at("unpack").items()) {
    const BlockFormat* const f = find_block_format(name);
    REQUIRE(f != nullptr);
    CAPTURE(name);
    const auto bytes = from_hex<uint8_t>(value.at("bytes"));
    const auto want = from_hex<float>(value.at("numbers"));
    std::vector<float> got(want.size());
    REQUIRE(f->row_bytes(std::ssize(want)) == std::ssize(bytes));
    f->unpack(bytes.data(), std::ssize(want) / f->block, got.data());
    for (size_t i = 0; i < want.size(); ++i) REQUIRE(got[i] == want[i]);
  }
}

TEST_CASE("numbers too small for the scale become zeros, and their bytes depend on no overflow") {
  for (const BlockFormat& f : block_formats()) {
    CAPTURE(f.name);
    std::vector<float> x(static_cast<size_t>(f.block)), back(x.size(), 1.0f);
    for (size_t i = 0; i < x.size(); ++i) x[i] = (i % 2 ? -1e-40f : 1e-42f) * static_cast<float>(i % 7);
    std::vector<uint8_t> bytes(static_cast<size_t>(f.bytes));
    f.pack(x.data(), 1, bytes.data());
    f.unpack(bytes.data(), 1, back.data());
    for (size_t i = 0; i < x.size(); ++i) CHECK(std::fabs(back[i]) <= 1e-38f);
  }
}

TEST_CASE("a row of equal numbers, and one with a single number, are kept") {
  for (const BlockFormat& f : block_formats()) {
    CAPTURE(f.name);
    for (const float value : {0.7f, -0.7f, 100.0f}) {
      for (const bool single : {false, true}) {
        std::vector<float> x(static_cast<size_t>(f.block), single ? 0.0f : value), back(x.size());
        x[5] = value;
        std::vector<uint8_t> bytes(static_cast<size_t>(f.bytes));
        f.pack(x.data(), 1, bytes.data());
        f.unpack(bytes.data(), 1, back.data());
        for (size_t i = 0; i < x.size(); ++i)
          CHECK(std::fabs(back[i] - x[i]) <= 0.15f * std::fabs(x[i]) + 1e-3f * std::fabs(value));
      }
    }
  }
}
