// Amdahl's law: the speedup of a whole program when a part of it becomes faster, and a check of it by
// profiles. The unchanged rest takes as long as before, so it bounds the speedup.
// Source: Amdahl, "Validity of the single processor approach", AFIPS 1967.
#pragma once

#include <limits>
#include <string>
#include <tinytorch/profiling/profile.hpp>

namespace tinytorch::inline TT_BUILD::profiling {

// The speedup of the whole if a fraction `share` of its time, from 0 to 1, becomes `factor` times as fast.
inline double amdahl_speedup(double share, double factor) {
  return 1 / ((1 - share) + share / factor);  // the old time is 1, the new one the sum of both parts
}
// The speedup of the whole if that part took no time.
inline double amdahl_bound(double share) {
  return share < 1 ? 1 / (1 - share) : std::numeric_limits<double>::infinity();
}

// The seconds of a table's rows with that name, forward and backward.
inline double seconds_in(const ProfileTable& table, const std::string& name) {
  double seconds = 0;
  for (const ProfileRow& row : table) seconds += row.name == name ? row.seconds : 0;
  return seconds;
}

// A change of one part, computed from the profiles before and after it.
struct AmdahlCheck {
  double share = 0;      // fraction of the part in the time before
  double factor = 0;     // speedup of the part
  double bound = 0;      // upper bound of the whole's speedup
  double predicted = 0;  // the whole's speedup by the law
  double measured = 0;   // the whole's speedup as measured
  // Change of the rest's time in seconds, which the law assumes to be 0; above 0: the rest became slower.
  double rest_seconds = 0;
};

// The time of the part is that of the rows named `op` in by_op(profile), the table of a profile. Fractions
// are relative to the `seconds` of a profile, which include the time between ops. The factor of a
// part that takes no time after the change is infinite. Throws TT-PROF-01 if no op of that name took time
// before.
inline AmdahlCheck check_amdahl(const Profile& before, const Profile& after, const std::string& op) {
  const double part = seconds_in(by_op(before), op), part_after = seconds_in(by_op(after), op);
  if (!(part > 0))
    fail("TT-PROF-01", "check_amdahl: the profile before the change has no time in an op named '" + op + "'");
  AmdahlCheck c;
  c.share = part / before.seconds;
  c.factor = part_after > 0 ? part / part_after : std::numeric_limits<double>::infinity();
  c.bound = amdahl_bound(c.share);
  c.predicted = amdahl_speedup(c.share, c.factor);
  c.measured = before.seconds / after.seconds;
  c.rest_seconds = (after.seconds - part_after) - (before.seconds - part);
  return c;
}

}  // namespace tinytorch::inline TT_BUILD::profiling
