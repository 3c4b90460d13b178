// Fused kernels on the CPU: what a network does between its matrix products, as one call.
//
//   bias_activation   y = f(x + b)                                     b [C] along the last dimension
//   residual_norm     s = r + dropout(x),  y = norm(s) w + b           layer or RMS normalization of rows
//
// Fusing saves trips to memory, which is all these cost. Here they are compositions of the kernels they name,
// a few rows at a time, which stay in the cache in between, backward too; and the reference for the fused
// ones. s is rounded to the operands' dtype before it is normalized, because it is stored and the derivative
// reads it back.
#pragma once

#include <tinytorch/backend/parameters.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out, x [..., C] and bias [C] of one floating dtype.
TT_API void bias_activation(Activation fn, const View& out, const View& x, const View& bias);
// dx = dy f'(x + b); dbias [C] = its sum over all rows. Either may be without data.
TT_API void bias_activation_grad(Activation fn, const View& dx, const View& dbias, const View& dy,
                                 const View& x, const View& bias);

// out and sum [..., C]; x, residual of their shape; weight, bias [C] or without data; mean, rstd [...] in the
// compute type. mean without data: RMS normalization, and no bias.
TT_API void residual_norm(const View& out, const View& sum, const View& mean, const View& rstd, const View& x,
                          const View& residual, const View& weight, const View& bias,
                          const ResidualNorm& parameters);
// From the gradients dout and dsum (without data: zero) of both results: dx, dresidual (may be one memory
// when p is 0), dweight and dbias, of which any but dresidual may be without data.
TT_API void residual_norm_grad(const View& dx, const View& dresidual, const View& dweight, const View& dbias,
                               const View& dout, const View& dsum, const View& sum, const View& mean,
                               const View& rstd, const View& weight, const ResidualNorm& parameters);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <tinytorch/backend/cpu/dense.hpp>
#include <tinytorch/backend/cpu/dropout.hpp>
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/backend/cpu/function_kernels.hpp>
#include <tinytorch/backend/cpu/norm.hpp>
#include <tinytorch/backend/cpu/row_sums.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// A dense array of T in the shape of `like`.
template <class T>
View dense_view(const T* data, const View& like) {
  View v{const_cast<T*>(data), dtype_of<T>, like.shape, Strides::filled(like.rank(), 1)};
  for (int d = v.rank() - 2; d >= 0; --d) v.strides[d] = v.strides[d + 1] * v.shape[d + 1];
  return v;
}

// Calls f(first, count) for a few of n rows of `width` elements at a time.
template <class F>
void for_some_rows(int64_t n, int64_t width, F&& f) {
  const int64_t some = grain_of(width);
  parallel_for(n, some, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r += some) f(r, std::min(some, end - r));
  });
}

TT_API void bias_activation(Activation fn, const View& out, const View& x, const View& bias) {
  if (out.numel() == 0) return;
  dispatch_floating(out.dtype, [&]<class T>(T*) {  // 16-bit floats in float between the two steps
    const DenseInput<T> from(x), add(bias);
    DenseOutput<T> to(out);
    const int64_t C = out.shape.back();
    for_some_rows(out.numel() / C, C, [&](int64_t first, int64_t count) {
      const View result{to.data() + first * C, dtype_of<T>, {count, C}, {C, 1}};
      binary(BinaryFn::add, result,
             {const_cast<T*>(from.data()) + first * C, dtype_of<T>, {count, C}, {C, 1}},
             dense_view(add.data(), bias));
      unary(activation_fn(fn), result, result);
    });
    to.finish();
  });
}

TT_API void bias_activation_grad(Activation fn, const View& dx, const View& dbias, const View& dy,
                                 const View& x, const View& bias) {
  dispatch_floating(dy.dtype, [&]<class T>(T*) {
    const DenseInput<T> gradient(dy), from(x), add(bias);
    DenseOutput<T> to(dx), to_bias(dbias);
    const int64_t C = dy.shape.back(), rows = C == 0 ? 0 : dy.numel() / C;
    const double parameters[] = {0};
    const Kernel<T> plus = kernel_of<T>(BinaryFn::add), times_slope = kernel_of<T>(activation_grad_fn(fn));
    Scratch<double> sums(C);
    sum_over_rows<T>(sums.data(), rows, C, C, [&](int64_t r, T* part, T* room) {
      const T* const g = gradient.data() + r * C;
      T* const result = to.data() ? to.data() + r * C : room;
      if (fn == Activation::none) {
        if (to.data()) std::copy_n(g, C, result);
        TT_SIMD
        for (int64_t i = 0; i < C; ++i) part[i] += g[i];
        return;
      }
      const T* const terms[] = {from.data() + r * C, add.data()};
      plus(room, terms, C, parameters);
      const T* const factors[] = {g, room};
      times_slope(result, factors, C, parameters);
      TT_SIMD
      for (int64_t i = 0; i < C; ++i) part[i] += result[i];
    });
    for (int64_t i = 0; to_bias.data() && i < C; ++i) to_bias.data()[i] = static_cast<T>(sums.data()[i]);
    to.finish();
    to_bias.finish();
  });
}

TT_API void residual_norm(const View& out, const View& sum, const View& mean, const View& rstd, const View& x,
                          const View& residual, const View& weight, const View& bias,
                          const ResidualNorm& parameters) {
  if (out.numel() == 0) return;
  const bool drops = parameters.p > 0;
  if (drops) dropout(sum, x, parameters.p, parameters.seed, parameters.first_block);
  const View& added = drops ? sum : x;
  const auto normalize = [&](const View& to, const View& centers, const View& scales, const View& from) {
    if (mean.data) return layer_norm(to, centers, scales, from, weight, bias, parameters.eps);
    rms_norm(to, scales, from, weight, parameters.eps);
  };
  if (!sum.contiguous() || !out.contiguous() || !added.contiguous() || !residual.contiguous()) {
    binary(BinaryFn::add, sum, added, residual);
    return normalize(out, mean, rstd, sum);
  }
  const int64_t C = out.shape.back();
  for_some_rows(out.numel() / C, C, [&](int64_t first, int64_t count) {
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
