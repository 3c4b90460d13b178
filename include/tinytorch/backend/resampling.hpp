// Resampling of one dimension to another size, for both backends: the two elements between which an output
// lies, and the weight of the second one.
#pragma once

#include <cstdint>
#include <tinytorch/core/config.hpp>

namespace tinytorch::inline TT_BUILD::backend {

struct ResampledElement {
  int64_t low, high;  // equal at the last element, and for `nearest`
  double fraction;    // of `high`
};

struct Resampling {
  int64_t inputs = 1, outputs = 1;
  double step = 1;  // distance between the sources of two outputs
  bool nearest = true;
  bool from_first = true;  // the source of output i is i step; otherwise (i + 0.5) step - 0.5

  TT_HOST_DEVICE ResampledElement at(int64_t i) const {
    const double centered = (static_cast<double>(i) + 0.5) * step - 0.5;
    const double source = from_first ? static_cast<double>(i) * step : centered < 0 ? 0.0 : centered;
    const int64_t last = inputs - 1, floor = static_cast<int64_t>(source), low = floor < last ? floor : last;
    if (nearest) return {low, low, 0};
    return {low, low < last ? low + 1 : last, source - static_cast<double>(low)};
  }
};

// Both dimensions of planes [N, H, W]. Sequences are planes with one row.
struct PlaneResampling {
  Resampling rows, columns;
};

}  // namespace tinytorch::inline TT_BUILD::backend
