#include <support/check.hpp>
#include <tinytorch/backend/cpu/conv.hpp>

using namespace course;
using backend::Window2d;
using backend::window_outputs;
namespace cpu = tinytorch::backend::cpu;

namespace {

struct Case {
  int64_t N, C, H, W, M, KH, KW;
  int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
  Window2d window() const { return {KH, KW, stride, padding, dilation}; }
  Shape x() const { return {N, C, H, W}; }
  Shape weight() const { return {M, C / groups, KH, KW}; }
  Shape out() const { return {N, M, window_outputs(H, KH, window()), window_outputs(W, KW, window())}; }
  std::string text() const {
    return "x " + x().str() + ", weight " + weight().str() + ", stride " + std::to_string(stride) +
           ", padding " + std::to_string(padding) + ", dilation " + std::to_string(dilation) + ", groups " +
           std::to_string(groups);
  }
};

// The reference loops over the inputs and adds each product to its output, in the opposite order of the
// formula.
Numbers reference(const Case& c, const Numbers& x, const Numbers& weight, const Numbers& bias) {
  const Shape out = c.out();
  const int64_t OH = out[2], OW = out[3], group_c = c.C / c.groups, group_m = c.M / c.groups;
  Numbers y(static_cast<size_t>(out.numel()));
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] = bias.empty() ? 0 : bias[i / static_cast<size_t>(OH * OW) % static_cast<size_t>(c.M)];
  }
  for (int64_t i = 0; i < static_cast<int64_t>(x.size()); ++i) {
    const int64_t w = i % c.W, h = i / c.W % c.H, channel = i / (c.W * c.H) % c.C, n = i / (c.W * c.H * c.C);
    for (int64_t tap = 0; tap < c.KH * c.KW; ++tap) {
      const int64_t up = h + c.padding - tap / c.KW * c.dilation,
                    left = w + c.padding - tap % c.KW * c.dilation;
      if (up < 0 || left < 0 || up % c.stride != 0 || left % c.stride != 0) continue;
      const int64_t oh = up / c.stride, ow = left / c.stride;
      if (oh >= OH || ow >= OW) continue;
      for (int64_t k = 0; k < group_m; ++k) {
        const int64_t m = channel / group_c * group_m + k;
        y[static_cast<size_t>(((n * c.M + m) * OH + oh) * OW + ow)] +=
            x[static_cast<size_t>(i)] *
            weight[static_cast<size_t>((m * group_c + channel % group_c) * c.KH * c.KW + tap)];
      }
    }
  }
  return y;
}

void check(const Case& c, DType dtype = f32, Layout layout = Layout::contiguous, bool with_bias = true) {
  Values x = Values::random(dtype, c.x(), layout), weight = Values::random(dtype, c.weight(), layout);
  Values bias = Values::random(dtype, {c.M}, layout), out(dtype, c.out(), layout);
  const Numbers want = reference(c, x.numbers(), weight.numbers(), with_bias ? bias.numbers() : Numbers{});
  cpu::conv2d(out.view(), x.view(), weight.view(), with_bias ? bias.view() : backend::View{}, c.window(),
              c.groups);
  expect_close("conv2d: " + c.text() + (layout == Layout::contiguous ? "" : ", ") +
                   (layout == Layout::contiguous ? "" : name_of_layout(layout)),
               out, want, {.roundings = 16, .scale = 2});
}

}  // namespace

TEST_CASE("3.5 one channel, one output") {
  Values x = Values::of(f32, {1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}),
         weight = Values::of(f32, {1, 1, 2, 2}, {1, 0, 0, -1});
  Values out(f32, {1, 1, 2, 2});
  cpu::conv2d(out.view(), x.view(), weight.view(), {}, {2, 2}, 1);
  expect_close("conv2d of [[1 2 3] [4 5 6] [7 8 9]] with [[1 0] [0 -1]]", out, {-4, -4, -4, -4});
  Values corner = Values::of(f32, {1, 1, 2, 2}, {0, 1, 0, 0});
  cpu::conv2d(out.view(), x.view(), corner.view(), {}, {2, 2}, 1);
  expect_close("conv2d of [[1 2 3] [4 5 6] [7 8 9]] with [[0 1] [0 0]]", out, {2, 3, 5, 6});
}

TEST_CASE("3.5 channels, samples, images and windows that are not square") {
  check({.N = 1, .C = 3, .H = 4, .W = 6, .M = 1, .KH = 3, .KW = 2}, f32, Layout::contiguous, false);
  check({.N = 2, .C = 3, .H = 5, .W = 4, .M = 2, .KH = 1, .KW = 3});
  check({.N = 3, .C = 2, .H = 4, .W = 7, .M = 3, .KH = 4, .KW = 7});
}

TEST_CASE("3.5 stride and padding") {
  check({.N = 2, .C = 2, .H = 7, .W = 6, .M = 2, .KH = 3, .KW = 3, .stride = 2});
  check({.N = 1, .C = 2, .H = 4, .W = 5, .M = 2, .KH = 3, .KW = 3, .padding = 1});
  check({.N = 2, .C = 1, .H = 8, .W = 5, .M = 3, .KH = 3, .KW = 2, .stride = 3, .padding = 2});
}

TEST_CASE("3.5 dilation") {
  check({.N = 2, .C = 2, .H = 7, .W = 8, .M = 2, .KH = 3, .KW = 2, .dilation = 2});
  check({.N = 1, .C = 2, .H = 7, .W = 6, .M = 1, .KH = 2, .KW = 3, .stride = 2, .padding = 3, .dilation = 3});
}

TEST_CASE("3.5 each group reads its own channels only") {
  check({.N = 2, .C = 4, .H = 4, .W = 3, .M = 6, .KH = 2, .KW = 2, .groups = 2});
  check({.N = 2, .C = 5, .H = 5, .W = 4, .M = 5, .KH = 3, .KW = 3, .padding = 1, .groups = 5});
  check({.N = 1, .C = 3, .H = 5, .W = 4, .M = 6, .KH = 3, .KW = 2, .stride = 2, .padding = 1, .groups = 3});
}

TEST_CASE("3.5 any layout and dtype") {
  const Case c{
      .N = 2, .C = 4, .H = 4, .W = 5, .M = 2, .KH = 3, .KW = 2, .stride = 2, .padding = 1, .groups = 2};
  for (const DType dtype : {f32, f64, bf16, f16}) {
    for (const Layout layout : kLayouts) check(c, dtype, layout);
  }
}
