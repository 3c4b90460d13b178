// Learning rate schedules: the rate is a pure function of the step, counted from 0.
//
// The frame of a course header: it has the given parts, and includes the functions of task 3.16. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numbers>
#include <tinytorch/core/error.hpp>

namespace tinytorch::inline TT_BUILD {

using Schedule = std::function<double(int64_t step)>;

inline double cosine_between(double from, double to, double fraction);  // task 3.16

inline Schedule constant(double lr) {
  return [=](int64_t) { return lr; };
}

inline Schedule step_decay(double lr, int64_t every, double gamma = 0.1, TT_LOC);  // task 3.16
// Task 3.16.
inline Schedule cosine(double lr, int64_t total, int64_t warm_up = 0, double lr_end = 0, TT_LOC);

struct OneCycleOptions {
  double rising = 0.3;        // fraction of the steps in which the rate rises
  double start_divisor = 25;  // starts at lr_max / start_divisor
  double end_divisor = 1e4;   // ends at start / end_divisor
};
inline Schedule one_cycle(double lr_max, int64_t total, OneCycleOptions options = {}, TT_LOC);  // task 3.16

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/layers/schedule.hpp>
