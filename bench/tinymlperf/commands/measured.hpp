// A match that a command plays on this machine: under the machine's lock, so that a board's worker waits
// until it is over, and with a note of the load of other programs. A command that somebody calls does not
// wait for others; it says who else measures, and plays.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <tinymlperf/support/machine_load.hpp>
#include <tinymlperf/support/machine_lock.hpp>

namespace tinymlperf::detail {

// Calls `play`, and notes other load in the `machine` of the result.
template <class Play>
auto measured(const std::string& purpose, Play&& play,
              const std::filesystem::path& file = MachineLock::usual_file()) {
  std::optional<MachineLock> lock;
  try {
    lock.emplace(purpose, file);
    if (!lock->is_held())
      fmt::print(stderr,
                 "tinymlperf: another match is played on this machine now: {}. Both disturb each other.\n",
                 lock->holder());
  } catch (const std::exception& e) {
    fmt::print(stderr, "tinymlperf: {}; a worker of a board may measure at the same time\n", e.what());
  }
  const LoadMeter meter;
  auto run = play();
  note_other_load(run.machine, meter.others());
  return run;
}

}  // namespace tinymlperf::detail
