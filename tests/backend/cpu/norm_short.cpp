// Short rows that are normalized together, compared with the same rows one by one.
#include <support/array.hpp>

#include <tinytorch/backend/cpu/norm.hpp>

using namespace test;
namespace kernels = tinytorch::backend::cpu;

TEST_CASE("rows that are normalized together equal rows normalized alone, for any number of rows") {
  constexpr double kEps = 1e-5;
  for (const int64_t C : {1, 3, 7, 16, 31}) {
    for (const int64_t rows : {2, 15, 127, 128, 129, 300}) {
      const Shape shape{rows, C};
      Array x = Array::random(f64, shape, 1, -2, 6), dy = Array::random(f64, shape, 2, -1, 1);
      Array w = Array::random(f64, {C}, 3, 0.5, 2), b = Array::random(f64, {C}, 4, -1, 1);
      Array y(f64, shape), mean(f64, {rows}), rstd(f64, {rows}), dx(f64, shape), dw(f64, {C}), db(f64, {C});
      kernels::layer_norm(y.view(), mean.view(), rstd.view(), x.view(), w.view(), b.view(), kEps);
      kernels::layer_norm_grad(dx.view(), dw.view(), db.view(), dy.view(), x.view(), mean.view(), rstd.view(),
                               w.view());
      std::vector<double> want_y, want_dx, want_dw(static_cast<size_t>(C)), want_db(static_cast<size_t>(C));
      const std::vector<double> xs = x.values(), dys = dy.values();
      for (int64_t r = 0; r < rows; ++r) {  // a single row is not transposed
        const auto row_of = [&](const std::vector<double>& v) {
          return Array::from(f64, {1, C}, std::vector<double>(v.begin() + r * C, v.begin() + (r + 1) * C));
        };
        Array x1 = row_of(xs), dy1 = row_of(dys), y1(f64, {1, C}), mean1(f64, {1}), rstd1(f64, {1}),
              dx1(f64, {1, C}), dw1(f64, {C}), db1(f64, {C});
        kernels::layer_norm(y1.view(), mean1.view(), rstd1.view(), x1.view(), w.view(), b.view(), kEps);
        kernels::layer_norm_grad(dx1.view(), dw1.view(), db1.view(), dy1.view(), x1.view(), mean1.view(),
                                 rstd1.view(), w.view());
        for (const double v : y1.values()) want_y.push_back(v);
        for (const double v : dx1.values()) want_dx.push_back(v);
        const std::vector<double> dw1s = dw1.values(), db1s = db1.values();
        for (size_t i = 0; i < want_dw.size(); ++i) {
          want_dw[i] += dw1s[i];
          want_db[i] += db1s[i];
        }
      }
      const double gain = C == 1 ? 1 / std::sqrt(kEps) : 8;
      check_close(y.values(), want_y, f64, 40, gain);
      check_close(dx.values(), want_dx, f64, 100, gain);
      check_close(dw.values(), want_dw, f64, 400, gain);
      check_close(db.values(), want_db, f64, 400, gain);
    }
  }
}
