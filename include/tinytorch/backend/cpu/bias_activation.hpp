// Bias and activation in one call on the CPU, forward and backward: y = f(x + b), b [C] along the last
// dimension.
//
// Both operations are memory-bound, so fusion saves passes over memory: the kernels of the two steps are
// applied to a few rows at a time, which stay in the cache between the steps.
#pragma once

#include <tinytorch/backend/parameters.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out = fn(x + bias): out, x [..., C] and bias [C] of one floating dtype.
TT_API void bias_activation(Activation fn, const View& out, const View& x, const View& bias);
// dx = dy fn'(x + bias); dbias [C] = sum of dx over all rows. dx and dbias may be without data.
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

TT_API void bias_activation(Activation fn, const View& out, const View& x, const View& bias) {
  if (out.numel() == 0) return;
  dispatch_floating(out.dtype, [&]<class T>(T*) {  // 16-bit floats are not rounded between the two steps
    const ContiguousInput<T> from(x), add(bias);
    ContiguousOutput<T> to(out);
    const int64_t C = out.shape.back();
    for_each_row_group(out.numel() / C, C, [&](int64_t first, int64_t count) {
      const View result{to.data() + first * C, dtype_of<T>, {count, C}, {C, 1}};
      binary(BinaryFn::add, result,
             {const_cast<T*>(from.data()) + first * C, dtype_of<T>, {count, C}, {C, 1}},
             contiguous_view(add.data(), bias));
      unary(activation_fn(fn), result, result);
    });
    to.write_back();
  });
}

TT_API void bias_activation_grad(Activation fn, const View& dx, const View& dbias, const View& dy,
                                 const View& x, const View& bias) {
  dispatch_floating(dy.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> gradient(dy), from(x), add(bias);
    ContiguousOutput<T> to(dx), to_bias(dbias);
    const int64_t C = dy.shape.back(), rows = C == 0 ? 0 : dy.numel() / C;
    const double parameters[] = {0};
    const Kernel<T> add_bias = kernel_of<T>(BinaryFn::add),
                    times_derivative = kernel_of<T>(activation_grad_fn(fn));
    Scratch<double> sums(C);
    sum_over_rows<T>(sums.data(), rows, C, C, [&](int64_t r, T* part, T* scratch) {
      const T* const g = gradient.data() + r * C;
      T* const result = to.data() ? to.data() + r * C : scratch;
      if (fn == Activation::none) {
        if (to.data()) std::copy_n(g, C, result);
        TT_SIMD
        for (int64_t i = 0; i < C; ++i) part[i] += g[i];
        return;
      }
      const T* const terms[] = {from.data() + r * C, add.data()};
      add_bias(scratch, terms, C, parameters);
      const T* const factors[] = {g, scratch};
      times_derivative(result, factors, C, parameters);
      TT_SIMD
      for (int64_t i = 0; i < C; ++i) part[i] += result[i];
    });
    for (int64_t i = 0; to_bias.data() && i < C; ++i) to_bias.data()[i] = static_cast<T>(sums.data()[i]);
    to.write_back();
    to_bias.write_back();
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
