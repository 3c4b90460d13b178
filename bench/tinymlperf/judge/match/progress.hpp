// Progress of a match, which watchers receive between blocks, when every contender is stopped.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>
#include <tinymlperf/judge/scenarios/scenario.hpp>

namespace tinymlperf::judge {

// The next block of turns, or the audits of one contender.
struct Progress {
  Scenario scenario;
  size_t done = 0, steps = 0;    // steps: all blocks, then each contender's audits
  size_t block = 0, blocks = 0;  // from 1 on; 0 for audits
  std::string_view auditee;      // whose audits; empty: a block
  double share() const { return static_cast<double>(done) / static_cast<double>(steps); }
  std::string text() const {
    return std::string(name_of(scenario)) + ": " +
           (block > 0 ? fmt::format("block {} of {}", block, blocks) : fmt::format("audits of {}", auditee));
  }
};
using Watcher = std::function<void(const Progress&)>;

}  // namespace tinymlperf::judge
