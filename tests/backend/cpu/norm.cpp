#include <support/array.hpp>

#include <tinytorch/backend/cpu/norm.hpp>
#include <tinytorch/core/parallel.hpp>
#include <utility>

using namespace test;
using backend::View;
namespace kernels = tinytorch::backend::cpu;

namespace {

constexpr double kEps = 1e-5;

struct Expected {
  std::vector<double> y, dx, dw, db;
};
Expected reference(const std::vector<double>& x, const std::vector<double>& w, const std::vector<double>& b,
                   const std::vector<double>& dy, size_t C, bool centered) {
  Expected e{std::vector<double>(x.size()), std::vector<double>(x.size()), std::vector<double>(C),
             std::vector<double>(C)};
  const auto n = static_cast<double>(C);
  for (size_t r = 0; r < x.size(); r += C) {
    double mean = 0, var = 0, mean_g = 0, mean_gh = 0;
    for (size_t i = 0; centered && i < C; ++i) mean += x[r + i] / n;
    for (size_t i = 0; i < C; ++i) var += (x[r + i] - mean) * (x[r + i] - mean) / n;
    const double rstd = 1 / std::sqrt(var + kEps);
    for (size_t i = 0; i < C; ++i) {
      const double h = (x[r + i] - mean) * rstd;
      e.y[r + i] = h * w[i] + b[i];
      e.dw[i] += dy[r + i] * h;
      e.db[i] += dy[r + i];
      if (centered) mean_g += dy[r + i] * w[i] / n;
      mean_gh += dy[r + i] * w[i] * h / n;
    }
    for (size_t i = 0; i < C; ++i) {
      const double h = (x[r + i] - mean) * rstd;
      e.dx[r + i] = rstd * (dy[r + i] * w[i] - mean_g - h * mean_gh);
    }
  }
  return e;
}

void check_shape(const Shape& shape, DType dtype, Layout layout, bool with_parameters) {
  const int64_t C = shape.back();
  const Shape rows(shape.begin(), shape.end() - 1);
  const DType wide = dtype == f64 ? f64 : f32;
  Array x = Array::random(dtype, shape, 1, -2, 6, layout), dy = Array::random(dtype, shape, 2, -1, 1, layout);
  Array w = Array::random(dtype, {C}, 3, 0.5, 2, layout), b = Array::random(dtype, {C}, 4, -1, 1, layout);
  const View weight = with_parameters ? w.view() : View{}, bias = with_parameters ? b.view() : View{};
  const auto count = static_cast<size_t>(C);
  const std::vector<double> ws = with_parameters ? w.values() : std::vector<double>(count, 1.0);
  const std::vector<double> bs = with_parameters ? b.values() : std::vector<double>(count, 0.0);
  for (bool centered : {true, false}) {
    Array y(dtype, shape), mean(wide, rows), rstd(wide, rows), dx(dtype, shape), dw(dtype, {C}),
        db(dtype, {C});
    if (centered) {
      kernels::layer_norm(y.view(), mean.view(), rstd.view(), x.view(), weight, bias, kEps);
      kernels::layer_norm_grad(dx.view(), dw.view(), db.view(), dy.view(), x.view(), mean.view(), rstd.view(),
                               weight);
    } else {
      kernels::rms_norm(y.view(), rstd.view(), x.view(), weight, kEps);
      kernels::rms_norm_grad(dx.view(), dw.view(), dy.view(), x.view(), rstd.view(), weight);
    }
    const Expected e = reference(x.values(), ws, centered ? bs : std::vector<double>(count, 0.0), dy.values(),
                                 count, centered);
    const double gain = C == 1 ? 1 / std::sqrt(kEps) : 4;  // rows of one value: rstd is 1 / sqrt(eps)
    check_close(y.values(), e.y, dtype, 40, gain);
    check_close(dx.values(), e.dx, dtype, 100, gain);
    check_close(dw.values(), e.dw, dtype, 200, gain);
    if (centered) check_close(db.values(), e.db, dtype, 100);
  }
}

}  // namespace

