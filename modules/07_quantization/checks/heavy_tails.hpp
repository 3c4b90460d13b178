// Numbers with heavy tails, like the weights of trained models.
#pragma once

#include <support/check.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace course {

// Student's t with 5 degrees of freedom, [R, K]: normal numbers divided by the root of a mean of five
// squares. The largest of so many numbers differs by a factor of two from one sample to the next, and it
// decides what a scale costs. So this is one sample, whose ratios of signal and error are those of many.
inline std::vector<float> heavy_tails(int64_t R, int64_t K, uint64_t sample = 4) {
  std::mt19937_64 source(sample);
  double second = 0;
  bool has_second = false;
  const auto normal = [&] {  // Box and Muller; the distributions of the standard differ between libraries
    if (has_second) return has_second = false, second;
    const double u = (static_cast<double>(source() >> 11) + 1) * 0x1p-53,
                 v = static_cast<double>(source() >> 11) * 0x1p-53;
    const double radius = std::sqrt(-2 * std::log(u)), angle = 6.283185307179586 * v;
    second = radius * std::sin(angle), has_second = true;
    return radius * std::cos(angle);
  };
  std::vector<float> values(static_cast<size_t>(R * K));
  for (float& x : values) {
    double squares = 0;
    for (int k = 0; k < 5; ++k) {
      const double z = normal();
      squares += z * z;
    }
    x = static_cast<float>(normal() / std::sqrt(squares / 5));
  }
  return values;
}

}  // namespace course
