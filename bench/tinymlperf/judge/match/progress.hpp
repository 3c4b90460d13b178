// Where a match stands: what who watches is told, between blocks alone, when everybody is held.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>
#include <tinymlperf/judge/scenarios/scenario.hpp>

namespace tinymlperf::judge {

// A block of turns, or the audits of one contender, is about to begin.
struct Progress {
  Scenario scenario;
  size_t done = 0, steps = 0;    // steps: all blocks, then each contender's audits
  size_t block = 0, blocks = 0;  // from 1 on; of audits 0
  std::string_view auditee;      // whose audits; empty: a block of all
  double share() const { return static_cast<double>(done) / static_cast<double>(steps); }
  std::string text() const {
    return std::string(name_of(scenario)) + ": " +
           (block > 0 ? fmt::format("block {} of {}", block, blocks) : fmt::format("audits of {}", auditee));
  }
};
using Watcher = std::function<void(const Progress&)>;

}  // namespace tinymlperf::judge
