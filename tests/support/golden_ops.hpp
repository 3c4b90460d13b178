// Inputs and values of every operation in PyTorch: tests/golden/ops.safetensors, which golden/make_ops.py
// writes. A case is named by the text of its call (support/op_case.hpp), a label, and the roles x, y, ... of
// its tensors.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tinytorch/tinytorch.hpp>
#include <tree/source_folder.hpp>

namespace golden {

using Golden = std::map<std::string, tinytorch::Tensor>;                   // role -> tensor
using GoldenCases = std::map<std::string, std::map<std::string, Golden>>;  // call -> label -> roles

// The text of a file of this source tree.
inline std::string read_all(const std::filesystem::path& path) {
  std::ifstream file(tinytorch_tree::kSourceFolder / path, std::ios::binary);
  REQUIRE_MESSAGE(file.good(), path);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::string without_spaces(std::string s) {
  std::erase(s, ' ');
  return s;
}

// Reads the file without io/, so that an error in io/ cannot hide an error here.
inline GoldenCases load_ops() {
  using namespace tinytorch;
  const std::string bytes = read_all("tests/golden/ops.safetensors");
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::map<std::string, DType> types = {{"F32", f32}, {"F64", f64}, {"BF16", bf16},
                                              {"F16", f16}, {"I8", i8},   {"U8", u8},
                                              {"I32", i32}, {"I64", i64}, {"BOOL", boolean}};
  GoldenCases cases;
  const nlohmann::json index = nlohmann::json::parse(bytes.substr(8, header));
  for (const auto& [key, entry] : index.items()) {
    if (key == "__metadata__") continue;
    Shape shape;
    for (int64_t size : entry.at("shape")) shape.push_back(size);
    Tensor t = empty(shape, types.at(entry.at("dtype")), cpu);
    std::memcpy(t.raw(), bytes.data() + 8 + header + entry.at("data_offsets")[0].get<size_t>(), t.bytes());
    const size_t bar = key.find('|'), second = key.find('|', bar + 1);
    cases[without_spaces(key.substr(0, bar))][key.substr(bar + 1, second - bar - 1)][key.substr(second + 1)] =
        t.to(default_device());
  }
  return cases;
}

}  // namespace golden
