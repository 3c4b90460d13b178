// What a test program may be started for instead of its cases: for one, as the worker of a judge.
#pragma once

#include <optional>
#include <vector>

namespace test {

// The exit status; nothing where the arguments ask for something else.
using OtherWork = std::optional<int> (*)(int argc, char** argv);

inline std::vector<OtherWork>& other_works() {
  static std::vector<OtherWork> all;
  return all;
}

}  // namespace test
