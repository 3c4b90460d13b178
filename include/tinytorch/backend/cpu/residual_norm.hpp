// Residual addition, dropout and normalization in one call on the CPU, forward and backward:
//
//   s = r + dropout(x),  y = norm(s) w + b           layer or RMS normalization of rows
//
// It is a composition of the kernels of these steps, on a few rows at a time, which stay in the cache between
// the steps. s is rounded to the operands' dtype before it is normalized, because s is stored and the
// derivative reads it.
#pragma once

#include <tinytorch/backend/parameters.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out (y) and sum (s) [..., C]; x and residual of their shape; weight, bias [C] or without data; mean, rstd
// [...] in the compute type. mean without data: RMS normalization, without bias.
TT_API void residual_norm(const View& out, const View& sum, const View& mean, const View& rstd, const View& x,
                          const View& residual, const View& weight, const View& bias,
                          const ResidualNorm& parameters);
// Computes dx, dresidual, dweight and dbias from dout and dsum, the gradients of out and sum; dsum may be
// without data (zero). dx, dweight and dbias may be without data. dx may be the memory of dresidual if p is
// 0.
TT_API void residual_norm_grad(const View& dx, const View& dresidual, const View& dweight, const View& dbias,
                               const View& dout, const View& dsum, const View& sum, const View& mean,
                               const View& rstd, const View& weight, const ResidualNorm& parameters);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <tinytorch/backend/cpu/dropout.hpp>
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/backend/cpu/loops/row_groups.hpp>
#include <tinytorch/backend/cpu/norm.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

TT_API void residual_norm(const View& out, const View& sum, const View& mean, const View& rstd, const View& x,
                          const View& residual, const View& weight, const View& bias,
                          const ResidualNorm& parameters) {
  if (out.numel() == 0) return;
  const bool has_dropout = parameters.p > 0;
  if (has_dropout) dropout(sum, x, parameters.p, parameters.seed, parameters.first_block);
  const View& added = has_dropout ? sum : x;
  const auto normalize = [&](const View& to, const View& centers, const View& scales, const View& from) {
    if (mean.data) return layer_norm(to, centers, scales, from, weight, bias, parameters.eps);
    rms_norm(to, scales, from, weight, parameters.eps);
  };
  if (!sum.contiguous() || !out.contiguous() || !added.contiguous() || !residual.contiguous()) {
    binary(BinaryFn::add, sum, added, residual);
    return normalize(out, mean, rstd, sum);
  }
  const int64_t C = out.shape.back();
  for_each_row_group(out.numel() / C, C, [&](int64_t first, int64_t count) {
    const auto rows = [&](const View& v, int64_t width) {
      View some{v.data, v.dtype, {count, width}, {width, 1}};
      if (v.data) some.data = v.as<char>() + first * width * static_cast<int64_t>(size_of(v.dtype));
      return some;
    };
    const View total = rows(sum, C);
    binary(BinaryFn::add, total, rows(added, C), rows(residual, C));
    normalize(rows(out, C), rows(mean, 1), rows(rstd, 1), total);
  });
}

TT_API void residual_norm_grad(const View& dx, const View& dresidual, const View& dweight, const View& dbias,
                               const View& dout, const View& dsum, const View& sum, const View& mean,
                               const View& rstd, const View& weight, const ResidualNorm& parameters) {
  layer_norm_grad(dresidual, dweight, dbias, dout, sum, mean, rstd, weight, dsum);
  if (!dx.data || dx.data == dresidual.data) return;
  if (parameters.p > 0) {
    dropout(dx, dresidual, parameters.p, parameters.seed, parameters.first_block);
  } else {
    copy(dx, dresidual);
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
