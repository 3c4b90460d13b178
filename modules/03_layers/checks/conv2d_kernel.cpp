#include <support/check.hpp>
#include <tinytorch/backend/cuda/launch.hpp>

#include "convolution_reference.hpp"

using namespace course;

namespace {

void check(const Convolution& c, bool with_bias = true) {
  Values x = Values::random(c.dtype, c.x(), c.layout).on_device();
  Values w = Values::random(c.dtype, c.w(), c.layout).on_device();
  Values b = Values::random(c.dtype, {c.M}, c.layout).on_device();
  Values y = Values(c.dtype, c.y(), c.layout).on_device();
  const Numbers xs = x.numbers(), ws = w.numbers(), bs = b.numbers();
  Numbers want(static_cast<size_t>(c.y().numel()));
  const int64_t plane = c.OH() * c.OW();
  for (size_t i = 0; i < want.size() && with_bias; ++i) {
    want[i] = bs[i / static_cast<size_t>(plane) % bs.size()];
  }
  c.each([&](size_t to, size_t from, size_t by) { want[to] += xs[from] * ws[by]; });
  backend::cuda::conv2d(y.view(), x.view(), w.view(), with_bias ? b.view() : View{}, c.window, c.groups);
  const double terms = static_cast<double>(c.w().numel() / std::max<int64_t>(c.M, 1));
  expect_close("conv2d: " + c.text() + (with_bias ? "" : ", without bias"), y, want,
               {.roundings = 8 + terms});
}

}  // namespace

TEST_CASE("3.25 one channel, one output") {
  check({.H = 3, .W = 3}, false);
  check({.H = 3, .W = 3});
  check({.H = 5, .W = 7});
}

TEST_CASE("3.25 images that fill a tile, and more") {
  for (const int64_t side : {17, 18, 19, 33}) check({.H = side, .W = 40 - side});
  check({.H = 20, .W = 4, .window = {2, 5, 1, 2, 1}});
}

TEST_CASE("3.25 channels, samples and output channels") {
  check({.N = 1, .C = 3});
  check({.N = 2, .C = 3, .M = 4});
  check({.N = 0, .C = 3, .M = 4});
}

TEST_CASE("3.25 stride, padding and dilation") {
  check({.H = 9, .W = 8, .window = {3, 3, 1, 1, 1}});
  check({.H = 21, .W = 18, .window = {3, 3, 2, 1, 1}});
  check({.H = 9, .W = 11, .window = {3, 2, 1, 2, 3}});
  check({.C = 2, .H = 40, .W = 37, .window = {4, 4, 4, 0, 1}});
}

TEST_CASE("3.25 large windows: one patch for each result") {
  check({.H = 64, .W = 64, .window = {16, 16, 16, 0, 1}});
}

TEST_CASE("3.25 groups") {
  check({.N = 2, .C = 4, .M = 6, .groups = 2});
  check({.N = 1, .C = 3, .M = 6, .groups = 3});
}

TEST_CASE("3.25 any dtype and layout") {
  for (const DType t : {f64, bf16, f16}) check({.C = 2, .H = 7, .W = 6, .M = 2, .dtype = t});
  for (const Layout l : kLayouts) check({.N = 2, .C = 2, .H = 6, .W = 5, .M = 3, .layout = l});
}
