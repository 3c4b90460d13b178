// Amdahl's law: what the whole gains when a part of it becomes faster, and whether it did.
// What is left alone takes as long as before, so it alone bounds the gain.
// Source: Amdahl, "Validity of the single processor approach", AFIPS 1967.
#pragma once

#include <limits>
#include <string>
#include <tinytorch/profiling/profile.hpp>

namespace tinytorch::inline TT_BUILD::profiling {

// What the whole gains if `share` of its time, from 0 to 1, becomes `factor` times as fast; the rest stays.
inline double amdahl_speedup(double share, double factor) {
  return 1 / ((1 - share) + share / factor);  // the old time is 1, the new one the sum of both parts
}
// The same if that part took no time at all.
inline double amdahl_bound(double share) {
  return share < 1 ? 1 / (1 - share) : std::numeric_limits<double>::infinity();
}

// Time in a table's rows of that name, forward and backward.
inline double seconds_in(const ProfileTable& table, const std::string& name) {
  double seconds = 0;
  for (const ProfileRow& row : table) seconds += row.name == name ? row.seconds : 0;
  return seconds;
}

// A change of one part, as the profiles before and after it tell.
struct AmdahlCheck {
  double share = 0;      // of the part, before
  double factor = 0;     // how much faster the part became
  double bound = 0;      // of the whole, had the part become free
  double predicted = 0;  // of the whole, by the law
  double measured = 0;   // of the whole
  // Seconds that the rest changed, which the law takes for constant; above 0: it became slower.
  double rest_seconds = 0;
};

// Shares are of the whole's time, `seconds` of a profile, in which the time between ops is contained. A part
// that takes no time any more became infinitely faster. TT-PROF-01 where no op of that name took time before.
inline AmdahlCheck check_amdahl(const Profile& before, const Profile& after, const std::string& op) {
  const double part = seconds_in(by_op(before), op), part_after = seconds_in(by_op(after), op);
  if (!(part > 0)) fail("TT-PROF-01", "check_amdahl: no op is called '" + op + "' in the profile before");
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
