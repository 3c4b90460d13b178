// The scale of a row of 8-bit codes, for both backends: code = rounded(x / scale), with the row's largest
// magnitude at the largest code.
//
//   int8_t   integers from -127 to 127, half to even: symmetric, so that 0 has the code 0 and -128 is unused
//   Float8   fp8 e4m3, largest 448
//
// All steps are in f32 in a fixed order without an addition, so that no compiler fuses them: the CPU and CUDA
// give the same bits. A row of zeros has scale 0. A row with a NaN or an infinity has scale NaN and codes 0:
// what is computed from it becomes NaN, where clipped codes would hide the fault.
#pragma once

#include <limits>
#include <tinytorch/backend/kv_format.hpp>

namespace tinytorch::inline TT_BUILD::backend {

template <class Code>
inline constexpr float kLargestCode = Code::kLargest;
template <>
inline constexpr float kLargestCode<int8_t> = 127;

struct RowScale {
  float scale;  // of the row: x is about code * scale
  float up,
      inverse;  // x up inverse is the number that is rounded to a code; up is 0 if a number is not finite

  // Rows of tiny numbers are multiplied by 2^64 first, because 127 / largest would be infinite.
  template <class Code>
  static TT_HOST_DEVICE constexpr RowScale of(float largest) {
    constexpr float kTop = kLargestCode<Code>;
    if (!(largest <= std::numeric_limits<float>::max()))
      return {std::numeric_limits<float>::quiet_NaN(), 0, 0};
    const float up = largest < 0x1p-100f ? 0x1p64f : 1.0f;
    return {largest / kTop, up, largest > 0 ? kTop / (largest * up) : 0.0f};
  }
  TT_HOST_DEVICE constexpr float number(float x) const { return (up > 0 ? x : 0.0f) * up * inverse; }
};

}  // namespace tinytorch::inline TT_BUILD::backend
