// Error of a number in units in the last place (ulp) of the exact value. Below the smallest normal number,
// the ulp of that number is the unit.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace bench {

// Infinity if just one of the two is NaN, or if just one rounds to that infinity.
template <class T, class Wide>
double ulps(T got, Wide exact) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  if (std::isnan(exact)) return std::isnan(got) ? 0 : std::numeric_limits<double>::infinity();
  const T rounded = static_cast<T>(exact);
  if (!std::isfinite(rounded) || !std::isfinite(got))
    return got == rounded ? 0 : std::numeric_limits<double>::infinity();
  const T size = std::max(std::abs(rounded), std::numeric_limits<T>::min());
  const T unit = std::nextafter(size, kInfinity) - size;
  return std::abs(static_cast<double>((static_cast<Wide>(got) - exact) / static_cast<Wide>(unit)));
}

}  // namespace bench
