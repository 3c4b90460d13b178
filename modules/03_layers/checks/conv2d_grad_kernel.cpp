#include <support/check.hpp>
#include <tinytorch/backend/cuda/launch.hpp>

#include "convolution_reference.hpp"

using namespace course;

namespace {

void check_input(const Convolution& c) {
  Values dy = Values::random(c.dtype, c.y(), c.layout).on_device();
  Values w = Values::random(c.dtype, c.w(), c.layout).on_device();
  Values dx = Values(c.dtype, c.x(), c.layout).on_device();
  const Numbers gs = dy.numbers(), ws = w.numbers();
  Numbers want(static_cast<size_t>(c.x().numel()));
  c.each([&](size_t to, size_t from, size_t by) { want[from] += gs[to] * ws[by]; });
  backend::cuda::conv2d_grad_input(dx.view(), dy.view(), w.view(), c.window, c.groups);
  expect_close("conv2d_grad_input: " + c.text(), dx, want,
               {.roundings = 8 + static_cast<double>(c.w().numel())});
}

void check_weight(const Convolution& c) {
  Values dy = Values::random(c.dtype, c.y(), c.layout).on_device();
  Values x = Values::random(c.dtype, c.x(), c.layout).on_device();
  Values dw = Values(c.dtype, c.w(), c.layout).on_device();
  const Numbers gs = dy.numbers(), xs = x.numbers();
  Numbers want(static_cast<size_t>(c.w().numel()));
  c.each([&](size_t to, size_t from, size_t by) { want[by] += gs[to] * xs[from]; });
  backend::cuda::conv2d_grad_weight(dw.view(), dy.view(), x.view(), c.window, c.groups);
  const double terms = static_cast<double>(c.N * c.OH() * c.OW());
  expect_close("conv2d_grad_weight: " + c.text(), dw, want, {.roundings = 16 + terms});
}

const Convolution kShapes[] = {
    {.N = 2, .C = 3, .M = 4},
    {.H = 9, .W = 8, .window = {3, 3, 1, 1, 1}},
    {.H = 12, .W = 11, .window = {3, 2, 2, 1, 1}},
    {.H = 10, .W = 9, .window = {3, 2, 1, 2, 3}},
    {.H = 13, .W = 12, .window = {3, 3, 2, 2, 2}},
    {.N = 2, .C = 4, .M = 6, .groups = 2},
};

}  // namespace

TEST_CASE("3.26 gradient of the input: each pixel sums over the outputs that read it") {
  check_input({.H = 3, .W = 3});
  check_input({.H = 5, .W = 7});
  check_input({.H = 17, .W = 33});
  for (const Convolution& c : kShapes) check_input(c);
  check_input({.H = 7, .W = 7, .window = {2, 2, 3, 0, 1}});  // some pixels are read by no output
}

TEST_CASE("3.26 gradient of the weight: a sum over samples and outputs") {
  check_weight({.H = 3, .W = 3});
  check_weight({.H = 5, .W = 7});
  check_weight({.N = 2, .H = 18, .W = 19});
  for (const Convolution& c : kShapes) check_weight(c);
}

TEST_CASE("3.26 any dtype and layout") {
  for (const DType t : {f64, bf16, f16}) {
    check_input({.C = 2, .H = 7, .W = 6, .M = 2, .dtype = t});
    check_weight({.C = 2, .H = 7, .W = 6, .M = 2, .dtype = t});
  }
  for (const Layout l : kLayouts) {
    check_input({.N = 2, .C = 2, .H = 6, .W = 5, .M = 3, .layout = l});
    check_weight({.N = 2, .C = 2, .H = 6, .W = 5, .M = 3, .layout = l});
  }
}
