// Granularity: which values share a scale. A matrix [N, K] has one scale in all, one for each row, or one for
// each group of consecutive values of a row.
//
// One large value makes the scale of everything that shares it coarse, so smaller shares have smaller errors:
// for heavy-tailed weights 8 bits give 19 dB with one scale, 33 dB by rows of 4096, and 43 dB by groups
// of 32. A scale costs bytes: 16 bits for each 32 values are half a bit a value. A row of weights makes one
// output, and a row of activations is one token, so scales by row leave the integer sum of a product whole.
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

  // The scale of row r and column k. Codes outside [low, high] do not occur.
  AffineScale scale_at(int64_t r, int64_t k) const {
    const int64_t G = scales.size(1), at = (scales.size(0) == 1 ? 0 : r * G) + (G == 1 ? 0 : k / group);
    const int32_t half = 1 << (bits - 1);
    AffineScale s{scales.data<float>()[at], 0, -half, half - 1};
    if (zero_points.defined()) s = {s.scale, zero_points.data<int32_t>()[at], 0, 2 * half - 1};
    return s;
  }
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

// x [..., K], floating -> codes and scales on the CPU. Throws TT-CALIB-01 if a value is not finite, because
// the scale that it shares would be lost, and TT-CALIB-03 for options out of range.
inline ScaledCodes scaled_codes(const Tensor& x, const ScaleOptions& o, TT_LOC) {
  require_scale_options("scaled_codes", o, loc);
  const Tensor values = calibration_values("scaled_codes", x, loc);
  if (values.rank() == 0) return scaled_codes(values.reshape({1}, loc), o, loc);
  const ScaledCodes out = empty_codes(values.shape(), o, loc);
  const float* const from = values.data<float>();
  if (o.granularity == Granularity::tensor) {
    const std::span<const float> all(from, static_cast<size_t>(values.numel()));
    write_codes(out, 0, fit_scale(all, o, loc), 0, all);
    return out;
  }
  const int64_t K = values.size(-1), G = out.scales.size(1);
  parallel_for(out.scales.size(0), std::max<int64_t>(kElementwiseGrain / std::max<int64_t>(K, 1), 1),
               [&](int64_t begin, int64_t end) {
                 for (int64_t r = begin; r < end; ++r) {
                   for (int64_t g = 0; g < G; ++g) {
                     const int64_t first = r * K + g * out.group,
                                   count = std::min(out.group, K - g * out.group);
                     const std::span<const float> shared(from + first, static_cast<size_t>(count));
                     write_codes(out, r * G + g, fit_scale(shared, o, loc), first, shared);
                   }
                 }
               });
  return out;
}

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

// Bytes of x of this shape, packed: each run of codes that share a scale begins at a byte. A scale takes the
// bytes of scale_dtype, a zero point one byte.
inline int64_t stored_bytes(const Shape& shape, const ScaleOptions& o, TT_LOC) {
  require_scale_options("stored_bytes", o, loc);
  const int64_t K = shape.empty() ? 1 : shape.back(), R = K == 0 ? 0 : shape.numel() / K;
  const int64_t each = static_cast<int64_t>(size_of(o.scale_dtype)) + (o.fit == Fit::minmax ? 1 : 0);
  const auto bytes = [&](int64_t codes) { return (codes * o.bits + 7) / 8; };
  if (o.granularity == Granularity::tensor) return bytes(R * K) + each;
  const int64_t run = o.granularity == Granularity::group ? std::min(o.group, K) : K;
  if (R == 0) return 0;
  const int64_t whole = K / run, tail = K % run;
  return R * (whole * (bytes(run) + each) + (tail > 0 ? bytes(tail) + each : 0));
}

// 10 log10(sum of reference^2 / sum of (reference - approximation)^2), in decibels: 6 dB are one bit.
// Infinite if both are equal. Throws TT-SHAPE-02 unless the shapes are equal.
inline double sqnr_db(const Tensor& reference, const Tensor& approximation, TT_LOC) {
  require_defined("sqnr_db", loc, reference, approximation);
  if (reference.shape() != approximation.shape()) {
    fail("TT-SHAPE-02",
         "sqnr_db: " + describe_operands({reference, approximation}) + "\n  rule: equal shapes", loc);
  }
  const std::vector<double> x = reference.to_vector<double>(), y = approximation.to_vector<double>();
  double signal = 0, error = 0;
  for (size_t i = 0; i < x.size(); ++i) signal += x[i] * x[i], error += (x[i] - y[i]) * (x[i] - y[i]);
  return error == 0 ? std::numeric_limits<double>::infinity() : 10 * std::log10(signal / error);
}

}  // namespace tinytorch::inline TT_BUILD
