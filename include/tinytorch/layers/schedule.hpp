// Learning rate schedules: the rate is a pure function of the step, counted from 0.
//
//   tt::Schedule schedule = tt::one_cycle(0.01, total_steps);
//   optimizer.set_lr(schedule(step));
//
// A pure function has no state, so a run that resumes at step n needs only n.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numbers>
#include <tinytorch/core/error.hpp>

namespace tinytorch::inline TT_BUILD {

using Schedule = std::function<double(int64_t step)>;

// Half a cosine from `from` at fraction 0 to `to` at fraction 1.
inline double cosine_between(double from, double to, double fraction) {
  return to + (from - to) * 0.5 * (1 + std::cos(std::numbers::pi * fraction));
}

inline Schedule constant(double lr) {
  return [=](int64_t) { return lr; };
}

// lr gamma^floor(step / every). Throws TT-OPT-08 if `every` is less than one step.
inline Schedule step_decay(double lr, int64_t every, double gamma = 0.1, TT_LOC) {
  if (every < 1) fail("TT-OPT-08", "step_decay: `every` must be at least one step", loc);
  return [=](int64_t step) { return lr * std::pow(gamma, static_cast<double>(step / every)); };
}

// Rises linearly for `warm_up` steps, from lr / warm_up at step 0 to lr at step warm_up - 1. Then it falls
// along half a cosine, from lr at step warm_up to lr_end at step `total`, and stays there. Throws TT-OPT-08
// unless 0 <= warm_up < total.
// Source: Loshchilov and Hutter, "SGDR", 2017.
inline Schedule cosine(double lr, int64_t total, int64_t warm_up = 0, double lr_end = 0, TT_LOC) {
  if (warm_up < 0 || total <= warm_up) {
    fail("TT-OPT-08", "cosine: needs 0 <= warm_up < total, in steps", loc);
  }
  return [=](int64_t step) {
    if (step < warm_up) return lr * static_cast<double>(step + 1) / static_cast<double>(warm_up);
    const double fraction = static_cast<double>(step - warm_up) / static_cast<double>(total - warm_up);
    return cosine_between(lr, lr_end, std::min(fraction, 1.0));
  };
}

struct OneCycleOptions {
  double rising = 0.3;        // fraction of the steps in which the rate rises
  double start_divisor = 25;  // starts at lr_max / start_divisor
  double end_divisor = 1e4;   // ends at start / end_divisor
};
// Rises from lr_max / start_divisor at step 0 to lr_max at step rising * total - 1, which may lie between two
// steps. Then it falls to the end rate, the first rate / end_divisor, at the last step, total - 1, and stays
// there. Both parts are half a cosine. A peak at step 0 means that the cycle begins with lr_max. Throws
// TT-OPT-08 if there are fewer than two steps, or `rising` is not inside (0, 1).
// Source: Smith and Topin, "Super-convergence", 2018.
inline Schedule one_cycle(double lr_max, int64_t total, OneCycleOptions options = {}, TT_LOC) {
  if (total < 2 || !(options.rising > 0 && options.rising < 1)) {
    fail("TT-OPT-08", "one_cycle: needs at least two steps, and `rising` inside (0, 1)", loc);
  }
  const double lr_start = lr_max / options.start_divisor, lr_end = lr_start / options.end_divisor;
  const double peak = options.rising * static_cast<double>(total) - 1, last = static_cast<double>(total - 1);
  return [=](int64_t step) {
    const double s = std::min(static_cast<double>(step), last);
    if (s <= peak) return cosine_between(lr_start, lr_max, peak > 0 ? s / peak : 1.0);
    return cosine_between(lr_max, lr_end, (s - peak) / (last - peak));
  };
}

}  // namespace tinytorch::inline TT_BUILD
