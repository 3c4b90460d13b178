#include <support/check.hpp>
#include <tinytorch/backend/cuda/launch.hpp>
#include <tinytorch/core/random.hpp>

using namespace course;

namespace {

struct Case {
  Shape shape;
  DType dtype = f32;
  Layout layout = Layout::contiguous;
  double p = 0;  // probability of dropout
  bool rms = false, parameters = true, adds = true;
};
std::string text(const char* what, const Case& c) {
  std::string s = std::string(what) + " of " + c.shape.str() + " " + name_of(c.dtype) + ", " +
                  name_of_layout(c.layout) + (c.rms ? ", rms" : "");
  if (c.p > 0) s += ", dropout " + shown(c.p);
  if (!c.parameters) s += ", without weight and bias";
  return s;
}
constexpr double kEps = 1e-3;
constexpr uint64_t kSeed = 5, kFirst = 9;
double kept(const Case& c, size_t i) {
  if (c.p == 0) return 1;
  return static_cast<double>(philox(kSeed, kFirst + i / 4).v[i % 4]) >= c.p * 0x1p32 ? 1 / (1 - c.p) : 0;
}
// The error of one more rounding to 16 bits, which the library's composition makes if it applies dropout.
double stored(const Case& c) { return epsilon_of(c.dtype) / epsilon_of(c.dtype == f64 ? f64 : f32); }

struct Statistics {
  Numbers mean, rstd;
};
Statistics statistics(const Case& c, const Numbers& s, size_t columns) {
  Statistics all;
  for (size_t first = 0; first < s.size(); first += columns) {
    const double n = static_cast<double>(columns);
    double m = 0, var = 0;
    for (size_t k = 0; k < columns; ++k) m += c.rms ? 0 : s[first + k] / n;
    for (size_t k = 0; k < columns; ++k) var += (s[first + k] - m) * (s[first + k] - m) / n;
    all.mean.push_back(m);
    all.rstd.push_back(1 / std::sqrt(var + kEps));
  }
  return all;
}

void check_forward(const Case& c) {
  const DType wide = c.dtype == f64 ? f64 : f32;
  const int64_t columns = c.shape.back(), rows = c.shape.numel() / columns;
  Values x = Values::random(c.dtype, c.shape, c.layout, 1, 3).on_device();
  Values residual = Values::random(c.dtype, c.shape, c.layout, -2, 2).on_device();
  Values w = Values::random(c.dtype, {columns}, c.layout, 0.5, 2).on_device();
  Values b = Values::random(c.dtype, {columns}, c.layout).on_device();
  Values out = Values(c.dtype, c.shape, c.layout).on_device(),
         sum = Values(c.dtype, c.shape, c.layout).on_device();
  Values mean = Values(wide, {rows}).on_device(), rstd = Values(wide, {rows}).on_device();
  const Numbers xs = x.numbers(), rs = residual.numbers();
  Numbers want(xs.size());
  for (size_t i = 0; i < xs.size(); ++i) want[i] = rs[i] + xs[i] * kept(c, i);
  const View center = c.rms ? View{} : mean.view();
  backend::cuda::residual_norm(out.view(), sum.view(), center, rstd.view(), x.view(), residual.view(),
                               c.parameters ? w.view() : View{}, c.parameters && !c.rms ? b.view() : View{},
                               {kEps, c.p, kSeed, kFirst});
  const std::string of = text("residual_norm", c);
  expect_close(of + ": sum", sum, want, {.roundings = 8 + (c.p > 0 ? 2 * stored(c) : 0), .scale = 4});
  // The norm is computed from the sum as stored.
  const Numbers s = sum.numbers(), ws = w.numbers(), bs = b.numbers();
  const Statistics all = statistics(c, s, ws.size());
  for (size_t i = 0; i < s.size(); ++i) {
    const size_t k = i % ws.size();
    want[i] = (s[i] - all.mean[i / ws.size()]) * all.rstd[i / ws.size()];
    if (c.parameters) want[i] = want[i] * ws[k] + (c.rms ? 0 : bs[k]);
  }
  if (!c.rms) expect_close(of + ": mean of the stored sum", mean, all.mean, {.roundings = 16, .scale = 4});
  expect_close(of + ": rstd of the stored sum", rstd, all.rstd, {.roundings = 128, .scale = 4});
  expect_close(of + ": out", out, want, {.roundings = 256, .scale = 4});
}

void check_backward(const Case& c) {
  const DType wide = c.dtype == f64 ? f64 : f32;
  const int64_t columns = c.shape.back(), rows = c.shape.numel() / columns;
  Values sum = Values::random(c.dtype, c.shape, c.layout, -1, 3).on_device();
  Values dout = Values::random(c.dtype, c.shape, c.layout).on_device();
  Values dsum = Values::random(c.dtype, c.shape, c.layout).on_device();
  Values w = Values::random(c.dtype, {columns}, c.layout, 0.5, 2).on_device();
  Values dx = Values(c.dtype, c.shape, c.layout).on_device(),
         dr = Values(c.dtype, c.shape, c.layout).on_device();
  Values dw = Values(c.dtype, {columns}, c.layout).on_device(), db = Values(c.dtype, {columns}).on_device();
  const Numbers s = sum.numbers(), g = dout.numbers(), gs = dsum.numbers(), ws = w.numbers();
  const size_t C = ws.size();
  const Statistics all = statistics(c, s, C);
  Values mean = Values::of(wide, {rows}, all.mean).on_device(),
         rstd = Values::of(wide, {rows}, all.rstd).on_device();
  Numbers want_r(s.size()), want_x(s.size()), want_w(C), want_b(C);
  for (size_t first = 0; first < s.size(); first += C) {
    const double m = all.mean[first / C], scale = all.rstd[first / C], n = static_cast<double>(C);
    double mean_g = 0, mean_gh = 0;
    for (size_t k = 0; k < C; ++k) {
      const double slope = g[first + k] * (c.parameters ? ws[k] : 1), h = (s[first + k] - m) * scale;
      mean_g += c.rms ? 0 : slope / n;
      mean_gh += slope * h / n;
      want_w[k] += g[first + k] * h;
      want_b[k] += g[first + k];
    }
    for (size_t k = 0; k < C; ++k) {
      const size_t i = first + k;
      const double slope = g[i] * (c.parameters ? ws[k] : 1), h = (s[i] - m) * scale;
      want_r[i] = scale * (slope - mean_g - h * mean_gh) + (c.adds ? gs[i] : 0);
      want_x[i] = want_r[i] * kept(c, i);
    }
  }
  const View center = c.rms ? View{} : mean.view(), to_b = c.rms || !c.parameters ? View{} : db.view();
  backend::cuda::residual_norm_grad(dx.view(), dr.view(), c.parameters ? dw.view() : View{}, to_b,
                                    dout.view(), c.adds ? dsum.view() : View{}, sum.view(), center,
                                    rstd.view(), c.parameters ? w.view() : View{},
                                    {kEps, c.p, kSeed, kFirst});
  const std::string of = text("residual_norm_grad", c);
  const double scale = all.rstd.empty() ? 1 : *std::max_element(all.rstd.begin(), all.rstd.end());
  const Tolerance close{.roundings = 128, .scale = 4 * scale};
  expect_close(of + ": dresidual", dr, want_r, close);
  expect_close(of + ": dx", dx, want_x, {.roundings = 128 + stored(c), .scale = 4 * scale / (1 - c.p)});
  if (c.parameters)
    expect_close(of + ": dweight", dw, want_w, {.roundings = 64.0 + 2.0 * rows, .scale = 2 * scale});
  if (to_b.data) expect_close(of + ": dbias", db, want_b, {.roundings = 16.0 + rows});
}

}  // namespace

