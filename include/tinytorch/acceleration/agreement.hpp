// Agreement: when the results of two ways to compute something are the same.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tinytorch/backend/cpu/loops/pack.hpp>
#include <tinytorch/tensor/tensor.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// The accuracy that a compiled function keeps. With same_bits, all results have the bits of the plain
// operations. With fast, sums over rows may be added in another order, so that a GPU computes a softmax or a
// norm of plain operations in one kernel; results then differ in their last bits.
enum class Math : uint8_t { same_bits, fast };

inline bool same_bits(const Tensor& want, const Tensor& got) {
  const Tensor a = want.detach().to(cpu).contiguous(), b = got.detach().to(cpu).contiguous();
  return a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

// The numbers of a tensor, whatever its dtype and device.
inline std::vector<double> numbers_of(const Tensor& t) {
  const Tensor here = t.detach().to(cpu);
  std::vector<double> x(static_cast<size_t>(here.numel()));
  backend::read_flat(x.data(), here.view_of(), 0, here.numel());
  return x;
}
// Returns the magnitude of ordinary elements, which is 4 times the lower quartile of the magnitudes, without
// zeros and infinities. The few or many elements of -1e9 of a masked matrix do not change it.
inline double scale_of(const std::vector<double>& x) {
  std::vector<double> magnitudes;
  for (const double v : x)
    if (std::isfinite(v) && v != 0) magnitudes.push_back(std::abs(v));
  if (magnitudes.empty()) return 0;
  const auto quartile = magnitudes.begin() + static_cast<ptrdiff_t>(magnitudes.size() / 4);
  std::ranges::nth_element(magnitudes, quartile);
  return 4 * *quartile;
}

// True if shapes and dtypes are equal, and each element is within some units in the last place of the wanted
// one, or of the scale of all elements. NaN equals NaN. `least_scale`: of other tensors beside which this one
// may be rounding errors alone.
inline bool close_enough(const Tensor& want, const Tensor& got, double least_scale = 0) {
  if (!(want.shape() == got.shape()) || want.dtype() != got.dtype()) return false;
  if (!is_floating(want.dtype())) return same_bits(want, got);
  const std::vector<double> a = numbers_of(want), b = numbers_of(got);
  const double scale = std::max(scale_of(a), least_scale);
  const double tolerance = want.dtype() == DType::f64    ? 1e-11
                           : want.dtype() == DType::f32  ? 1e-4
                           : want.dtype() == DType::bf16 ? 3e-2
                                                         : 4e-3;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (!std::isfinite(a[i]) || !(std::abs(a[i] - b[i]) <= tolerance * (std::abs(a[i]) + scale)))
      return false;
  }
  return true;
}

inline bool agree(const Tensor& want, const Tensor& got, Math math, double least_scale = 0) {
  return math == Math::same_bits ? same_bits(want, got) : close_enough(want, got, least_scale);
}

// The mean scale of some gradients. A bias whose gradient is 0 but for rounding is compared with the others.
inline double mean_scale(const Tensors& gradients) {
  double sum = 0;
  for (const Tensor& g : gradients) sum += scale_of(numbers_of(g));
  return gradients.empty() ? 0 : sum / static_cast<double>(gradients.size());
}

}  // namespace tinytorch::inline TT_BUILD
