// Reference implementations of activations and of linear layers with their gradients, for the kernels of
// every backend.
#pragma once

#include <cmath>
#include <support/array.hpp>
#include <vector>

namespace test {

// kernel(dweight [N, K], dbias [N], dy [M, N], x [M, K]). A: Array or DeviceArray.
template <class A, class Kernel>
void check_linear_grad_weight(Kernel&& kernel) {
  for (const DType dtype : kFloating) {
    for (const int64_t N : {4, 24}) {
      for (const Layout layout : {Layout::dense, Layout::gaps}) {
        A dy = A::random(dtype, {40, N}, 1, -1, 1, layout), x = A::random(dtype, {40, 16}, 2, -1, 1),
          dw(dtype, {N, 16}), db(dtype, {N});
        kernel(dw.view(), db.view(), dy.view(), x.view());
        const std::vector<double> g = dy.values(), xs = x.values();
        const auto columns = static_cast<size_t>(N);
        std::vector<double> want_w(columns * 16), want_b(columns);
        for (size_t i = 0; i < g.size(); ++i) {
          want_b[i % columns] += g[i];
          for (size_t k = 0; k < 16; ++k) want_w[i % columns * 16 + k] += g[i] * xs[i / columns * 16 + k];
        }
        check_close(dw.values(), want_w, dtype, 60);
        check_close(db.values(), want_b, dtype, 60);
      }
    }
  }
}

// kernel(out [M, N], x [M, K], weight [N, K], bias [N] or none, residual [M, N]). A: Array or DeviceArray.
template <class A, class Kernel>
void check_linear_residual(Kernel&& kernel) {
  struct Sizes {
    int64_t M, N, K;
  };
  const auto check = [&](DType dtype, Sizes s, Layout of_x, Layout of_residual, Layout of_out,
                         bool with_bias) {
    INFO(s.M, " x ", s.N, " x ", s.K, " layouts ", static_cast<int>(of_x), static_cast<int>(of_residual),
         static_cast<int>(of_out), " bias ", with_bias);
    A x = A::random(dtype, {s.M, s.K}, 1, -1, 1, of_x), w = A::random(dtype, {s.N, s.K}, 2, -1, 1),
      b = A::random(dtype, {s.N}, 3, -1, 1, of_x), out(dtype, {s.M, s.N}, of_out);
    const auto N = static_cast<size_t>(s.N), K = static_cast<size_t>(s.K);
    std::vector<double> added = A::random(dtype, {s.M, s.N}, 4, -9, 9).values();
    if (added.size() > 1) added[added.size() / 2] = NAN;  // must affect only one result
    A residual = A::from(dtype, {s.M, s.N}, added, of_residual);
    kernel(out.view(), x.view(), w.view(), with_bias ? b.view() : tinytorch::backend::View{},
           residual.view());
    const std::vector<double> xs = x.values(), ws = w.values(), bs = b.values();
    std::vector<double> want = added;
    for (size_t i = 0; i < want.size(); ++i) {
      if (with_bias) want[i] += bs[i % N];
      for (size_t k = 0; k < K; ++k) want[i] += xs[i / N * K + k] * ws[i % N * K + k];
    }
    check_close(out.values(), want, dtype, 8 + static_cast<double>(s.K));
  };
  for (const DType dtype : kFloating) {
    for (const bool with_bias : {true, false}) {
      for (const Layout layout : kLayouts) {
        check(dtype, {40, 24, 16}, Layout::dense, layout, Layout::dense, with_bias);
        check(dtype, {9, 7, 5}, layout, layout, layout, with_bias);
        check(dtype, {1, 33, 70}, layout, Layout::gaps, Layout::dense, with_bias);
      }
      check(dtype, {71, 131, 33}, Layout::dense, Layout::transposed, Layout::dense, with_bias);
      check(dtype, {4, 3, 0}, Layout::dense, Layout::dense, Layout::dense, with_bias);
      check(dtype, {0, 3, 2}, Layout::dense, Layout::dense, Layout::dense, with_bias);
      check(dtype, {3, 0, 2}, Layout::dense, Layout::dense, Layout::dense, with_bias);
    }
  }
}

inline double activation_value(tinytorch::backend::Activation fn, double x) {
  using tinytorch::backend::Activation;
  if (fn == Activation::relu) return x > 0 ? x : 0;
  if (fn == Activation::silu) return x / (1 + std::exp(-x));
  if (fn == Activation::gelu) return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
  if (fn == Activation::gelu_tanh) {
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
  }
  return x;
}
inline double activation_slope(tinytorch::backend::Activation fn, double z) {
  using tinytorch::backend::Activation;
  if (fn == Activation::relu) return z > 0 ? 1 : 0;
  if (fn == Activation::silu) {
    const double s = 1 / (1 + std::exp(-z));
    return s * (1 + z * (1 - s));
  }
  if (fn == Activation::gelu) {
    return 0.5 * std::erfc(-z / std::sqrt(2.0)) + z * std::exp(-z * z / 2) / std::sqrt(2 * std::acos(-1.0));
  }
  if (fn == Activation::gelu_tanh) {
    const double c = std::sqrt(2 / std::acos(-1.0)), t = std::tanh(c * (z + 0.044715 * z * z * z));
    return 0.5 * (1 + t) + 0.5 * z * (1 - t * t) * c * (1 + 3 * 0.044715 * z * z);
  }
  return 1;
}

struct GradActivationCase {
  int64_t M, N, F;
  tinytorch::backend::Activation fn;
  Layout layout;
  bool with_bias;
};

template <class A, class Kernel>
void check_linear_grad_activation(Kernel&& kernel, const GradActivationCase& c, DType dtype) {
  INFO(c.M, " x ", c.N, " x ", c.F, " activation ", static_cast<int>(c.fn), " bias ", c.with_bias);
  A dy = A::random(dtype, {c.M, c.N}, 1, -1, 1, c.layout),
    w = A::random(dtype, {c.N, c.F}, 2, -1, 1, c.layout),
    z = A::random(dtype, {c.M, c.F}, 3, -3, 3, c.layout), dz(dtype, {c.M, c.F}), db(dtype, {c.F});
  kernel(c.fn, dz.view(), c.with_bias ? db.view() : tinytorch::backend::View{}, dy.view(), w.view(),
         z.view());
  const std::vector<double> g = dy.values(), ws = w.values(), zs = z.values();
  const auto N = static_cast<size_t>(c.N), F = static_cast<size_t>(c.F);
  std::vector<double> want(zs.size()), sums(F);
  double largest = 0;  // sum of squares of a column
  std::vector<double> squares(F);
  for (size_t i = 0; i < want.size(); ++i) {
    for (size_t k = 0; k < N; ++k) want[i] += g[i / F * N + k] * ws[k * F + i % F];
    want[i] *= activation_slope(c.fn, zs[i]);
    sums[i % F] += want[i];
    largest = std::max(largest, squares[i % F] += want[i] * want[i]);
  }
  // 16-bit results may be rounded twice and be sums of rounded values; the errors are independent.
  const double rounding = epsilon_of(dtype) / epsilon_of(dtype == f64 ? f64 : f32);
  check_close(dz.values(), want, dtype, 60 + 0.1 * rounding);
  if (c.with_bias) check_close(db.values(), sums, dtype, 60 + rounding, 2 * std::sqrt(largest));
}

// kernel(fn, dz [M, F], dbias [F] or none, dy [M, N], weight [N, F], z [M, F]). A: Array or DeviceArray.
template <class A, class Kernel>
void check_linear_grad_activation(Kernel&& kernel) {
  using tinytorch::backend::Activation;
  for (const DType dtype : kFloating) {
    for (const Activation fn :
         {Activation::none, Activation::relu, Activation::silu, Activation::gelu, Activation::gelu_tanh}) {
      for (const bool with_bias : {true, false}) {
        check_linear_grad_activation<A>(kernel, {40, 16, 24, fn, Layout::dense, with_bias}, dtype);
        check_linear_grad_activation<A>(kernel, {9, 8, 16, fn, Layout::gaps, with_bias}, dtype);
        check_linear_grad_activation<A>(kernel, {5, 3, 7, fn, Layout::dense, with_bias}, dtype);
        check_linear_grad_activation<A>(kernel, {0, 8, 8, fn, Layout::dense, with_bias}, dtype);
        check_linear_grad_activation<A>(kernel, {3, 0, 8, fn, Layout::dense, with_bias}, dtype);
      }
    }
  }
}

}  // namespace test
