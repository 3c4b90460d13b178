// Products of 8-bit integers, exact in 32 bits, with optional scales: the matrix products of quantized
// layers.
//
// The processor's dot-product instruction (core/simd_dot.hpp), where it has one, multiplies unsigned by
// signed bytes. Signed A is shifted by s = 128 to be unsigned, and unsigned B by t = 128 to be signed; the
// sums of rows and columns correct for both:
//
//   sum a b = sum (a + s) (b - t) + t sum (a + s) - s sum (b - t) - K s t        s, t: 128 or 0
//
// On other processors bytes are widened to 16 bits while they are packed, and multiplied in pairs.
#pragma once

#include <tinytorch/backend/cpu/gemm/epilogue.hpp>
#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// c [M, N] i32, rows contiguous, = or += a [M, K] b [K, N]. a and b are each i8, u8 or bool, with any
// strides. Sums wrap at 32 bits.
TT_API void gemm_int8(const View& c, const View& a, const View& b, bool accumulate = false,
                      bool parallel = true, const Epilogue& epilogue = {});
// The two implementations, for K > 0. gemm_int8 calls the faster one on this processor.
TT_API void gemm_int8_quads(const View& c, const View& a, const View& b, bool accumulate, bool parallel,
                            const Epilogue& epilogue);
TT_API void gemm_int8_pairs(const View& c, const View& a, const View& b, bool accumulate, bool parallel,
                            const Epilogue& epilogue);
// out [M, N] f32, rows contiguous, = row_scale [M] col_scale [N] (a b) + bias [N], all f32. row_scale has 1
// or M elements, col_scale 1 or N; bias may be without data.
TT_API void scaled_gemm_int8(const View& out, const View& a, const View& b, const View& row_scale,
                             const View& col_scale, const View& bias);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(PRODUCTS)
#include <tinytorch/backend/cpu/gemm/amx.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

TT_API void gemm_int8_quads(const View& c, const View& a, const View& b, bool accumulate, bool parallel,
                            const Epilogue& epilogue) {
  const int64_t M = a.shape[0], K = a.shape[1], N = b.shape[1], c_row = c.strides[0];
  const bool shift_a = a.dtype == DType::i8, shift_b = b.dtype != DType::i8;
  int32_t* const sums = c.as<int32_t>();
  Scratch<int32_t> shifted(M + N);
  // Sums of the rows of a + s, and of the columns of b - t.
  int32_t *const of_row = shifted.data(), *const of_col = of_row + M;
  std::fill_n(of_row, M + N, 0);
  constexpr uint8_t kShift = 128;
  const auto bits = [](bool shift) { return static_cast<uint8_t>(shift ? kShift : 0); };
  const Int8QuadOperand operand_a{
      {a.as<const uint8_t>(), a.strides[0], a.strides[1]}, bits(shift_a), shift_b ? of_row : nullptr, false};
  const Int8QuadOperand operand_b{
      {b.as<const uint8_t>(), b.strides[1], b.strides[0]}, bits(shift_b), shift_a ? of_col : nullptr, true};
  const uint32_t row_factor = bits(shift_b);
  const uint32_t constant = static_cast<uint32_t>(K) * row_factor * bits(shift_a);
  const auto correct = [&](const SumBlock& s) {
    for (int64_t r = 0; r < s.rows && (shift_a || shift_b); ++r) {
      int32_t* const row = s.at<int32_t>(r);
      const uint32_t plus = row_factor * static_cast<uint32_t>(of_row[s.i + r]) - constant;
      const auto add =
          [&](auto col_factor) {  // a constant: multiplication takes ten times as long as a shift
            TT_SIMD
            for (int64_t j = 0; j < s.cols; ++j)
              row[j] = static_cast<int32_t>(static_cast<uint32_t>(row[j]) + plus -
                                            col_factor * static_cast<uint32_t>(of_col[s.j + j]));
          };
      if (shift_a)
        add(std::integral_constant<uint32_t, kShift>());
      else
        add(std::integral_constant<uint32_t, 0>());
    }
    epilogue(s);
  };
  if (has_amx())
    return gemm_amx(sums, c_row, operand_a, operand_b, M, N, K, accumulate, parallel,
                    Epilogue(correct, epilogue.by_rows()));
  BlockedProduct<int32_t, Int8QuadOperand>(sums, c_row, operand_a, operand_b, M, N, K, accumulate, parallel,
                                           Epilogue(correct, epilogue.by_rows()))
      .run();
}

TT_API void gemm_int8_pairs(const View& c, const View& a, const View& b, bool accumulate, bool parallel,
                            const Epilogue& epilogue) {
  const Int16PairOperand operand_a{{a.as<const uint8_t>(), a.strides[0], a.strides[1]}, a.dtype == DType::i8};
  const Int16PairOperand operand_b{{b.as<const uint8_t>(), b.strides[1], b.strides[0]}, b.dtype == DType::i8};
  BlockedProduct<int32_t, Int16PairOperand>(c.as<int32_t>(), c.strides[0], operand_a, operand_b, a.shape[0],
                                            b.shape[1], a.shape[1], accumulate, parallel, epilogue)
      .run();
}

TT_API void gemm_int8(const View& c, const View& a, const View& b, bool accumulate, bool parallel,
                      const Epilogue& epilogue) {
  const int64_t M = a.shape[0], K = a.shape[1], N = b.shape[1];
  if (M == 0 || N == 0) return;
  if (K == 0) {
    int32_t* const sums = c.as<int32_t>();
    for (int64_t i = 0; i < M && !accumulate; ++i) std::fill_n(sums + i * c.strides[0], N, 0);
    return epilogue({0, M, 0, N, sums, c.strides[0]});
  }
  (kFastDot4 ? gemm_int8_quads : gemm_int8_pairs)(c, a, b, accumulate, parallel, epilogue);
}

TT_API void scaled_gemm_int8(const View& out, const View& a, const View& b, const View& row_scale,
                             const View& col_scale, const View& bias) {
  const int64_t M = out.shape[0], N = out.shape[1];
  Scratch<int32_t> sums(M * N);
  const auto scale = [&](const SumBlock& s) {
    const float *const by_row = row_scale.as<const float>(), *const by_col = col_scale.as<const float>();
    const int64_t row_step = row_scale.numel() == 1 ? 0 : row_scale.strides[0];
    const int64_t col_step = col_scale.numel() == 1 ? 0 : col_scale.strides[0];
    for (int64_t r = 0; r < s.rows; ++r) {
      const int32_t* const from = s.at<int32_t>(r);
      float* const to = out.as<float>() + (s.i + r) * out.strides[0] + s.j;
      const float factor = by_row[(s.i + r) * row_step];
      TT_SIMD
      for (int64_t j = 0; j < s.cols; ++j)
        to[j] = static_cast<float>(from[j]) * (factor * by_col[(s.j + j) * col_step]);
      for (int64_t j = 0; j < s.cols && bias.data; ++j)
        to[j] += bias.as<const float>()[(s.j + j) * bias.strides[0]];
    }
  };
  gemm_int8({sums.data(), DType::i32, out.shape, {N, 1}}, a, b, false, true, Epilogue(scale));
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
