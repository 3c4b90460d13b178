// Rows of floats as 8-bit codes with one scale per row: the activations of a quantized layer ("per token"),
// or its weights ("per output channel").
#pragma once

#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// codes [R, K] and scale [R] f32 from x [R, K] f32, bf16 or f16, with the rules of backend/row_codes.hpp:
// scale = largest magnitude of the row / 127 or 448. codes are i8, or u8 with the bits of fp8 e4m3. The codes
// of a row are contiguous, and rows may have gaps between them (on CUDA they have none); scale is contiguous;
// x has any strides. A tensor with one scale is one row.
TT_API void quantize_rows(const View& codes, const View& scale, const View& x);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <algorithm>
#include <cmath>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <tinytorch/backend/row_codes.hpp>
#include <tinytorch/core/parallel.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr int64_t kCodePiece = 1024;  // elements of a row that are widened at a time, in the L1 cache

template <class Code>
void encode_piece(Code* out, const float* x, int64_t n, const RowScale& by) {
  if constexpr (std::is_same_v<Code, int8_t>) {
    TT_SIMD
    for (int64_t k = 0; k < n; ++k) out[k] = static_cast<int8_t>(std::nearbyint(by.number(x[k])));
  } else {
    TT_SIMD
    for (int64_t k = 0; k < n; ++k) out[k].bits = Code(by.number(x[k])).bits;
  }
}

// Calls f(k, n, floats) for the pieces of a row.
template <class S, class F>
void for_pieces(const S* x, int64_t step, int64_t K, F&& f) {
  alignas(64) float piece[kCodePiece];
  for (int64_t k = 0; k < K; k += kCodePiece) {
    const int64_t n = std::min(kCodePiece, K - k);
    const S* const from = x + k * step;
    if (step == 1) {
      if constexpr (std::is_same_v<S, float>) {
        f(k, n, from);
        continue;
      } else {
        TT_SIMD
        for (int64_t i = 0; i < n; ++i) piece[i] = convert<float>(from[i]);
      }
    } else {
      for (int64_t i = 0; i < n; ++i) piece[i] = convert<float>(from[i * step]);
    }
    f(k, n, piece);
  }
}

// Writes the codes of a row; returns its scale. The largest magnitude is the largest pattern of bits without
// the sign, of which NaN has the largest of all.
template <class Code, class S>
float encode_row(Code* out, const S* x, int64_t step, int64_t K) {
  int32_t largest = 0;
  for_pieces(x, step, K, [&](int64_t, int64_t n, const float* piece) {
    int32_t most = 0;
    for (int64_t k = 0; k < n; ++k) {
      const int32_t bits = std::bit_cast<int32_t>(piece[k]) & 0x7fffffff;
      most = most < bits ? bits : most;
    }
    largest = std::max(largest, most);
  });
  const RowScale by = RowScale::of<Code>(std::bit_cast<float>(largest));
  for_pieces(x, step, K,
             [&](int64_t k, int64_t n, const float* piece) { encode_piece(out + k, piece, n, by); });
  return by.scale;
}

TT_API void quantize_rows(const View& codes, const View& scale, const View& x) {
  const int64_t rows = x.shape[0], K = x.shape[1];
  const auto run = [&]<class Code, class S>(Code* out, const S* in) {
    const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, K));
    parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        scale.as<float>()[r] = encode_row(out + r * codes.strides[0], in + r * x.strides[0], x.strides[1], K);
    });
  };
  const auto with_codes = [&]<class S>(const S* in) {
    if (codes.dtype == DType::i8) return run(codes.as<int8_t>(), in);
    if (codes.dtype == DType::u8) return run(codes.as<Float8>(), in);
    fail("TT-DTYPE-02", std::string("quantize_rows: codes of ") + name_of(codes.dtype) +
                            "\n  rule: codes are i8, or u8 for fp8");
  };
  if (x.dtype == DType::f32) return with_codes(x.as<const float>());
  if (x.dtype == DType::bf16) return with_codes(x.as<const BFloat16>());
  if (x.dtype == DType::f16) return with_codes(x.as<const Half>());
  fail("TT-DTYPE-02", std::string("quantize_rows: x is ") + name_of(x.dtype) + "\n  rule: f32, bf16 or f16");
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
