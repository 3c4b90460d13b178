// Affine quantization: a real number as a small integer, with one scale and one zero point.
//
//   code  = clamp(round(x / scale) + zero_point, low, high)        value = scale * (code - zero_point)
//
// Halfway values round to even, and values outside the range saturate. The range always contains 0, and
// zero_point is an integer, so 0.0 is a code's exact value: padding and ReLU's zeros stay zeros. Inside the
// range the error is at most scale / 2. A NaN among the values gets the code of 0.0, as in every conversion
// to integers of this library; a NaN or an infinity in the range itself is an error.
// Source: Jacob et al., "Quantization and training of neural networks for efficient integer-arithmetic-only
// inference", 2018.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <tinytorch/tensor/ops.hpp>
#include <tinytorch/tensor/rules.hpp>

namespace tinytorch::inline TT_BUILD {

struct Range {
  float min = 0, max = 0;
};

// Symmetric codes of b bits lie in [-(2^(b-1) - 1), 2^(b-1) - 1] with zero point 0; affine codes lie in
// [0, 2^b - 1]. Symmetric products need no correction for the zero points.
struct AffineScale {
  float scale = 1;
  int32_t zero_point = 0;
  int32_t low = -127, high = 127;

  DType code_dtype() const { return low < 0 ? DType::i8 : DType::u8; }
};

inline void require_bits(const char* op, int bits, Loc loc) {
  if (bits >= 2 && bits <= 8) return;
  fail("TT-CALIB-03", std::string(op) + ": codes have 2 to 8 bits, got " + std::to_string(bits), loc);
}

// The code of 0.0 in affine codes that begin at `least` <= 0.
inline int32_t zero_point_from(double least, const AffineScale& s) {
  const double zero = std::nearbyint(-least / static_cast<double>(s.scale));
  return static_cast<int32_t>(std::clamp<double>(zero, s.low, s.high));
}

// The scale whose codes cover [min, max] and 0. A range without extent, such as [0, 0], gets scale 1. Throws
// TT-CALIB-01 if min or max is not finite or min > max, and TT-CALIB-03 unless bits are 2 to 8.
inline AffineScale choose_scale(float min, float max, int bits = 8, bool symmetric = true, TT_LOC) {
  require_bits("choose_scale", bits, loc);
  if (!std::isfinite(min) || !std::isfinite(max) || min > max) {
    fail("TT-CALIB-01",
         "choose_scale: the range [" + std::to_string(min) + ", " + std::to_string(max) +
             "] has no scale\n  rule: min <= max, and both are finite",
         loc);
  }
  const double least = std::min(min, 0.0f), largest = std::max(max, 0.0f);
  AffineScale s;
  s.high = symmetric ? (1 << (bits - 1)) - 1 : (1 << bits) - 1;
  s.low = symmetric ? -s.high : 0;
  const double extent = symmetric ? std::max(-least, largest) : largest - least;
  if (extent == 0) return s;
  // A scale below the smallest normal float would lose its digits.
  s.scale = std::max(static_cast<float>(extent / s.high), std::numeric_limits<float>::min());
  if (!symmetric) s.zero_point = zero_point_from(least, s);
  return s;
}

inline int32_t quantize_value(float x, const AffineScale& s) {
  if (std::isnan(x)) return s.zero_point;
  const float code = std::nearbyint(x / s.scale) + static_cast<float>(s.zero_point);
  return static_cast<int32_t>(std::clamp(code, static_cast<float>(s.low), static_cast<float>(s.high)));
}
inline float dequantize_value(int32_t code, const AffineScale& s) {
  return s.scale * static_cast<float>(code - s.zero_point);
}

// The values of a floating tensor as contiguous f32 on the CPU, where all calibration is computed.
inline Tensor calibration_values(const char* op, const Tensor& x, Loc loc) {
  require_defined(op, loc, x);
  require_floating(op, x, loc);
  return x.detach().to(cpu, loc).to(DType::f32, loc).contiguous(loc);
}

// x of any shape and floating dtype -> codes of the same shape and device: i8 if s.low < 0, else u8. Throws
// TT-CALIB-03 if s is no scale: 0, not finite, or with codes that do not fit a byte.
inline Tensor quantize(const Tensor& x, const AffineScale& s, TT_LOC) {
  const Tensor values = calibration_values("quantize", x, loc);
  const int32_t least = s.low < 0 ? -128 : 0, most = s.low < 0 ? 127 : 255;
  if (!std::isfinite(s.scale) || s.scale == 0 || s.low < least || s.high > most || s.zero_point < s.low ||
      s.zero_point > s.high) {
    fail("TT-CALIB-03",
         "quantize: scale " + std::to_string(s.scale) + " with zero point " + std::to_string(s.zero_point) +
             " and codes [" + std::to_string(s.low) + ", " + std::to_string(s.high) +
             "]\n  rule: a finite scale other than 0; low <= zero_point <= high; codes fit i8 or u8",
         loc);
  }
  const Tensor codes = empty(values.shape(), s.code_dtype(), cpu, loc);
  const float* const from = values.data<float>();
  dispatch(codes.dtype(), [&]<class T>(T*) {
    if constexpr (std::is_same_v<T, int8_t> || std::is_same_v<T, uint8_t>) {
      T* const to = codes.data<T>();
      for (int64_t i = 0; i < codes.numel(); ++i) to[i] = static_cast<T>(quantize_value(from[i], s));
    }
  });
  return codes.to(x.device(), loc);
}

// Codes i8 or u8 -> values f32 of the same shape and device.
inline Tensor dequantize(const Tensor& codes, const AffineScale& s, TT_LOC) {
  require_defined("dequantize", loc, codes);
  if (codes.dtype() != DType::i8 && codes.dtype() != DType::u8) {
    fail("TT-DTYPE-01", "dequantize: codes are i8 or u8, got " + codes.describe(), loc);
  }
  return (codes.to(DType::f32, loc) - static_cast<double>(s.zero_point)) * static_cast<double>(s.scale);
}

}  // namespace tinytorch::inline TT_BUILD
