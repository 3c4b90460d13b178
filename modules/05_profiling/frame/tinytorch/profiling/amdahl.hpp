// Amdahl's law: the speedup of a whole program when a part of it becomes faster, and a check of it by
// profiles. The unchanged rest takes as long as before, so it bounds the speedup.
// Source: Amdahl, "Validity of the single processor approach", AFIPS 1967.
//
// The frame of a course header: it has the given parts, and includes the functions of task 5.7. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <limits>
#include <string>
#include <tinytorch/profiling/profile.hpp>

namespace tinytorch::inline TT_BUILD::profiling {

inline double amdahl_speedup(double share, double factor);                     // task 5.7
inline double amdahl_bound(double share);                                      // task 5.7
inline double seconds_in(const ProfileTable& table, const std::string& name);  // task 5.7

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

// Task 5.7.
inline AmdahlCheck check_amdahl(const Profile& before, const Profile& after, const std::string& op);

}  // namespace tinytorch::inline TT_BUILD::profiling

#include <tasks/profiling/amdahl.hpp>
