// A bias and an activation in one call on the CPU, forward and backward: y = f(x + b), b [C] along the last
// dimension.
//
// Fusing saves trips to memory, which is all these operations cost: the kernels of the two steps run on a few
// rows at a time, which stay in the cache in between.
#pragma once

#include <tinytorch/backend/parameters.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out, x [..., C] and bias [C] of one floating dtype.
TT_API void bias_activation(Activation fn, const View& out, const View& x, const View& bias);
// dx = dy f'(x + b); dbias [C] = its sum over all rows. Either may be without data.
TT_API void bias_activation_grad(Activation fn, const View& dx, const View& dbias, const View& dy,
                                 const View& x, const View& bias);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <algorithm>
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <tinytorch/backend/cpu/loops/function_kernels.hpp>
#include <tinytorch/backend/cpu/loops/row_groups.hpp>
#include <tinytorch/backend/cpu/loops/row_sums.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// A dense array of T in the shape of `like`.
template <class T>
View dense_view(const T* data, const View& like) {
  View v{const_cast<T*>(data), dtype_of<T>, like.shape, Strides::filled(like.rank(), 1)};
  for (int d = v.rank() - 2; d >= 0; --d) v.strides[d] = v.strides[d + 1] * v.shape[d + 1];
  return v;
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

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