TEST_CASE("4.18 the sum, and its layer norm") {
  check_forward({.shape = {1, 4}, .parameters = false});
  for (const int64_t C : {2, 31, 32, 33, 100}) check_forward({.shape = {3, C}});
  for (const int64_t rows : {7, 8, 9}) check_forward({.shape = {rows, 5}});
}

TEST_CASE("4.18 16-bit: the norm is computed from the sum as stored") {
  for (const DType t : {bf16, f16}) check_forward({.shape = {4, 40}, .dtype = t});
}

TEST_CASE("4.18 dropout acts on x, not on the residual") {
  check_forward({.shape = {3, 37}, .p = 0.3});
  Values x = Values::of(f32, {1, 64}, Numbers(64, NAN)).on_device();
  Values r = Values::random(f32, {1, 64}).on_device();
  Values sum = Values(f32, {1, 64}).on_device(), out = Values(f32, {1, 64}).on_device();
  Values mean = Values(f32, {1}).on_device(), rstd = Values(f32, {1}).on_device();
  backend::cuda::residual_norm(out.view(), sum.view(), mean.view(), rstd.view(), x.view(), r.view(), {}, {},
                               {kEps, 1, kSeed, kFirst});
  expect_close("residual_norm with an x of NaN, all of it dropped: the sum", sum, r.numbers(),
               {.roundings = 0});
}

TEST_CASE("4.18 rms_norm, f64, any layout") {
  check_forward({.shape = {3, 40}, .rms = true});
  check_forward({.shape = {3, 40}, .dtype = f64, .p = 0.2});
  for (const Layout l : kLayouts) check_forward({.shape = {2, 3, 17}, .layout = l, .p = 0.2});
  check_forward({.shape = {0, 4}});
}

TEST_CASE("4.18 the gradients through the norm, plus the gradient of the sum itself") {
  check_backward({.shape = {1, 4}, .parameters = false, .adds = false});
  check_backward({.shape = {3, 33}, .adds = false});
  check_backward({.shape = {9, 40}});
  check_backward({.shape = {30, 6}});
}

TEST_CASE("4.18 the gradients with dropout, of rms_norm, any dtype and layout") {
  check_backward({.shape = {3, 37}, .p = 0.3});
  check_backward({.shape = {3, 37}, .rms = true});
  for (const DType t : {f64, bf16, f16}) check_backward({.shape = {5, 40}, .dtype = t, .p = 0.2});
  for (const Layout l : kLayouts) check_backward({.shape = {2, 3, 17}, .layout = l});
  check_backward({.shape = {0, 4}});
}
