// Agreement: when the results of two ways to compute something are the same.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tinytorch/backend/cpu/loops/pack.hpp>
#include <tinytorch/tensor/tensor.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// What a compiled function may change. same_bits: nothing. fast: the order of sums over rows, so that a GPU
// computes a softmax or a norm of plain operations in one kernel; results differ in their last bits.
enum class Math : uint8_t { same_bits, fast };

inline bool same_bits(const Tensor& want, const Tensor& got) {
  const Tensor a = want.detach().to(cpu).contiguous(), b = got.detach().to(cpu).contiguous();
  return a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

// True if shapes and dtypes are equal, and each element is within some units in the last place of the wanted
// one, or of the mean magnitude of all. NaN equals NaN.
inline bool close_enough(const Tensor& want, const Tensor& got) {
  if (!(want.shape() == got.shape()) || want.dtype() != got.dtype()) return false;
  if (!is_floating(want.dtype())) return same_bits(want, got);
  const auto numbers = [](const Tensor& t) {
    const Tensor here = t.detach().to(cpu);
    std::vector<double> x(static_cast<size_t>(here.numel()));
    backend::read_flat(x.data(), here.view_of(), 0, here.numel());
    return x;
  };
  const std::vector<double> a = numbers(want), b = numbers(got);
  double sum = 0;
  size_t finite = 0;
  for (const double x : a)
    if (std::isfinite(x)) sum += std::abs(x), ++finite;
  const double mean = finite > 0 ? sum / static_cast<double>(finite) : 0;
  const double tolerance = want.dtype() == DType::f64    ? 1e-11
                           : want.dtype() == DType::f32  ? 1e-4
                           : want.dtype() == DType::bf16 ? 3e-2
                                                         : 4e-3;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (!std::isfinite(a[i]) || !(std::abs(a[i] - b[i]) <= tolerance * (std::abs(a[i]) + mean))) return false;
  }
  return true;
}

inline bool agree(const Tensor& want, const Tensor& got, Math math) {
  return math == Math::same_bits ? same_bits(want, got) : close_enough(want, got);
}

}  // namespace tinytorch::inline TT_BUILD
