// The classes of a match: how long it measures, and how many samples are hidden.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tinymlperf::judge {

// How much is measured. The class smoke shows that everything works, and ranks nothing.
struct RunClass {
  const char* name;
  double seconds;   // time of all timed turns of each contender and scenario
  int64_t queries;  // at least, in each turn
  size_t blocks;
  int64_t hidden;        // samples of the hidden set
  double patience = 30;  // seconds without a reply after which a contender is out
  size_t processes = 1;  // processes of each contender, one after the other
  double budget = 300;   // seconds for which the processes of a contender may run in all; then it is out
};
inline constexpr RunClass kSmoke{"smoke", 1, 12, 6, 512}, kRanked{"ranked", 50, 60, 12, 10000, 30, 12, 1800},
    kOfficial{"official", 300, 662, 12, 10000, 30, 12, 3600};
// The classes of `race`. Its two matches take as long as the training of its models. Quick only shows that
// everything works.
inline constexpr RunClass kRace{"race", 1.2, 12, 8, 1024}, kQuick{"quick", 0.1, 8, 6, 256};

}  // namespace tinymlperf::judge
