// Loops over the rows of packed weights, for any format: block_format<F>() makes a BlockFormat from a struct
//
//   struct F {
//     static constexpr const char* kName;  static constexpr int32_t kGgufType;
//     static constexpr int64_t kBlock, kBytes;
//     static void pack(const float* x, uint8_t* block);     // one block
//     static void unpack(const uint8_t* block, float* x);
//     // Optional, if kBlock is a multiple of 32: products with activations of 8 bits, in integers within a
//     // group. A format of unsigned codes decodes 8 rows at a time (eight_rows.hpp). Another one computes
//     // y[r] = row r times x, where row r begins r * spacing bytes after w.
//     template <int64_t kRows>
//     static void dot(float* y, const uint8_t* w, int64_t spacing, const Int8Row& x, int64_t blocks);
//   };
//
// A row of the result is computed by the same operations for any number of rows and threads.
#pragma once

#include <tinytorch/backend/cpu/blocks/eight_rows.hpp>
#include <tinytorch/core/allocator.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
namespace tinytorch::inline TT_BUILD::backend::cpu {

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
  const auto rows = [&](int64_t n, int64_t spacing, auto count) {
    for (int64_t m = 0; m < o.M; ++m) {
      float y[kGemvRows];
      F::template dot<count.value>(y, o.weight + n * o.row_bytes, spacing * o.row_bytes, o.coded_row(m),
                                   o.blocks);
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
  if constexpr (requires { F::kUnusedHalf; }) f.unused_half = F::kUnusedHalf;
  if constexpr (HasEightRows<F>) {
    f.product_int8 = block_product_eight_rows<F>;
  } else if constexpr (HasInt8Dot<F>) {
    static_assert(F::kBlock % kActivationGroup == 0);
    f.product_int8 = block_product_int8<F>;
  }
  return f;
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#pragma GCC diagnostic pop
