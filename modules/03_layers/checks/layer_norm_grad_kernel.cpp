#include <support/check.hpp>
#include <tinytorch/backend/cuda/launch.hpp>

using namespace course;

namespace {

enum Wanted { all, only_dx, only_parameters, without_weight };
struct Case {
  Shape shape;
  DType dtype = f32;
  Layout layout = Layout::contiguous;
  bool rms = false;
  Wanted wanted = all;
};

// sum(dy y) of one row, in double. Its differences are the reference of the gradient.
double loss_of_row(const Numbers& x, const Numbers& w, const Numbers& dy, bool rms, double eps) {
  double m = 0, var = 0, loss = 0;
  const double n = static_cast<double>(x.size());
  for (const double v : x) m += rms ? 0 : v / n;
  for (const double v : x) var += (v - m) * (v - m) / n;
  for (size_t k = 0; k < x.size(); ++k) loss += dy[k] * w[k] * (x[k] - m) / std::sqrt(var + eps);
  return loss;
}

struct Answer {
  Numbers dx, dw, db, means, scales;
};
constexpr double kEps = 1e-2;
Answer reference(const Numbers& xs, const Numbers& ws, const Numbers& gs, bool rms) {
  const double n = static_cast<double>(ws.size());
  Answer a{{}, Numbers(ws.size()), Numbers(ws.size()), {}, {}};
  for (size_t first = 0; first < xs.size(); first += ws.size()) {
    const auto at = [&](const Numbers& v) {
      return Numbers(v.begin() + static_cast<std::ptrdiff_t>(first),
                     v.begin() + static_cast<std::ptrdiff_t>(first + ws.size()));
    };
    Numbers row = at(xs);
    const Numbers g = at(gs);
    double m = 0, var = 0;
    for (const double v : row) m += rms ? 0 : v / n;
    for (const double v : row) var += (v - m) * (v - m) / n;
    a.means.push_back(m);
    a.scales.push_back(1 / std::sqrt(var + kEps));
    for (size_t k = 0; k < row.size(); ++k) {
      constexpr double kStep = 1e-4;
      const double x_k = row[k];
      const auto moved = [&](double steps) {
        row[k] = x_k + kStep * steps;
        return loss_of_row(row, ws, g, rms, kEps);
      };
      a.dx.push_back((moved(-2) - 8 * moved(-1) + 8 * moved(1) - moved(2)) / (12 * kStep));
      row[k] = x_k;
      a.dw[k] += g[k] * (x_k - m) * a.scales.back();
      a.db[k] += g[k];
    }
  }
  return a;
}

void check(const Case& c) {
  const DType wide = c.dtype == f64 ? f64 : f32;
  const int64_t columns = c.shape.back(), rows = c.shape.numel() / columns;
  const bool has_weight = c.wanted != without_weight;
  Values x = Values::random(c.dtype, c.shape, c.layout, -1, 3).on_device();
  Values dy = Values::random(c.dtype, c.shape, c.layout).on_device();
  Values w = Values::random(c.dtype, {columns}, c.layout, 0.5, 2).on_device();
  Values dx = Values(c.dtype, c.shape, c.layout).on_device();
  Values dw = Values(c.dtype, {columns}, c.layout).on_device(), db = Values(c.dtype, {columns}).on_device();
  const Numbers ws = has_weight ? w.numbers() : Numbers(static_cast<size_t>(columns), 1.0);
  const Answer want = reference(x.numbers(), ws, dy.numbers(), c.rms);
  Values mean = Values::of(wide, {rows}, want.means).on_device(),
         rstd = Values::of(wide, {rows}, want.scales).on_device();
  const View to_x = c.wanted == only_parameters ? View{} : dx.view();
  const View to_w = c.wanted == only_dx ? View{} : dw.view();
  const View to_b = c.wanted == only_dx || c.rms ? View{} : db.view();
  const View weight = has_weight ? w.view() : View{};
  if (c.rms) {
    backend::cuda::rms_norm_grad(to_x, to_w, dy.view(), x.view(), rstd.view(), weight);
  } else {
    backend::cuda::layer_norm_grad(to_x, to_w, to_b, dy.view(), x.view(), mean.view(), rstd.view(), weight);
  }
  std::string of = std::string(c.rms ? "rms_norm_grad" : "layer_norm_grad") + " of " + c.shape.str() + " " +
                   name_of(c.dtype) + ", " + name_of_layout(c.layout);
  if (!has_weight) of += ", without weight";
  if (c.wanted == only_dx) of += ", only dx";
  if (c.wanted == only_parameters) of += ", without dx";
  const double scale = want.scales.empty() ? 1 : *std::max_element(want.scales.begin(), want.scales.end());
  const double left_over = c.dtype == f64 ? 1e5 : 0;  // the error of the differences
  if (to_x.data) {
    expect_close(of + ": dx", dx, want.dx,
                 {.roundings = 64 + left_over, .scale = 4 * scale * (columns < 4 ? 10 : 1)});
  }
  const double terms = 16 + static_cast<double>(rows);
  if (to_w.data) expect_close(of + ": dweight", dw, want.dw, {.roundings = 2 * terms, .scale = 2 * scale});
  if (to_b.data) expect_close(of + ": dbias", db, want.db, {.roundings = terms});
}

}  // namespace

TEST_CASE("3.24 dx, also through the mean and the variance of the row") {
  check({.shape = {1, 4}, .wanted = only_dx});
  for (const int64_t C : {2, 31, 32, 33, 70}) check({.shape = {3, C}, .wanted = only_dx});
  for (const int64_t rows : {7, 8, 9, 20}) check({.shape = {rows, 5}, .wanted = only_dx});
}

TEST_CASE("3.24 dweight and dbias: sums over all rows") {
  for (const int64_t rows : {1, 8, 9, 63, 64, 65, 150})
    check({.shape = {rows, 5}, .wanted = only_parameters});
  for (const int64_t C : {31, 32, 33, 65}) check({.shape = {10, C}});
}

TEST_CASE("3.24 without a weight, and for rms_norm") {
  check({.shape = {5, 40}, .wanted = without_weight});
  check({.shape = {5, 40}, .rms = true});
  check({.shape = {70, 6}, .rms = true, .wanted = without_weight});
}

TEST_CASE("3.24 any dtype and layout") {
  for (const DType t : {f64, bf16, f16}) check({.shape = {9, 40}, .dtype = t});
  for (const Layout l : kLayouts) check({.shape = {2, 5, 17}, .layout = l});
}

TEST_CASE("3.24 with 0 rows the gradients of the parameters are zero") { check({.shape = {0, 5}}); }
