// The rules of the operands of a product of 8-bit codes, for both backends.
#pragma once

#include <tinytorch/backend/parameters.hpp>

namespace tinytorch::inline TT_BUILD::backend {

// Throws TT-DTYPE-02 unless x and weight are `codes`, scales are f32, and out is f32, bf16 or f16, or, for
// codes of i8, i32 without scales, bias and activation. Throws TT-SHAPE-02 if the sizes do not fit.
inline void check_codes_product(const char* op, DType codes, const View& out, const View& x,
                                const View& weight, const View& x_scale, const View& weight_scale,
                                const View& bias, Activation fn) {
  const auto refuse = [&](const char* code, const std::string& what) {
    fail(code, std::string(op) + ": " + what);
  };
  if (x.dtype != codes || weight.dtype != codes) {
    refuse("TT-DTYPE-02", std::string("x is ") + name_of(x.dtype) + ", weight is " + name_of(weight.dtype) +
                              "\n  rule: both are " + name_of(codes));
  }
  const bool sums = codes == DType::i8 && out.dtype == DType::i32;
  if (!sums && out.dtype != DType::f32 && !is_16_bit(out.dtype)) {
    refuse("TT-DTYPE-02", std::string("the result is ") + name_of(out.dtype) +
                              "\n  rule: f32, bf16 or f16; or i32 for the sums of i8");
  }
  if (sums && (x_scale.data || weight_scale.data || bias.data || fn != Activation::none)) {
    refuse(
        "TT-DTYPE-02",
        "the result is i32, which has no fractions\n  rule: sums in i32 take no scales, bias or activation");
  }
  if ((x_scale.data && x_scale.dtype != DType::f32) ||
      (weight_scale.data && weight_scale.dtype != DType::f32))
    refuse("TT-DTYPE-02", "scales are not f32");
  const int64_t M = out.shape[0], N = out.shape[1];
  const auto fits = [](const View& scale, int64_t n) {
    return !scale.data || scale.numel() == 1 || scale.numel() == n;
  };
  if (x.shape[0] != M || weight.shape[0] != N || x.shape[1] != weight.shape[1] || !fits(x_scale, M) ||
      !fits(weight_scale, N) || (bias.data && bias.numel() != N)) {
    refuse("TT-SHAPE-02", "x " + x.shape.str() + ", weight " + weight.shape.str() + ", result " +
                              out.shape.str() +
                              "\n  rule: x [M, K], weight [N, K], result [M, N], scales of 1 or M and 1 or N "
                              "elements, bias [N]");
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend
