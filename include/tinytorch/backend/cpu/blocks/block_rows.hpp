// Loops over the rows of packed weights, for any format: block_format<F>() makes a BlockFormat from a struct
//
//   struct F {
//     static constexpr const char* kName;  static constexpr int32_t kGgufType;
//     static constexpr int64_t kBlock, kBytes;
//     static void pack(const float* x, uint8_t* block);     // one block
//     static void unpack(const uint8_t* block, float* x);
//     // Optional, if kBlock is a multiple of 32: y[r] = row r times x, in integers within a group. Row r
//     // begins r * spacing bytes after w.
//     template <int64_t kRows>
//     static void dot(float* y, const uint8_t* w, int64_t spacing, const Int8Row& x, int64_t blocks);
//   };
//
// A row of the result is computed by the same operations for any number of rows and threads.
#pragma once

#include <cmath>
#include <tinytorch/backend/block_format.hpp>
#include <tinytorch/backend/cpu/gemm/row_streams.hpp>
#include <tinytorch/core/allocator.hpp>
#include <tinytorch/core/simd_bytes.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr int64_t kActivationGroup = 32;  // activations of 8 bits that share a scale

// A row of activations in 8 bits: number i is code[i] * scale[i / kActivationGroup].
struct Int8Row {
  const int8_t* code;  // -127 to 127
  const float* scale;
};

struct BlockOperands {
  const uint8_t* weight;  // [N, row_bytes]
  int64_t N, row_bytes, blocks;
  // [M, K]: floats, or codes and scales [M, K / kActivationGroup].
  int64_t M, K;
  const float* x;
  const int8_t* code;
  const float* scale;
  float* y;  // y[m * y_row + n]
  int64_t y_row;
  bool parallel;
};

// x[0 .. K) in 8 bits: the largest magnitude of each group becomes 127. A group with a number that is not
// finite gets the scale NaN, so that it is not hidden.
inline void quantize_activations(const float* x, int64_t K, int8_t* code, float* scale) {
  for (int64_t g = 0; g < K / kActivationGroup; ++g, x += kActivationGroup, code += kActivationGroup) {
    float largest = 0, sum = 0;
    for (int64_t i = 0; i < kActivationGroup; ++i) {
      largest = std::max(largest, std::fabs(x[i]));
      sum += x[i] - x[i];  // 0, or NaN
    }
    const float inverse = largest > 0 ? 127 / largest : 0;
    scale[g] = largest / 127 + sum;
    for (int64_t i = 0; i < kActivationGroup; ++i) {
      const float v = sum == 0 ? x[i] * inverse : 0.0f;
      code[i] = static_cast<int8_t>(static_cast<int>(v + (v < 0 ? -0.5f : 0.5f)));
    }
  }
}

// a b, rounded before anything is added to it, so that every build packs the same bytes.
template <class T>
[[gnu::always_inline]] inline T rounded_product(T a, T b) {
  T p = a * b;
  keep_in_register(p);
  return p;
}

// 1 / d, or 0 if that overflows: a scale so small rounds to 0 in f16.
inline float inverse_or_zero(float d) { return std::fabs(d) >= 0x1p-126f ? 1 / d : 0; }

inline float dot_floats(const float* a, const float* b, int64_t n) {
  Floats8 sum[4] = {};
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    TT_UNROLL
    for (int64_t k = 0; k < 4; ++k) {
      Floats8 x, y;
      std::memcpy(&x, a + i + 8 * k, sizeof x), std::memcpy(&y, b + i + 8 * k, sizeof y);
      sum[k] = multiply_add_8(x, y, sum[k]);
    }
  }
  float total = sum_of_floats((sum[0] + sum[1]) + (sum[2] + sum[3]));
  for (; i < n; ++i) total += a[i] * b[i];
  return total;
}

// Each row of the weights is decoded once, and multiplied with all rows of the activations.
template <class F>
void block_product(const BlockOperands& o) {
  const int64_t grain = std::max<int64_t>(1, kGemvBytes / std::max<int64_t>(1, o.row_bytes));
  const auto rows = [&](int64_t begin, int64_t end) {
    Scratch<float> row(o.K);
    for (int64_t n = begin; n < end; ++n) {
      const uint8_t* const w = o.weight + n * o.row_bytes;
      for (int64_t b = 0; b < o.blocks; ++b) F::unpack(w + b * F::kBytes, row.data() + b * F::kBlock);
      for (int64_t m = 0; m < o.M; ++m) o.y[m * o.y_row + n] = dot_floats(row.data(), o.x + m * o.K, o.K);
    }
  };
  maybe_parallel(o.parallel, o.N, grain, rows);
}

// Activations of 8 bits: kGemvRows rows of the weights at a time, one from each of four streams
// (row_streams.hpp).
template <class F>
void block_product_int8(const BlockOperands& o) {
  const int64_t groups = o.K / kActivationGroup;
  const auto rows = [&](int64_t n, int64_t spacing, auto count) {
    for (int64_t m = 0; m < o.M; ++m) {
      float y[kGemvRows];
      F::template dot<count.value>(y, o.weight + n * o.row_bytes, spacing * o.row_bytes,
                                   {o.code + m * o.K, o.scale + m * groups}, o.blocks);
      for (int64_t r = 0; r < count.value; ++r) o.y[m * o.y_row + n + r * spacing] = y[r];
    }
  };
  if (o.parallel) return for_row_groups(o.N, o.row_bytes, rows);
  for (int64_t n = 0; n < o.N; ++n) rows(n, int64_t{0}, std::integral_constant<int64_t, 1>{});
}

template <class F>
concept HasInt8Dot = requires(float* y, const uint8_t* w, const Int8Row& x) {
  F::template dot<1>(y, w, int64_t{0}, x, int64_t{0});
};

template <class F>
constexpr BlockFormat block_format() {
  BlockFormat f{F::kName, F::kGgufType, F::kBlock, F::kBytes, nullptr, nullptr, nullptr, nullptr};
  f.pack = [](const float* x, int64_t blocks, uint8_t* out) {
    for (int64_t b = 0; b < blocks; ++b) F::pack(x + b * F::kBlock, out + b * F::kBytes);
  };
  f.unpack = [](const uint8_t* in, int64_t blocks, float* x) {
    for (int64_t b = 0; b < blocks; ++b) F::unpack(in + b * F::kBytes, x + b * F::kBlock);
  };
  f.product = block_product<F>;
  if constexpr (HasInt8Dot<F>) {
    static_assert(F::kBlock % kActivationGroup == 0);
    f.product_int8 = block_product_int8<F>;
  }
  return f;
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#pragma GCC diagnostic pop
