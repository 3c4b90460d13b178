// Other work for which a test program may be started instead of its cases, for example as the worker of a
// judge.
#pragma once

#include <optional>
#include <vector>

namespace test {

// Returns the exit status, or nothing if the arguments do not ask for other work.
using OtherWork = std::optional<int> (*)(int argc, char** argv);

inline std::vector<OtherWork>& other_works() {
  static std::vector<OtherWork> all;
  return all;
}

}  // namespace test
