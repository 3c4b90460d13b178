// Rows of a cache as the numbers of backend/kv_format.hpp, and back to floats. kv_append.hpp writes with
// these functions, and attention_decode.hpp reads with them.
#pragma once

#include <cmath>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <tinytorch/backend/cpu/loops/nibbles.hpp>
#include <tinytorch/backend/kv_view.hpp>

#if TT_BODIES(PRODUCTS)
namespace tinytorch::inline TT_BUILD::backend::cpu {

// The element type of a cache's memory, as a null pointer: f(static_cast<Int4*>(nullptr)).
template <class F>
void dispatch_format(const KvView& kv, F&& f) {
  if (kv.format == KvFormat::i4) return f(static_cast<Int4*>(nullptr));
  if (kv.format == KvFormat::fp8) return f(static_cast<Float8*>(nullptr));
  dispatch(kv.dtype, [&]<class K>(K*) {
    if constexpr (is_floating(dtype_of<K>) || std::is_same_v<K, int8_t>) f(static_cast<K*>(nullptr));
  });
}

// One row as integers from -127 to 127; returns its scale. A row of zeros has scale 0. The integers of a row
// with a NaN or an infinity would say nothing, so its scale is NaN: attention to this token gives NaN.
template <class S>
float quantize_row(int8_t* out, const S* x, int64_t step, int64_t D) {
  float largest = 0, total = 0;
  for (int64_t d = 0; d < D; ++d) {
    const float value = std::abs(convert<float>(x[d * step]));
    largest = largest < value ? value : largest;
    total += value;
  }
  if (!std::isfinite(largest) || std::isnan(total)) {
    for (int64_t d = 0; d < D; ++d) out[d] = 0;
    return std::numeric_limits<float>::quiet_NaN();
  }
  const double inverse = largest > 0 ? 127 / static_cast<double>(largest) : 0;  // finite for subnormals too
  for (int64_t d = 0; d < D; ++d)
    out[d] = static_cast<int8_t>(std::nearbyint(convert<double>(x[d * step]) * inverse));
  return largest / 127;
}

// Writes a row as numbers of 8 bits (fp8) and returns its scale.
template <class S>
float quantize_row(Float8* out, const S* x, int64_t step, int64_t D) {
  float largest = 0, total = 0;
  for (int64_t d = 0; d < D; ++d) {
    const float value = std::abs(convert<float>(x[d * step]));
    largest = largest < value ? value : largest;
    total += value;
  }
  const bool finite = std::isfinite(largest) && !std::isnan(total);
  const double inverse =
      finite && largest > 0 ? static_cast<double>(Float8::kLargest) / static_cast<double>(largest) : 0;
  for (int64_t d = 0; d < D; ++d)
    out[d] = finite ? Float8(static_cast<float>(convert<double>(x[d * step]) * inverse)) : Float8();
  return finite ? largest / Float8::kLargest : std::numeric_limits<float>::quiet_NaN();
}

// Rotates blocks of hadamard_block(D) numbers: the transform is orthogonal and its own inverse.
template <class T>
void rotate(T* x, int64_t D) {
  const int64_t n = hadamard_block(D);
  if (n == 1) return;
  for (int64_t half = 1; half < n; half *= 2) {
    for (int64_t first = 0; first < D; first += 2 * half) {
      T* const low = x + first;
      for (int64_t i = 0; i < half; ++i) {
        const T a = low[i], b = low[half + i];
        low[i] = a + b, low[half + i] = a - b;
      }
    }
  }
  const T factor = 1 / std::sqrt(static_cast<T>(n));
  for (int64_t d = 0; d < D; ++d) x[d] *= factor;
}

// A row of i4: groups of 16 bytes, and their scales. row [D, rounded up to whole groups] is changed.
inline void quantize_groups(uint8_t* out, BFloat16* scales, float* row, int64_t D, bool is_key) {
  constexpr int64_t kHalf = kKvGroup / 2;
  if (is_key) rotate(row, D);
  for (int64_t g = 0; g * kKvGroup < D; ++g, row += kKvGroup, out += kHalf) {
    const int64_t count = std::min(kKvGroup, D - g * kKvGroup);
    std::fill(row + count, row + kKvGroup, 0.0f);
    float least = 0, largest = 0, total = 0;
    for (int64_t i = 0; i < count; ++i) {
      least = std::min(least, row[i]), largest = std::max(largest, row[i]);
      total += std::abs(row[i]);
    }
    scales[g] = int4_scale(least, std::isnan(total) ? total : largest);
    const auto scale = static_cast<double>(scales[g]);
    const bool usable = scale != 0 && !std::isnan(scale);
    const auto code = [&](int64_t i) {
      const double n = usable ? std::nearbyint(static_cast<double>(row[i]) / scale) : 0;
      return static_cast<unsigned>(std::clamp(n, -8.0, 7.0) + 8);
    };
    for (int64_t i = 0; i < kHalf; ++i) out[i] = static_cast<uint8_t>(code(i) | code(i + kHalf) << 4);
  }
}

// The numbers of rows of fp8 or i4, which are stored in fewer bits than any type of C++ has.
template <class K>
inline constexpr bool kIsCoded = std::is_same_v<K, Float8> || std::is_same_v<K, Int4>;

inline void decode_row(float* out, const Float8* row, const float* scale, int64_t D) {
  constexpr int64_t kL = kLanes<float>;
  int64_t d = 0;
  for (; d + kL <= D; d += kL) {
    const Simd<int32_t> bits = widen_bytes(reinterpret_cast<const uint8_t*>(row) + d);
    const Simd<float> x = reinterpret_cast<Simd<float>>((bits & 0x7f) << 20 | (bits & 0x80) << 24);
    simd_store(out + d, x * 0x1p120f * *scale);  // the bias of its exponent is larger by 120
  }
  for (; d < D; ++d) out[d] = static_cast<float>(row[d]) * *scale;
}
inline void decode_row(float* out, const uint8_t* row, const BFloat16* scales, int64_t D) {
  constexpr int64_t kL = kLanes<float>, kHalf = kKvGroup / 2;
  for (int64_t d = 0; d < D; d += kKvGroup, row += kHalf, ++scales) {
    const Simd<float> scale = simd_broadcast(static_cast<float>(*scales));
    alignas(64) float last[kKvGroup];
    float* const to = d + kKvGroup <= D ? out + d : last;
    TT_UNROLL
    for (int64_t i = 0; i < kHalf; i += kL) {
      const Simd<int32_t> bytes = widen_bytes(row + i);
      simd_store(to + i, low_nibbles(bytes) * scale);
      simd_store(to + kHalf + i, high_nibbles(bytes) * scale);
    }
    if (to == last) std::copy(last, last + (D - d), out + d);
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
