// Products with a weight of dense blocks of 8-bit codes: y [M, N] = x [M, K] w^T.
//
// Each row of a block has a scale, and each row of x is rounded to 8 bits with one of its own
// (backend/row_codes.hpp), so that a block is a product of bytes, exact in 32 bits. At the end of a block its
// sums become f32, times the scales of the block's rows. Eight rows of the weight are the lanes of a vector:
// four codes of each, which are multiplied by four codes of x. Codes that were brought into that order serve
// several rows of x.
#pragma once

#include <tinytorch/backend/sparse_view.hpp>
#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// y [M, N] is floating and x [M, K] is f32, bf16 or f16, with any strides. w has values i8 from -127 to 127;
// scales [blocks, block] are floating, one for each row of a block. A NaN or an infinity in a row of x makes
// all its results NaN. A result does not depend on the number of threads, nor on other rows of x. Throws
// TT-DTYPE-02 for values of another dtype.
TT_API void spmm_bsr_int8(const View& y, const View& x, const BsrView& w, const View& scales);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(PRODUCTS)
#include <algorithm>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <tinytorch/backend/cpu/quantize_rows.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/simd_bytes.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr int64_t kByteBlockRows = 4;                  // rows of x that are multiplied together
inline constexpr int64_t kByteBlockCodes = int64_t{1} << 15;  // products that are worth a thread

// Codes of x [M, pitch], with zeros from column K on, and the scale of each row.
struct CodedActivations {
  Scratch<int8_t> codes;
  Scratch<float> scale;
  int64_t pitch;

  CodedActivations(const View& x, int64_t columns)
      : codes(std::max<int64_t>(1, x.shape[0] * columns)),
        scale(std::max<int64_t>(1, x.shape[0])),
        pitch(columns) {
    const int64_t M = x.shape[0], K = x.shape[1];
    const View rows{codes.data(), DType::i8, {M, K}, {pitch, 1}};
    quantize_rows(rows, {scale.data(), DType::f32, {M}, {1}}, x);
    for (int64_t m = 0; m < M; ++m) std::fill_n(codes.data() + m * pitch + K, pitch - K, int8_t{0});
  }
};

// to[m][r] = rows `first` to `first` + 7 of the block row `at` of w, times kCount rows of codes of x, in f32
// without the scale of x.
template <int64_t kCount>
void multiply_byte_rows(float (*to)[8], const BsrView& w, const float* scales, int64_t at, int64_t first,
                        const int8_t* x, int64_t pitch) {
  const int64_t B = w.block;
  Floats8 sums[kCount] = {};
  for (int64_t i = w.offsets[at]; i < w.offsets[at + 1]; ++i) {
    const auto* const block = static_cast<const uint8_t*>(w.values) + (i * B + first) * B;
    const int8_t* const from = x + static_cast<int64_t>(w.columns_of[i]) * B;
    const RowPointers rows = {block,         block + B,     block + 2 * B, block + 3 * B,
                              block + 4 * B, block + 5 * B, block + 6 * B, block + 7 * B};
    Ints8 exact[kCount] = {};
    for (int64_t k = 0; k < B; k += 16) {
      Bytes32 codes[4];
      transpose_16_bytes(rows, k, codes);
      TT_UNROLL
      for (int64_t m = 0; m < kCount; ++m) {
        TT_UNROLL
        for (int64_t c = 0; c < 4; ++c) {
          uint32_t four;
          std::memcpy(&four, from + m * pitch + k + 4 * c, sizeof four);
          exact[m] += dot4_signed(codes[c], reinterpret_cast<Bytes32>(spread_word(four)));
        }
      }
    }
    Floats8 scale;
    std::memcpy(&scale, scales + i * B + first, sizeof scale);
    TT_UNROLL
    for (int64_t m = 0; m < kCount; ++m) sums[m] = multiply_add_8(to_floats(exact[m]), scale, sums[m]);
  }
  for (int64_t m = 0; m < kCount; ++m) std::memcpy(to[m], &sums[m], sizeof sums[m]);
}

TT_API void spmm_bsr_int8(const View& y, const View& x, const BsrView& w, const View& scales) {
  if (w.dtype != DType::i8)
    fail("TT-DTYPE-02", std::string("spmm_bsr_int8: the values must be i8, got ") + name_of(w.dtype));
  if (y.numel() == 0) return;
  const int64_t M = x.shape[0], B = w.block;
  CodedActivations coded(x, w.block_columns() * B);
  const ContiguousInput<float> factors(scales);
  // Rows n to n + 7 of the weight, and kByteBlockRows rows of x from m on.
  const auto tile = [&](int64_t n, int64_t m) {
    float sums[kByteBlockRows][8];
    const int64_t at = n / B, first = n % B, count = std::min(kByteBlockRows, M - m);
    const int8_t* const from = coded.codes.data() + m * coded.pitch;
    if (count == kByteBlockRows) {
      multiply_byte_rows<kByteBlockRows>(sums, w, factors.data(), at, first, from, coded.pitch);
    } else {
      for (int64_t r = 0; r < count; ++r)
        multiply_byte_rows<1>(sums + r, w, factors.data(), at, first, from + r * coded.pitch, coded.pitch);
    }
    for (int64_t r = 0; r < count; ++r)
      for (float& sum : sums[r]) sum *= coded.scale.data()[m + r];
    View to = y;
    to.data = static_cast<uint8_t*>(y.data) +
              (m * y.strides[0] + n * y.strides[1]) * static_cast<int64_t>(size_of(y.dtype));
    to.shape = {count, std::min<int64_t>(8, w.rows - n)};
    copy_view(to, {sums, DType::f32, to.shape, {8, 1}});
  };
  const int64_t codes = 8 * M * (1 + w.blocks * B / w.block_rows());  // of a line, on average
  parallel_for((w.rows + 7) / 8, 1 + kByteBlockCodes / codes, [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line)
      for (int64_t m = 0; m < M; m += kByteBlockRows) tile(line * 8, m);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#pragma GCC diagnostic pop
#endif
