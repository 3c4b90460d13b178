#include <support/array.hpp>

#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/backend/cpu/norm.hpp>
#include <tinytorch/backend/cpu/residual_norm.hpp>

using namespace test;
namespace kernels = tinytorch::backend::cpu;
using tinytorch::backend::ResidualNorm;

TEST_CASE("residual_norm: the stored sum, its statistics, and the gradients") {
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
  // A gradient of the sum alone reaches both operands unchanged.
  Array ds = Array::random(f64, {N, C}, 3, -1, 1);
  Array zero(f64, {N, C}), dx(f64, {N, C}), dr(f64, {N, C});
  kernels::fill(zero.view(), 0.0);
  kernels::residual_norm_grad(dx.view(), dr.view(), {}, {}, zero.view(), ds.view(), s.view(), mean.view(),
                              rstd.view(), {}, none);
  check_close(dx.values(), ds.values(), f64, 2);
  check_close(dr.values(), ds.values(), f64, 2);
}

TEST_CASE("gradients of residual_norm are those of the norm plus those of the sum") {
  for (const DType dtype : kFloating) {
    const int64_t N = 70, C = 33;
    CAPTURE(static_cast<int>(dtype));
    const DType wide = dtype == f64 ? f64 : f32;
    Array s = Array::random(dtype, {N, C}, 1, -2, 2),
          g = Array::random(dtype, {N, C}, 2, -1, 1, Layout::gaps),
          ds = Array::random(dtype, {N, C}, 3, -1, 1, Layout::gaps), w = Array::random(dtype, {C}, 4, 0.5, 2);
    Array y(dtype, {N, C}), mean(wide, {N}), rstd(wide, {N});
    for (const bool centered : {true, false}) {
      const backend::View means = centered ? mean.view() : backend::View{};
      if (centered) kernels::layer_norm(y.view(), mean.view(), rstd.view(), s.view(), w.view(), {}, 1e-5);
      if (!centered) kernels::rms_norm(y.view(), rstd.view(), s.view(), w.view(), 1e-5);
      Array norm(wide, {N, C}), want_dw(dtype, {C}), want_db(dtype, {C});
      kernels::layer_norm_grad(norm.view(), want_dw.view(), want_db.view(), g.view(), s.view(), means,
                               rstd.view(), w.view());
      Array dx(dtype, {N, C}), dr(dtype, {N, C}), dw(dtype, {C}), db(dtype, {C});
      kernels::residual_norm_grad(dx.view(), dr.view(), dw.view(), db.view(), g.view(), ds.view(), s.view(),
                                  means, rstd.view(), w.view(), {1e-5, 0, 0, 0});
      std::vector<double> want = norm.values();
      const std::vector<double> more = ds.values();
      for (size_t i = 0; i < want.size(); ++i) want[i] += more[i];
      check_close(dr.values(), want, dtype, 16);
      CHECK(dx.values() == dr.values());
      CHECK(dw.values() == want_dw.values());
      CHECK(db.values() == want_db.values());
    }
  }
}

TEST_CASE("row groups equal the separate kernels bit by bit") {
  for (const int64_t C : {3, 257, 40'000}) {
    const int64_t N = 100'000 / C + 1;
    CAPTURE(C);
    Array x = Array::random(f32, {N, C}, 1, -3, 3), r = Array::random(f32, {N, C}, 2, -1, 1),
          apart = Array::random(f32, {N, C}, 2, -1, 1, Layout::gaps), b = Array::random(f32, {C}, 3, -1, 1);
    Array y(f32, {N, C}), s(f32, {N, C}), mean(f32, {N}), rstd(f32, {N});
    Array want(f32, {N, C}), want_s(f32, {N, C}), want_mean(f32, {N}), want_rstd(f32, {N});
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
