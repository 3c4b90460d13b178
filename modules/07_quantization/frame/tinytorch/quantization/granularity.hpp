// Granularity: which values share a scale. A matrix [N, K] has one scale in all, one for each row, or one for
// each group of consecutive values of a row.
//
// The frame of a course header: it has the given parts, and includes the functions of task 7.2. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <optional>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/quantization/observers.hpp>

namespace tinytorch::inline TT_BUILD {

enum class Granularity : uint8_t { tensor, row, group, token = row };

// The rule by which a scale follows from the values that share it.
enum class Fit : uint8_t {
  absmax,      // symmetric: max|x| gets the largest code, +high or -high
  signed_max,  // the value of largest magnitude gets the code -2^(b-1), which has one more step; scale < 0 if
               // it is positive. ggml's Q4_0 is this with 4 bits.
  minmax,      // affine codes with a zero point, from the smallest to the largest value
  mse          // as signed_max, with the scale of least squared error (mse_scale): large values are clipped
};

struct ScaleOptions {
  int bits = 8;  // 2 to 8
  Granularity granularity = Granularity::row;
  int64_t group = 32;  // values that share a scale, for Granularity::group; the last group may be shorter
  Fit fit = Fit::absmax;
  DType scale_dtype = DType::f32;  // scales are rounded to this type before codes are computed
};

// Codes of x [..., K] with R rows, one byte a code, and their scales. Not packed: a format packs them.
struct ScaledCodes {
  Tensor codes;        // i8 (u8 for Fit::minmax), the shape of x
  Tensor scales;       // f32 [1, 1], [R, 1] or [R, K / group rounded up], by granularity
  Tensor zero_points;  // i32, the shape of scales; undefined if all are 0
  int64_t group = 0;   // consecutive values of a row that share a scale; K unless by group
  int bits = 8;

  AffineScale scale_at(int64_t r, int64_t k) const;  // task 7.2
};

inline void require_scale_options(const char* op, const ScaleOptions& o, Loc loc) {
  require_bits(op, o.bits, loc);
  if (o.group < 1 || !is_floating(o.scale_dtype)) {
    fail("TT-CALIB-03",
         std::string(op) + ": a group has at least 1 value and scales are floating, got groups of " +
             std::to_string(o.group) + " and " + name_of(o.scale_dtype),
         loc);
  }
}

// x rounded to `dtype`. A scale below its smallest number becomes that number, so that it is never 0.
inline float scale_as(float x, DType dtype, Loc loc) {
  if (!is_16_bit(dtype)) return x;
  const bool half = dtype == DType::f16;
  const float rounded = half ? static_cast<float>(Half(x)) : static_cast<float>(BFloat16(x));
  if (std::isinf(rounded)) {
    fail("TT-CALIB-03",
         "the scale " + std::to_string(x) + " overflows " + name_of(dtype) +
             "\n  hint: use scales of f32, or divide the weights by a power of two",
         loc);
  }
  const float least = half ? 0x1p-24f : std::numeric_limits<float>::min();
  return std::abs(rounded) >= least ? rounded : std::copysign(least, x);
}

inline std::vector<CountedValue> counted(std::span<const float> values) {
  std::vector<CountedValue> out;
  for (const float x : values) out.push_back({x, 1});
  return out;
}

// The scale for values that share one. Throws TT-CALIB-01 if a value is not finite.
inline AffineScale fit_scale(std::span<const float> values, const ScaleOptions& o, TT_LOC) {
  const Range r = range_of("fit_scale", values, loc);
  AffineScale s;
  if (o.fit == Fit::signed_max || o.fit == Fit::mse) {
    require_bits("fit_scale", o.bits, loc);
    s.low = -(1 << (o.bits - 1)), s.high = -s.low - 1;
    const float extreme = -r.min >= r.max ? r.min : r.max;
    if (extreme != 0) {
      const float least = std::numeric_limits<float>::min();
      s.scale = std::copysign(std::max(std::abs(extreme) / static_cast<float>(-s.low), least), -extreme);
    }
    if (o.fit == Fit::mse) s = mse_scale(counted(values), s);
  } else {
    s = choose_scale(r.min, r.max, o.bits, o.fit == Fit::absmax, loc);
  }
  s.scale = scale_as(s.scale, o.scale_dtype, loc);
  if (o.fit == Fit::minmax) s.zero_point = zero_point_from(std::min(r.min, 0.0f), s);  // of the rounded scale
  return s;
}

// Codes and scales for x of this shape, not yet computed.
inline ScaledCodes empty_codes(const Shape& shape, const ScaleOptions& o, Loc loc) {
  ScaledCodes out;
  const int64_t K = shape.back(), R = K == 0 ? 0 : shape.numel() / K;
  out.bits = o.bits;
  out.group = o.granularity == Granularity::group ? o.group : std::max<int64_t>(K, 1);
  out.codes = empty(shape, o.fit == Fit::minmax ? DType::u8 : DType::i8, cpu, loc);
  const bool one = o.granularity == Granularity::tensor;
  const Shape scales{one ? 1 : R, one ? 1 : ceil_div(K, out.group)};
  out.scales = ones(scales, DType::f32, cpu, loc);
  if (o.fit == Fit::minmax) out.zero_points = zeros(scales, DType::i32, cpu, loc);
  return out;
}

// Writes the scale number `at` and the codes of `values`, which share it; `first` is the place of the first.
inline void write_codes(const ScaledCodes& out, int64_t at, const AffineScale& s, int64_t first,
                        std::span<const float> values) {
  out.scales.data<float>()[at] = s.scale;
  if (out.zero_points.defined()) out.zero_points.data<int32_t>()[at] = s.zero_point;
  auto* const to = static_cast<uint8_t*>(out.codes.raw()) + first;  // two's complement: i8 has the same bits
  for (size_t i = 0; i < values.size(); ++i) to[i] = static_cast<uint8_t>(quantize_value(values[i], s));
}

inline ScaledCodes scaled_codes(const Tensor& x, const ScaleOptions& o, TT_LOC);  // task 7.2

// The values f32 of the codes, in their shape.
inline Tensor dequantize(const ScaledCodes& q, TT_LOC) {
  const Tensor values = empty(q.codes.shape(loc), DType::f32, cpu, loc);
  if (values.numel() == 0) return values;
  const int64_t K = values.size(-1);
  const auto* const from = static_cast<const uint8_t*>(q.codes.raw(loc));
  const bool is_signed = q.codes.dtype() == DType::i8;
  float* const to = values.data<float>();
  for (int64_t i = 0; i < values.numel(); ++i) {
    const int32_t code = is_signed ? static_cast<int8_t>(from[i]) : from[i];
    to[i] = dequantize_value(code, q.scale_at(i / K, i % K));
  }
  return values;
}

inline int64_t stored_bytes(const Shape& shape, const ScaleOptions& o, TT_LOC);       // task 7.2
inline double sqnr_db(const Tensor& reference, const Tensor& approximation, TT_LOC);  // task 7.2

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/quantization/granularity.hpp>
