// Products of 8-bit integers, exact in 32 bits, with optional scales: the matrix products of quantized
// layers.
//
// The frame of a course header: it has the given parts, and includes the functions of task 7.5.
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

#if TT_BODIES(PRODUCTS) || defined(TINYTORCH_TASK)
#include <vector>

#include <tasks/backend/cpu/gemm/int8.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

TT_API void gemm_int8(const View& c, const View& a, const View& b, bool accumulate, bool,
                      const Epilogue& epilogue) {
  const int64_t M = a.shape[0], N = b.shape[1];
  if (M == 0 || N == 0) return;
  multiply_bytes(c.as<int32_t>(), c.strides[0], a, b, accumulate);
  epilogue({0, M, 0, N, c.as<int32_t>(), c.strides[0]});
}
TT_API void gemm_int8_quads(const View& c, const View& a, const View& b, bool accumulate, bool parallel,
                            const Epilogue& epilogue) {
  gemm_int8(c, a, b, accumulate, parallel, epilogue);
}
TT_API void gemm_int8_pairs(const View& c, const View& a, const View& b, bool accumulate, bool parallel,
                            const Epilogue& epilogue) {
  gemm_int8(c, a, b, accumulate, parallel, epilogue);
}

TT_API void scaled_gemm_int8(const View& out, const View& a, const View& b, const View& row_scale,
                             const View& col_scale, const View& bias) {
  const int64_t M = out.shape[0], N = out.shape[1];
  std::vector<int32_t> sums(static_cast<size_t>(M * N));
  gemm_int8({sums.data(), DType::i32, out.shape, {N, 1}}, a, b);
  const auto at = [](const View& v, int64_t i) {
    return v.as<const float>()[v.numel() == 1 ? 0 : i * v.strides[0]];
  };
  for (int64_t m = 0; m < M; ++m) {
    for (int64_t n = 0; n < N; ++n) {
      const float value =
          static_cast<float>(sums[static_cast<size_t>(m * N + n)]) * (at(row_scale, m) * at(col_scale, n));
      out.as<float>()[m * out.strides[0] + n] = bias.data ? value + at(bias, n) : value;
    }
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
