#include "support/array.hpp"

#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/backend/cpu/fused.hpp>
#include <tinytorch/backend/cpu/norm.hpp>

using namespace test;
namespace kernels = tinytorch::backend::cpu;
using tinytorch::backend::Activation;
using tinytorch::backend::ResidualNorm;

TEST_CASE("bias_activation against plain loops, forward and backward") {
  for (DType dtype : kFloating) {
    Array x = Array::random(dtype, {6, 5}, 1, -3, 3, Layout::gaps), b = Array::random(dtype, {5}, 2, -1, 1),
          g = Array::random(dtype, {6, 5}, 3, -1, 1);
    Array y(dtype, {6, 5}), dx(dtype, {6, 5}), db(dtype, {5});
    kernels::bias_activation(Activation::silu, y.view(), x.view(), b.view());
    kernels::bias_activation_grad(Activation::silu, dx.view(), db.view(), g.view(), x.view(), b.view());
    const std::vector<double> xs = x.values(), bs = b.values(), gs = g.values();
    std::vector<double> want(30), want_dx(30), want_db(5, 0.0);
    for (size_t i = 0; i < 30; ++i) {
      const double z = xs[i] + bs[i % 5], sigmoid = 1 / (1 + std::exp(-z));
      want[i] = z * sigmoid;
      want_dx[i] = gs[i] * sigmoid * (1 + z * (1 - sigmoid));
      want_db[i % 5] += want_dx[i];
    }
    check_close(y.values(), want, dtype, 16);
    check_close(dx.values(), want_dx, dtype, 16);
    check_close(db.values(), want_db, dtype, 64);
  }
}

TEST_CASE("residual_norm: the sum as stored, its statistics, and the way back") {
  const int64_t N = 4, C = 9;
  Array x = Array::random(f64, {N, C}, 1, -1, 1), r = Array::random(f64, {N, C}, 2, -1, 1);
  Array y(f64, {N, C}), s(f64, {N, C}), mean(f64, {N}), rstd(f64, {N});
  const ResidualNorm none{0.1, 0, 0, 0};
  kernels::residual_norm(y.view(), s.view(), mean.view(), rstd.view(), x.view(), r.view(), {}, {}, none);
  const std::vector<double> xs = x.values(), rs = r.values();
  for (size_t n = 0; n < 4; ++n) {
    double m = 0, v = 0;
    for (size_t c = 0; c < 9; ++c) m += (xs[n * 9 + c] + rs[n * 9 + c]) / 9;
    for (size_t c = 0; c < 9; ++c) v += std::pow(xs[n * 9 + c] + rs[n * 9 + c] - m, 2) / 9;
    CHECK(std::abs(mean.values()[n] - m) < 1e-14);
    CHECK(std::abs(y.values()[n * 9] - (xs[n * 9] + rs[n * 9] - m) / std::sqrt(v + 0.1)) < 1e-13);
  }
  // A gradient that enters only by the sum leaves by both operands as it is.
  Array ds = Array::random(f64, {N, C}, 3, -1, 1);
  Array zero(f64, {N, C}), dx(f64, {N, C}), dr(f64, {N, C});
  kernels::fill(zero.view(), 0.0);
  kernels::residual_norm_grad(dx.view(), dr.view(), {}, {}, zero.view(), ds.view(), s.view(), mean.view(),
                              rstd.view(), {}, none);
  check_close(dx.values(), ds.values(), f64, 2);
  check_close(dr.values(), ds.values(), f64, 2);
}

TEST_CASE("many rows, a few at a time: the bits of the kernels one after the other") {
  for (const int64_t C : {3, 257, 40'000}) {
    const int64_t N = 100'000 / C + 1;
    CAPTURE(C);
    Array x = Array::random(f32, {N, C}, 1, -3, 3), r = Array::random(f32, {N, C}, 2, -1, 1),
          apart = Array::random(f32, {N, C}, 2, -1, 1, Layout::gaps), b = Array::random(f32, {C}, 3, -1, 1);
    Array y(f32, {N, C}), s(f32, {N, C}), mean(f32, {N}), rstd(f32, {N});
    Array want(f32, {N, C}), want_s(f32, {N, C}), want_mean(f32, {N}), want_rstd(f32, {N});
    kernels::bias_activation(Activation::gelu, y.view(), x.view(), b.view());
    kernels::binary(backend::BinaryFn::add, want.view(), x.view(), b.view());
    kernels::unary(backend::UnaryFn::gelu, want.view(), want.view());
    CHECK(y.values() == want.values());

    kernels::binary(backend::BinaryFn::add, want_s.view(), x.view(), r.view());
    for (Array* residual : {&r, &apart}) {
      for (const bool centered : {true, false}) {
        const backend::View means = centered ? mean.view() : backend::View{},
                            bias = centered ? b.view() : backend::View{};
        kernels::residual_norm(y.view(), s.view(), means, rstd.view(), x.view(), residual->view(), b.view(),
                               bias, {1e-5, 0, 0, 0});
        if (centered)
          kernels::layer_norm(want.view(), want_mean.view(), want_rstd.view(), want_s.view(), b.view(), bias,
                              1e-5);
        if (!centered) kernels::rms_norm(want.view(), want_rstd.view(), want_s.view(), b.view(), 1e-5);
        CHECK(s.values() == want_s.values());
        CHECK(y.values() == want.values());
        CHECK(rstd.values() == want_rstd.values());
        if (centered) CHECK(mean.values() == want_mean.values());
      }
    }
  }
}
