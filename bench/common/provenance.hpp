// What a file of results says of where it was measured, and of which commit.
#pragma once

#include <nlohmann/json.hpp>
#include <tinymlperf/support/machine.hpp>

namespace tinymlperf {
extern const char* const kCommit;  // written by each build; "" where it was built without .git
}

namespace bench {

inline nlohmann::json provenance() {
  nlohmann::json machine = tinymlperf::to_json(tinymlperf::describe_machine());
  machine["commit"] = *tinymlperf::kCommit ? nlohmann::json(tinymlperf::kCommit) : nlohmann::json();
  return machine;
}

}  // namespace bench
