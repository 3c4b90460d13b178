#include <support/check.hpp>
#include <tinytorch/backend/cpu/pool.hpp>

using namespace course;
using backend::View;
using backend::Window2d;
using backend::window_outputs;
namespace cpu = tinytorch::backend::cpu;

namespace {

struct Pooled {
  Shape x, out;
  Window2d window;
  Pooled(const Shape& shape, const Window2d& w)
      : x(shape),
        out{shape[0], shape[1], window_outputs(shape[2], w.kernel_h, w),
            window_outputs(shape[3], w.kernel_w, w)},
        window(w) {}
  std::string text(const char* name, Layout layout) const {
    return std::string(name) + " of " + x.str() + ", window " + std::to_string(window.kernel_h) + " x " +
           std::to_string(window.kernel_w) + ", stride " + std::to_string(window.stride) + ", padding " +
           std::to_string(window.padding) + ", " + name_of_layout(layout);
  }
  // The positions in x of the window of output o, in row-major order.
  std::vector<size_t> under(int64_t o) const {
    const int64_t ow = o % out[3], oh = o / out[3] % out[2], plane = o / (out[3] * out[2]);
    std::vector<size_t> places;
    for (int64_t k = 0; k < window.kernel_h * window.kernel_w; ++k) {
      const int64_t h = oh * window.stride - window.padding + k / window.kernel_w;
      const int64_t w = ow * window.stride - window.padding + k % window.kernel_w;
      if (h >= 0 && h < x[2] && w >= 0 && w < x[3])
        places.push_back(static_cast<size_t>((plane * x[2] + h) * x[3] + w));
    }
    return places;
  }
};

const Pooled kCases[] = {{{1, 1, 4, 6}, {2, 2, 2}},    {{2, 3, 5, 7}, {3, 2, 1}},
                         {{1, 2, 7, 5}, {2, 3, 3}},    {{2, 1, 6, 5}, {3, 3, 2, 1}},
                         {{1, 2, 3, 4}, {3, 4, 1, 1}}, {{2, 2, 5, 3}, {1, 1, 2}}};

struct MaxResult {
  Numbers y;
  std::vector<size_t> places;
};
MaxResult max_reference(const Pooled& p, const Numbers& x) {
  MaxResult r;
  for (int64_t o = 0; o < p.out.numel(); ++o) {
    const std::vector<size_t> under = p.under(o);
    size_t best = under[0];
    for (size_t i : under) best = x[i] > x[best] || (std::isnan(x[i]) && !std::isnan(x[best])) ? i : best;
    r.y.push_back(x[best]);
    r.places.push_back(best);
  }
  return r;
}

void check_max(const Pooled& p, DType dtype, Layout layout, Values x) {
  Values out(dtype, p.out, layout), index(i32, p.out);
  const MaxResult want = max_reference(p, x.numbers());
  cpu::max_pool2d(out.view(), index.view(), x.view(), p.window);
  expect_close(p.text("max_pool2d", layout), out, want.y, {.roundings = 0});
  Numbers places;
  for (size_t place : want.places)
    places.push_back(static_cast<double>(place % static_cast<size_t>(p.x[2] * p.x[3])));
  expect_close("positions h W + w of the maxima, " + p.text("max_pool2d", layout), index, places);

  Values dy = Values::random(dtype, p.out, layout), dx(dtype, p.x, layout);
  const Numbers g = dy.numbers();
  Numbers sums(x.numbers().size());
  for (size_t o = 0; o < g.size(); ++o) sums[want.places[o]] += g[o];
  cpu::max_pool2d_grad(dx.view(), dy.view(), index.view(), p.window);
  expect_close(p.text("max_pool2d_grad", layout), dx, sums, {.scale = 4});
}
void check_average(const Pooled& p, DType dtype, Layout layout) {
  const double count = static_cast<double>(p.window.kernel_h * p.window.kernel_w);
  Values x = Values::random(dtype, p.x, layout), out(dtype, p.out, layout);
  Values dy = Values::random(dtype, p.out, layout), dx(dtype, p.x, layout);
  const Numbers numbers = x.numbers(), g = dy.numbers();
  Numbers want(g.size()), sums(numbers.size());
  for (size_t o = 0; o < g.size(); ++o) {
    for (size_t i : p.under(static_cast<int64_t>(o))) {
      want[o] += numbers[i] / count;
      sums[i] += g[o] / count;
    }
  }
  cpu::avg_pool2d(out.view(), x.view(), p.window);
  expect_close(p.text("avg_pool2d", layout), out, want, {.roundings = 8});
  cpu::avg_pool2d_grad(dx.view(), dy.view(), p.window);
  expect_close(p.text("avg_pool2d_grad", layout), dx, sums, {.roundings = 8});
}

}  // namespace

TEST_CASE("3.7 the maximum of each window, its position, and its gradient") {
  Values x = Values::of(f32, {1, 1, 2, 4}, {1, 5, -2, -3, 4, 2, -9, -4}), out(f32, {1, 1, 1, 2}),
         index(i32, {1, 1, 1, 2});
  cpu::max_pool2d(out.view(), index.view(), x.view(), {2, 2, 2});
  expect_close("max_pool2d of [[1 5 -2 -3] [4 2 -9 -4]], window 2 x 2, stride 2", out, {5, -2});
  expect_close("positions h W + w of these maxima", index, {1, 2});
  for (const Pooled& p : kCases)
    check_max(p, f32, Layout::contiguous, Values::random(f32, p.x, Layout::contiguous, -9, -1));
}

TEST_CASE("3.7 the first of equal maxima, and NaN where a window has one") {
  const Pooled& p = kCases[1];
  check_max(p, f32, Layout::contiguous, Values::of(f32, p.x, Numbers(static_cast<size_t>(p.x.numel()), 2.5)));
  check_max(p, f32, Layout::contiguous,
            Values::of(f32, p.x, Numbers(static_cast<size_t>(p.x.numel()), -HUGE_VAL)));
  Values x = Values::random(f32, p.x);
  Numbers numbers = x.numbers();
  numbers[9] = NAN;
  Values out(f32, p.out), index(i32, p.out);
  const MaxResult want = max_reference(p, numbers);
  Values with_nan = Values::of(f32, p.x, numbers);
  cpu::max_pool2d(out.view(), index.view(), with_nan.view(), p.window);
  expect_close("max_pool2d with a NaN at [0, 0, 1, 2], " + p.text("max_pool2d", Layout::contiguous), out,
               want.y);
}

TEST_CASE("3.7 the mean of each window, and its gradient") {
  for (const Pooled& p : kCases) check_average(p, f32, Layout::contiguous);
}

TEST_CASE("3.7 any layout and dtype") {
  const Pooled& p = kCases[3];
  for (const DType dtype : {f32, f64, bf16, f16}) {
    for (const Layout layout : kLayouts) {
      check_max(p, dtype, layout, Values::random(dtype, p.x, layout));
      check_average(p, dtype, layout);
    }
  }
}
