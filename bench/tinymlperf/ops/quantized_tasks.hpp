// The ops of `krn` on 8-bit codes and packed 4-bit weights. Their texts state every rounding, so that a
// submission meets them without reading the library. Oracles decode packed weights first: the error of a
// format is not the error of a kernel.
//
//   Q4_0   32 numbers in 18 bytes, little endian: the scale d in f16, then 16 bytes of two codes; byte i
//          holds code i in its low half and code i + 16 in its high half. A number is d (code - 8).
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <tinymlperf/ops/oracles.hpp>
#include <tinymlperf/ops/task.hpp>

namespace tinymlperf::judge::kernels {

constexpr int64_t kQ4Block = 32, kQ4Bytes = 18;

namespace oracle {

// The bytes of [the scales f32 | the codes i8], as numbers from 0 to 255.
inline void quantize_rows(In in, int64_t, Out out) {
  const int64_t m = in[0].shape[0], k = in[0].shape[1];
  const auto put = [&](int64_t at, uint8_t byte) { out[static_cast<size_t>(at)] = byte; };
  for (int64_t r = 0; r < m; ++r) {
    const float* x = in[0].values<float>().data() + r * k;
    float largest = 0;
    bool finite = true;
    for (int64_t i = 0; i < k; ++i) {
      finite = finite && std::isfinite(x[i]);
      largest = std::max(largest, std::abs(x[i]));
    }
    const auto scale = finite ? std::bit_cast<uint32_t>(largest / 127) : 0x7fc00000u;
    for (int b = 0; b < 4; ++b) put(4 * r + b, static_cast<uint8_t>(scale >> 8 * b));
    const float up = largest < 0x1p-100f ? 0x1p64f : 1.0f;
    const float inverse = 127 / (largest * up);
    for (int64_t i = 0; i < k; ++i) {
      const float raised = x[i] * up;
      const float number = finite && largest > 0 ? raised * inverse : 0.0f;
      put(4 * m + r * k + i, static_cast<uint8_t>(static_cast<int8_t>(std::nearbyint(number))));
    }
  }
}

inline void gemm_int8(In in, int64_t row, Out out) {
  const int64_t k = in[0].shape[1];
  const int8_t *x = in[0].values<int8_t>().data() + row * k, *w = in[1].values<int8_t>().data();
  for (size_t j = 0; j < out.size(); ++j) {
    int64_t sum = 0;
    for (int64_t i = 0; i < k; ++i) sum += int64_t{x[i]} * w[static_cast<int64_t>(j) * k + i];
    out[j] = static_cast<double>(sum);
  }
}

// out[j] = the sum of term(product) over the products of x with row j of the blocks: themselves or squared.
template <class Term>
void times_q4_0(const channel::Tensor& blocks, std::span<const double> x, Out out, Term term) {
  const int64_t row_bytes = blocks.shape[1];
  for (size_t j = 0; j < out.size(); ++j) {
    const uint8_t* block = blocks.values<uint8_t>().data() + static_cast<int64_t>(j) * row_bytes;
    out[j] = 0;
    for (size_t i = 0; i < x.size(); i += kQ4Block, block += kQ4Bytes) {
      double sum = 0;
      for (size_t c = 0; c < 16; ++c) {
        sum += term(x[i + c] * ((block[2 + c] & 15) - 8));
        sum += term(x[i + 16 + c] * ((block[2 + c] >> 4) - 8));
      }
      out[j] += sum * term(half_value(static_cast<uint16_t>(block[0] | block[1] << 8)));
    }
  }
}
inline void gemv_q4_0(In in, int64_t, Out out) {
  const auto code = in[0].values<int8_t>();
  const auto scale = in[1].values<float>();
  std::vector<double> x;
  for (size_t i = 0; i < code.size(); ++i) x.push_back(double{scale[i / kQ4Block]} * code[i]);
  times_q4_0(in[2], x, out, std::identity());
}
inline void gemm_w4a16(In in, int64_t row, Out out) {
  times_q4_0(in[1], row_of_halves(in[0], row), out, std::identity());
}
inline void gemm_w4a16_squares(In in, int64_t row, Out out) {
  times_q4_0(in[1], row_of_halves(in[0], row), out, square);
}

}  // namespace oracle

namespace detail {

// Blocks of Q4_0 whose codes have all values, or, if `extreme`, only 0 and 15. Scales have both signs.
inline void fill_q4_0(channel::Tensor& blocks, bool extreme, tinytorch::Generator& random) {
  const std::span<uint8_t> all = blocks.mutable_values<uint8_t>();
  std::vector<float> scales(all.size() / kQ4Bytes);
  fill_nearly_normal(scales, random);
  for (size_t b = 0; b < scales.size(); ++b) {
    uint8_t* const block = all.data() + b * kQ4Bytes;
    const uint16_t d = tinytorch::Half(scales[b] * 0.02f).bits;
    std::memcpy(block, &d, 2);
    for (int i = 0; i < 16; ++i) {
      const auto both = static_cast<uint8_t>(random.below(256));
      block[2 + i] = extreme ? static_cast<uint8_t>((both & 1 ? 0x0f : 0) | (both & 2 ? 0xf0 : 0)) : both;
    }
  }
}

inline KernelTask quantize_rows_task() {
  KernelTask t{
      "quantize_rows",
      "x [m, k] as 8-bit codes with a scale for each row, u8 [4 m + m k]: first the m scales in f32, then "
      "the codes i8 [m, k]. In f32, each step rounded: scale = max|x| / 127; code = x (127 / max|x|) "
      "rounded to an integer, ties to even, where rows with max|x| < 2^-100 are multiplied by 2^64 first. A "
      "row of zeros has scale 0 and codes 0; a row with a NaN or an infinity has scale 0x7fc00000 and codes "
      "0. Every byte must agree",
      {{512, 1024}, {128, 4096}, {2048, 256}, {384, 768}},
      {{4096, 1024}, {1024, 4096}, {16384, 256}, {2048, 2304}},
      {1, 1},
      {61, 130},
      Exact::always,
      0,
      {D::offset, D::huge, D::zeros, D::subnormal, D::one_hot, D::duplicates, D::not_finite, D::ties},
      [](const Shape& s) -> Operands { return {{s}}; },
      [](const Shape& s) -> Shape { return {4 * s[0] + s[0] * s[1]}; },
      oracle::quantize_rows,
      [](const Shape&) { return 0.0; }};
  t.result = channel::DType::u8;
  return t;
}

inline KernelTask gemm_int8_task() {
  KernelTask t{"gemm_int8",
               "x i8 [m, k] times the transpose of w i8 [n, k]: the exact sums, i32 [m, n]. Codes are -128 "
               "to 127, and k "
               "is any number: neither a saturated pair of products nor a padded k is right",
               {{384, 384, 384}, {128, 1024, 512}, {1024, 128, 512}, {512, 512, 512}},
               {{4096, 4096, 4096}, {2048, 1024, 4096}, {512, 8192, 4096}, {8192, 2048, 2048}},
               {1, 1, 1},
               {130, 130, 130},
               Exact::always,
               0,
               {D::extreme, D::zeros, D::one_hot, D::duplicates, D::zero_one},
               [](const Shape& s) -> Operands {
                 return {{{s[0], s[1]}, Role::codes}, {{s[2], s[1]}, Role::codes}};
               },
               [](const Shape& s) -> Shape {
                 return {s[0], s[2]};
               },
               oracle::gemm_int8,
               [](const Shape& s) { return product(s); }};
  t.result = channel::DType::i32;
  return t;
}

inline KernelTask gemv_q4_0_task() {
  KernelTask t{"gemv_q4_0",
               "rows of Q4_0 times one vector: w u8 [n, 18 b] times x [32 b], whose number i is code i8 [i] "
               "(-127 to 127) "
               "times scale f32 [i / 32]: f32 [n]. The sums of 32 products of codes are integers and exact; "
               "scales and "
               "sums of blocks are in f32",
               {{4096, 32}, {2048, 64}, {1024, 128}, {8192, 24}},
               {{16384, 512}, {32768, 256}, {65536, 128}, {28672, 256}},
               {1, 1},
               {130, 23},
               Exact::never,
               1,
               {D::extreme, D::zeros, D::subnormal, D::huge, D::duplicates},
               [](const Shape& s) -> Operands {
                 return {{{32 * s[1]}, Role::arranged, 0, channel::DType::i8},
                         {{s[1]}, Role::data},
                         {{s[0], kQ4Bytes * s[1]}, Role::arranged, 0, channel::DType::u8}};
               },
               [](const Shape& s) -> Shape { return {s[0]}; },
               oracle::gemv_q4_0,
               [](const Shape& s) { return static_cast<double>(32 * s[0] * s[1]); }};
  t.arrange = [](const Shape& s, D d, tinytorch::Generator& random, channel::Tensors& in) {
    const D own = d == D::extreme ? d : D::ordinary;
    in[0] = draw_codes({32 * s[1]}, own, random, -127);
    fill_q4_0(in[2], d == D::extreme, random);
  };
  return t;
}

inline KernelTask gemm_w4a16_task() {
  KernelTask t{
      "gemm_w4a16",
      "x f16 [m, 32 b] times rows of Q4_0, w u8 [n, 18 b]: f32 [m, n]. Sums are in f32. Decoded weights may "
      "be rounded to f16, not to bf16, and x is not rounded: an error of 2^-11 of the row's largest is "
      "right, "
      "or, where sums cancel, of twice the largest root of a sum of squared products. x is finite",
      {{16, 32, 1024}, {64, 24, 768}, {128, 16, 512}, {8, 64, 2048}},
      {{16, 128, 4096}, {64, 128, 4096}, {512, 128, 4096}, {8, 256, 8192}},
      {1, 1, 1},
      {61, 7, 130},
      Exact::never,
      0,
      {D::extreme, D::zeros, D::subnormal, D::huge, D::one_hot, D::duplicates},
      [](const Shape& s) -> Operands {
        return {{{s[0], 32 * s[1]}, Role::data, 0, channel::DType::f16},
                {{s[2], kQ4Bytes * s[1]}, Role::arranged, 0, channel::DType::u8}};
      },
      [](const Shape& s) -> Shape {
        return {s[0], s[2]};
      },
      oracle::gemm_w4a16,
      [](const Shape& s) { return 32 * product(s); }};
  t.slack = 0x1p-11, t.squares = oracle::gemm_w4a16_squares;
  t.arrange = [](const Shape&, D d, tinytorch::Generator& random, channel::Tensors& in) {
    fill_q4_0(in[1], d == D::extreme, random);
  };
  return t;
}

inline void add_quantized_ops(std::vector<KernelTask>& out) {
  for (KernelTask& task :
       std::array{quantize_rows_task(), gemm_int8_task(), gemv_q4_0_task(), gemm_w4a16_task()})
    out.push_back(std::move(task));
}

}  // namespace detail
}  // namespace tinymlperf::judge::kernels
