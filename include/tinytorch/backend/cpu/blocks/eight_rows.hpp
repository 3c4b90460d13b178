// The product of packed weights with activations of 8 bits, eight rows of the weights at a time.
//
// A vector holds 4 codes of each of the 8 rows, so its dot product with 4 activations, repeated 8 times,
// gives 8 sums, one of each row: no sum crosses the lanes of a vector, and one instruction handles the scales
// of 8 rows. With one row at a time, a block of 32 codes needs as many instructions for its scale as for its
// codes. The rows are transposed in registers as they are read, so their bytes in memory stay those of the
// format.
//
// A format takes part with a description of its codes and a function that decodes a block of 8 rows:
//
//   struct F {
//     static constexpr int64_t kScaled;  // numbers that share a scale: 16 or 32
//     static constexpr int kLargest;     // codes are from 0 to kLargest
//     static constexpr bool kOffset;     // true: x = scale code + offset
//     static constexpr int kZero;        // otherwise, x = scale (code - kZero)
//     // Decodes the blocks that begin at row[r] + at.
//     static void decode(const RowPointers& row, int64_t at, EightRows<F>& out);
//   };
#pragma once

#include <bit>
#include <tinytorch/backend/cpu/blocks/block_operands.hpp>
#include <tinytorch/backend/cpu/gemm/row_streams.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
namespace tinytorch::inline TT_BUILD::backend::cpu {

// A block of 8 rows. code[c] holds the codes 4 c to 4 c + 3 of row 0, then those of row 1, and so on.
template <class F>
struct EightRows {
  static constexpr int64_t kScales = F::kBlock / F::kScaled;
  Bytes32 code[F::kBlock / 4];
  Floats8 scale[kScales];
  Floats8 offset[F::kOffset ? kScales : 1];
};

template <class F>
concept HasEightRows = requires(const RowPointers& row, EightRows<F>& out) {
  F::decode(row, int64_t{0}, out);
};

// The contribution of numbers [32 g, 32 g + 32) of a block to the 8 sums. x begins at the block.
template <class F>
[[gnu::always_inline]] inline Floats8 add_group(Floats8 sum, const EightRows<F>& w, int64_t g,
                                                const Int8Row& x) {
  constexpr int64_t kCount = F::kScaled / 4, kParts = kActivationGroup / F::kScaled;
  TT_UNROLL
  for (int64_t part = 0; part < kParts; ++part) {
    const int64_t s = g * kParts + part;
    Ints8 products = dot_words<kCount, F::kLargest>(w.code + s * kCount, x.code + s * F::kScaled);
    const int32_t x_sum = x.sum[s * F::kScaled / 16] + (kCount == 8 ? x.sum[s * F::kScaled / 16 + 1] : 0);
    if constexpr (F::kZero != 0) products -= F::kZero * x_sum - Ints8{};
    sum = multiply_add_8(to_floats(products), w.scale[s] * spread(x.scale[g]), sum);
    if constexpr (F::kOffset)
      sum = multiply_add_8(w.offset[s], spread(x.scale[g] * static_cast<float>(x_sum)), sum);
  }
  return sum;
}

// y[m][r] = row r of the weights times x[m]. A sum adds the groups of a row in order, so that it is the same
// for any kRows.
template <class F, int64_t kRows>
void multiply_eight_rows(const RowPointers& row, const Int8Row* x, int64_t blocks, Floats8 (&y)[kRows]) {
  constexpr int64_t kPerLine = std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(1, 64 / F::kBytes)));
  Floats8 sum[kRows] = {};
  for (int64_t b = 0; b < blocks; ++b) {
    for (int r = 0; r < 8 && b % kPerLine == 0; ++r) {
      for (int64_t line = 0; line < F::kBytes; line += 64)
        __builtin_prefetch(row[r] + b * F::kBytes + kGemvPrefetchBytes + line);
    }
    EightRows<F> w;
    F::decode(row, b * F::kBytes, w);
    TT_UNROLL
    for (int64_t m = 0; m < kRows; ++m) {
      const Int8Row at{x[m].code + b * F::kBlock, x[m].scale + b * (F::kBlock / kActivationGroup),
                       x[m].sum + b * (F::kBlock / 16)};
      TT_UNROLL
      for (int64_t g = 0; g < F::kBlock / kActivationGroup; ++g) sum[m] = add_group(sum[m], w, g, at);
    }
  }
  TT_UNROLL
  for (int64_t m = 0; m < kRows; ++m) y[m] = sum[m];
}

// Row r of the eight is row n + r spacing of the weights; `count` of them exist. Missing ones repeat the
// last.
template <class F>
void product_of_eight_rows(const BlockOperands& o, int64_t n, int64_t spacing, int64_t count) {
  constexpr int64_t kTogether = 4;  // rows of activations for which a block is decoded once
  RowPointers row;
  for (int64_t r = 0; r < 8; ++r) row[r] = o.weight + (n + std::min(r, count - 1) * spacing) * o.row_bytes;
  const auto some = [&](int64_t m, auto rows) {
    constexpr int64_t kRows = decltype(rows)::value;
    Int8Row x[kRows];
    for (int64_t i = 0; i < kRows; ++i) x[i] = o.coded_row(m + i);
    Floats8 y[kRows];
    multiply_eight_rows<F, kRows>(row, x, o.blocks, y);
    for (int64_t i = 0; i < kRows; ++i)
      for (int64_t r = 0; r < count; ++r) o.y[(m + i) * o.y_row + n + r * spacing] = y[i][r];
  };
  int64_t m = 0;
  for (; m + kTogether <= o.M; m += kTogether) some(m, std::integral_constant<int64_t, kTogether>{});
  for (; m < o.M; ++m) some(m, std::integral_constant<int64_t, 1>{});
}

// A thread reads eight long sequential streams (row_streams.hpp gives the reason).
template <class F>
void block_product_eight_rows(const BlockOperands& o) {
  const auto part = [&](int64_t begin, int64_t end) {
    const int64_t spacing = (end - begin) / 8, rest = begin + 8 * spacing;
    for (int64_t i = 0; i < spacing; ++i) product_of_eight_rows<F>(o, begin + i, spacing, 8);
    if (rest < end) product_of_eight_rows<F>(o, rest, 1, end - rest);
  };
  const int64_t grain = ceil_div(ceil_div(kGemvBytes, std::max<int64_t>(1, o.row_bytes)), 8) * 8;
  maybe_parallel(o.parallel, o.N, grain, part);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#pragma GCC diagnostic pop