TEST_CASE("layer_norm and rms_norm and their gradients equal the definition") {
  for (DType dtype : kFloating) {
    for (int64_t C : {1, 2, 3, 15, 16, 17, 31, 33, 128, 769, 1025}) {
      for (bool parameters : {true, false}) {
        check_shape({7, C}, dtype, Layout::dense, parameters);
        check_shape({3, 2, C}, dtype, Layout::gaps, parameters);
      }
    }
    check_shape({403, 5}, dtype, Layout::dense, true);  // several blocks of rows
    check_shape({2, 32'768}, dtype, Layout::dense, true);
    check_shape({3, 33'001}, dtype, Layout::gaps, false);
  }
  check_shape({70, 32'771}, f32, Layout::dense, true);  // more long rows than one sum in f32 takes
  check_shape({1, 131'073}, f32, Layout::dense, true);  // a row that threads share
}

TEST_CASE("layer_norm is accurate for values far from zero") {
  std::vector<double> values;
  for (int i = 0; i < 64; ++i) values.push_back(4096 + i % 2);  // variance 1/4; the mean square is 1.7e7
  Array x = Array::from(f32, {1, 64}, values), y(f32, {1, 64}), mean(f32, {1}), rstd(f32, {1});
  kernels::layer_norm(y.view(), mean.view(), rstd.view(), x.view(), {}, {}, 0);
  for (size_t i = 0; i < 64; ++i) CHECK(y.values()[i] == doctest::Approx(i % 2 == 1 ? 1 : -1));
}

TEST_CASE("parameter gradients are as accurate over many rows as over few") {
  const Shape shape{200'003, 5};
  for (const double low : {-1.0, 0.0}) {
    Array x = Array::random(f32, shape, 1, -2, 6), dy = Array::random(f32, shape, 2, low, 1);
    Array y(f32, shape), mean(f32, {shape[0]}), rstd(f32, {shape[0]}), dw(f32, {5}), db(f32, {5});
    kernels::layer_norm(y.view(), mean.view(), rstd.view(), x.view(), {}, {}, kEps);
    kernels::layer_norm_grad({}, dw.view(), db.view(), dy.view(), x.view(), mean.view(), rstd.view(), {});
    const std::vector<double> g = dy.values(), h = y.values(), got_dw = dw.values(), got_db = db.values();
    for (size_t c = 0; c < 5; ++c) {
      double sum = 0, size = 0, dot = 0, dot_size = 0;
      for (size_t i = c; i < g.size(); i += 5) {
        sum += g[i], size += std::abs(g[i]);
        dot += g[i] * h[i], dot_size += std::abs(g[i] * h[i]);
      }
      CHECK(std::abs(got_db[c] - sum) <= 1e-7 * size);
      CHECK(std::abs(got_dw[c] - dot) <= 1e-7 * dot_size);
    }
  }
}

TEST_CASE("a row has the bits that it has alone, at every width") {
  for (const DType dtype : {f32, f64, bf16}) {
    for (const int64_t C : {1, 5, 12, 31, 32, 36, 75, 300, 1100, 40'000}) {
      CAPTURE(C);
      const int64_t rows = C > 10'000 ? 3 : 150;
      Array x = Array::random(dtype, {rows, C}, 5, -2, 6);
      Array w = Array::random(dtype, {C}, 6, 0.5, 2), b = Array::random(dtype, {C}, 7, -1, 1);
      for (const bool centered : {true, false}) {
        const auto normalized = [&](const std::vector<double>& values) {
          const auto n = static_cast<int64_t>(values.size()) / C;
          Array from = Array::from(dtype, {n, C}, values), y(dtype, {n, C});
          Array mean(dtype == f64 ? f64 : f32, {n}), rstd(mean.view().dtype, {n});
          if (centered)
            kernels::layer_norm(y.view(), mean.view(), rstd.view(), from.view(), w.view(), b.view(), kEps);
          else
            kernels::rms_norm(y.view(), rstd.view(), from.view(), w.view(), kEps);
          return y.values();
        };
        const std::vector<double> values = x.values(), all = normalized(values);
        int64_t different = 0;
        for (int64_t r = 0; r < rows; r += 7) {
          const auto row = [&](const std::vector<double>& v) {
            return std::vector<double>(v.begin() + r * C, v.begin() + (r + 1) * C);
          };
          different += normalized(row(values)) != row(all);
        }
        CHECK(different == 0);
      }
    }
  }
}

TEST_CASE("layer_norm gives the same bits at any thread count") {
  const int before = thread_count();
  for (const auto& [rows, C] : {std::pair<int64_t, int64_t>{301, 40}, {7001, 9}, {2, 140'001}}) {
    Array x = Array::random(f32, {rows, C}, 1), dy = Array::random(f32, {rows, C}, 2);
    std::vector<std::vector<double>> first;
    for (int threads : {1, 2, 5}) {
      set_thread_count(threads);
      Array y(f32, {rows, C}), mean(f32, {rows}), rstd(f32, {rows}), dx(f32, {rows, C}), dw(f32, {C}),
          db(f32, {C});
      kernels::layer_norm(y.view(), mean.view(), rstd.view(), x.view(), {}, {}, kEps);
      kernels::layer_norm_grad(dx.view(), dw.view(), db.view(), dy.view(), x.view(), mean.view(), rstd.view(),
                               {});
      const std::vector<std::vector<double>> got{y.values(), dx.values(), dw.values(), db.values()};
      if (threads == 1) first = got;
      CHECK(got == first);
    }
  }
  set_thread_count(before);
}

TEST_CASE("`added` is added to dx, and any result may be without data") {
  for (const auto& [rows, C] : {std::pair<int64_t, int64_t>{130, 9}, {5, 40}, {2, 33'000}}) {
    const Shape shape{rows, C};
    Array x = Array::random(f32, shape, 1), dy = Array::random(f32, shape, 2),
          more = Array::random(f32, shape, 3);
    Array y(f32, shape), mean(f32, {rows}), rstd(f32, {rows}), dx(f32, shape), sum(f32, shape), dw(f32, {C}),
        db(f32, {C}), only_db(f32, {C});
    kernels::layer_norm(y.view(), mean.view(), rstd.view(), x.view(), {}, {}, kEps);
    const auto grad = [&](const View& to, const View& to_weight, const View& to_bias, const View& added) {
      kernels::layer_norm_grad(to, to_weight, to_bias, dy.view(), x.view(), mean.view(), rstd.view(), {},
                               added);
    };
    grad(dx.view(), dw.view(), db.view(), {});
    grad(sum.view(), {}, {}, more.view());
    grad({}, {}, only_db.view(), {});
    const std::vector<double> others = more.values();
    std::vector<double> want = dx.values();
    for (size_t i = 0; i < want.size(); ++i) want[i] += others[i];
    check_close(sum.values(), want, f32, 8, 4);
    CHECK(only_db.values() == db.values());
  }
}
