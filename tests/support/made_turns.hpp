// Turns of a contender (benchmarking/turns.hpp) whose values are known in advance.
#pragma once

#include <tinytorch/benchmarking/turns.hpp>
#include <vector>

namespace test {

// A turn with ten calls, which take `scale` times 1 .. 10 s.
inline tinytorch::benchmarking::Turn turn(double scale) {
  tinytorch::benchmarking::Turn t{55 * scale, 10, {}};
  for (int i = 10; i > 0; --i) t.latencies.push_back(scale * i);
  return t;
}
inline std::vector<tinytorch::benchmarking::Turn> turns(const std::vector<double>& scales) {
  std::vector<tinytorch::benchmarking::Turn> out;
  for (const double s : scales) out.push_back(turn(s));
  return out;
}

}  // namespace test
