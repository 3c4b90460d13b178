// Commands of the worker processes that the judge starts for device code:
//
//   worker FOLDER --compile sm_90a     compiles a plan's sources to the working directory
//   worker FOLDER --device             answers queries; FOLDER holds a compiled plan, or is the word library
//   worker FOLDER --device --check once|twice --seed N
//                                      checks a compiled plan (device_check.hpp)
#pragma once

#include <fmt/format.h>

#include <tinymlperf/device/device_check.hpp>
#include <tinymlperf/device/device_worker.hpp>

namespace tinymlperf::device {

// Runs one of these commands and returns its exit status. Returns nothing if the arguments are none of them.
inline std::optional<int> maybe_work(int argc, char** argv) {
  const std::vector<std::string> args(argv, argv + argc);
  if (args.size() < 4 || args[1] != "worker") return std::nullopt;
  try {
    if (args.size() == 5 && args[3] == "--compile") return compile_plan(args[2], args[4], "."), 0;
    if (args.size() == 4 && args[3] == "--device") return serve_device_worker(args[2]);
    if (args.size() == 8 && args[4] == "--check" && args[6] == "--seed")
      return check_plan(args[2], args[5] == "once" ? Check::once : Check::twice, std::stoull(args[7])), 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
  return std::nullopt;
}

}  // namespace tinymlperf::device
