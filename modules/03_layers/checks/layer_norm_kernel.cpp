#include <support/check.hpp>
#include <tinytorch/backend/cuda/launch.hpp>

using namespace course;

namespace {

struct Case {
  Shape shape;
  DType dtype = f32;
  Layout layout = Layout::contiguous;
  double center = 0;
  bool weight = true, bias = true, rms = false;
};

void check(const Case& c) {
  const DType wide = c.dtype == f64 ? f64 : f32;
  const int64_t C = c.shape.back(), rows = c.shape.numel() / C;
  Values x = Values::random(c.dtype, c.shape, c.layout, c.center - 2, c.center + 2).on_device();
  Values w = Values::random(c.dtype, {C}, c.layout, 0.5, 2).on_device();
  Values b = Values::random(c.dtype, {C}, c.layout, -1, 1).on_device();
  Values y = Values(c.dtype, c.shape, c.layout).on_device();
  Values mean = Values(wide, {rows}).on_device(), rstd = Values(wide, {rows}).on_device();
  const double eps = 1e-3, n = static_cast<double>(C);
  const Numbers xs = x.numbers(), ws = w.numbers(), bs = b.numbers();
  Numbers want(xs.size()), means, scales;
  for (size_t first = 0; first < xs.size(); first += ws.size()) {
    double m = 0, var = 0;
    for (size_t k = 0; k < ws.size(); ++k) m += c.rms ? 0 : xs[first + k] / n;
    for (size_t k = 0; k < ws.size(); ++k) var += (xs[first + k] - m) * (xs[first + k] - m) / n;
    const double scale = 1 / std::sqrt(var + eps);
    for (size_t k = 0; k < ws.size(); ++k) {
      want[first + k] = (xs[first + k] - m) * scale * (c.weight ? ws[k] : 1) + (c.bias && !c.rms ? bs[k] : 0);
    }
    means.push_back(m);
    scales.push_back(scale);
  }
  const View weight = c.weight ? w.view() : View{}, bias = c.bias ? b.view() : View{};
  if (c.rms) {
    backend::cuda::rms_norm(y.view(), rstd.view(), x.view(), weight, eps);
  } else {
    backend::cuda::layer_norm(y.view(), mean.view(), rstd.view(), x.view(), weight, bias, eps);
  }
  std::string of = std::string(c.rms ? "rms_norm of " : "layer_norm of ") + c.shape.str() + " " +
                   name_of(c.dtype) + ", " + name_of_layout(c.layout);
  if (c.center != 0) of += ", around " + shown(c.center);
  if (!c.weight) of += ", without weight";
  if (!c.bias) of += ", without bias";
  // If the mean of a row is large, its rounding error is lost precision of the distances from the mean.
  const double roundings = 64 * (1 + std::abs(c.center));
  if (!c.rms) expect_close(of + ": mean", mean, means, {.roundings = 16, .scale = 1 + std::abs(c.center)});
  expect_close(of + ": rstd", rstd, scales,
               {.roundings = roundings, .scale = scales.empty() ? 1 : scales[0]});
  expect_close(of + ": the result", y, want, {.roundings = roundings, .scale = 4});
}

}  // namespace

TEST_CASE("3.23 mean and variance of each row, and the row normalized by them") {
  check({.shape = {1, 4}, .weight = false, .bias = false});
  for (const int64_t C : {2, 31, 32, 33, 64, 100, 257})
    check({.shape = {3, C}, .weight = false, .bias = false});
}

TEST_CASE("3.23 any number of rows") {
  for (const int64_t rows : {1, 7, 8, 9, 40}) check({.shape = {rows, 5}});
  check({.shape = {2, 3, 9}});
  check({.shape = {0, 5}});
}

TEST_CASE("3.23 weight and bias, either of which may be absent") {
  check({.shape = {3, 40}});
  check({.shape = {3, 40}, .bias = false});
  check({.shape = {3, 40}, .weight = false});
}

TEST_CASE("3.23 a row with a large mean keeps the precision of its variance") {
  check({.shape = {3, 64}, .center = 1000});
  check({.shape = {3, 64}, .dtype = f64, .center = 1e6});
}

TEST_CASE("3.23 any dtype and layout") {
  for (const DType t : {f64, bf16, f16}) check({.shape = {3, 70}, .dtype = t});
  for (const Layout l : kLayouts) check({.shape = {2, 5, 17}, .layout = l});
}

TEST_CASE("3.23 rms_norm: without mean and bias") {
  for (const DType t : {f32, f64, bf16, f16}) check({.shape = {3, 40}, .dtype = t, .center = 1, .rms = true});
  check({.shape = {3, 40}, .weight = false, .rms = true});
}
