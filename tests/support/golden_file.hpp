// Golden values next to the tests: tests/golden/<name>.json, made by make_<name>.py.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <tinytorch/core/error.hpp>
#include <vector>

inline nlohmann::json read_golden(const std::string& name) {
  const auto path = std::filesystem::path(__FILE__).parent_path().parent_path() / "golden" / (name + ".json");
  std::ifstream file(path);
  REQUIRE_MESSAGE(file, "cannot open ", path.string());
  return nlohmann::json::parse(file);
}

// Every element within `tolerance` of its expected value, relative to 1 + its size.
inline void check_values(const std::vector<double>& got, const std::vector<double>& expected,
                         double tolerance) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO("element ", i);
    CHECK(std::abs(got[i] - expected[i]) <= tolerance * (1 + std::abs(expected[i])));
  }
}

// The message of the tinytorch error that f throws, without its "at file:line"; "" when it throws none.
inline std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const tinytorch::Error& e) {
    const std::string text = e.what();
    return text.substr(0, text.rfind("\n  at "));
  }
  return "";
}
