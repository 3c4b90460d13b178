// Golden values next to the tests: tests/golden/<name>.json, made by make_<name>.py.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

inline nlohmann::json read_golden(const std::string& name) {
  const auto path = std::filesystem::path(__FILE__).parent_path().parent_path() / "golden" / (name + ".json");
  std::ifstream file(path);
  REQUIRE_MESSAGE(file, "cannot open ", path.string());
  return nlohmann::json::parse(file);
}
