// The error of a number in units of the last place of the exact value, below the smallest normal number in
// its unit.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace bench {

// Infinite where one of the two is NaN, or an infinity that the other does not round to.
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
