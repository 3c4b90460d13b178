// The smallest entry for the digits: a file with one untrained linear layer.
#pragma once

#include <filesystem>
#include <string>
#include <tinymlperf/entries/load.hpp>
#include <tinymlperf/entries/network.hpp>

namespace test {

inline tinymlperf::EntrySpec linear_spec(const std::string& name) {
  return tinymlperf::parse_entry(R"({"schema": 1, "name": ")" + name +
                                 R"(", "input": [1, 28, 28], "classes": 10,
                        "layers": [{"type": "flatten"}, {"type": "linear", "in": 784, "out": 10}]})");
}

inline void put_entry(const std::filesystem::path& folder, const std::string& name, uint64_t seed) {
  tinytorch::Generator random(seed);
  const tinymlperf::EntrySpec spec = linear_spec(name);
  tinymlperf::save_entry(folder, spec, tinymlperf::build_layers(spec, random)->state_dict());
}

}  // namespace test
