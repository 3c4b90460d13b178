#include <support/check.hpp>
#include <tinytorch/backend/cpu/conv.hpp>

using namespace course;
using backend::View;
using backend::Window2d;
using backend::window_outputs;
namespace cpu = tinytorch::backend::cpu;

namespace {

// Each group has four outputs or more, because only then columns are used.
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

// Calls f(position in out, position in x, position in weight) for every product of the formula.
template <class F>
void for_each_product(const Case& c, F&& f) {
  const Shape out = c.out();
  const int64_t OH = out[2], OW = out[3], group_c = c.C / c.groups, group_m = c.M / c.groups;
  for (int64_t o = 0; o < out.numel(); ++o) {
    const int64_t ow = o % OW, oh = o / OW % OH, m = o / (OW * OH) % c.M, n = o / (OW * OH * c.M);
    for (int64_t k = 0; k < group_c * c.KH * c.KW; ++k) {
      const int64_t kw = k % c.KW, kh = k / c.KW % c.KH, channel = m / group_m * group_c + k / (c.KW * c.KH);
      const int64_t h = oh * c.stride - c.padding + kh * c.dilation,
                    w = ow * c.stride - c.padding + kw * c.dilation;
      if (h < 0 || h >= c.H || w < 0 || w >= c.W) continue;
      f(static_cast<size_t>(o), static_cast<size_t>(((n * c.C + channel) * c.H + h) * c.W + w),
        static_cast<size_t>(m * group_c * c.KH * c.KW + k));
    }
  }
}

struct Operands {
  Values x, weight, bias, dy;
  Operands(const Case& c, DType dtype, Layout layout)
      : x(Values::random(dtype, c.x(), layout)),
        weight(Values::random(dtype, c.weight(), layout)),
        bias(Values::random(dtype, {c.M}, layout)),
        dy(Values::random(dtype, c.out(), layout)) {}
};
std::string call(const char* name, const Case& c, Layout layout) {
  return std::string(name) + ": " + c.text() +
         (layout == Layout::contiguous ? "" : std::string(", ") + name_of_layout(layout));
}

void check_forward(const Case& c, DType dtype = f32, Layout layout = Layout::contiguous) {
  Operands of(c, dtype, layout);
  Values out(dtype, c.out(), layout);
  const Numbers x = of.x.numbers(), weight = of.weight.numbers(), bias = of.bias.numbers();
  Numbers want(static_cast<size_t>(c.out().numel()));
  const auto plane = static_cast<size_t>(c.out()[2] * c.out()[3]);
  for (size_t i = 0; i < want.size(); ++i) want[i] = bias[i / plane % bias.size()];
  for_each_product(c, [&](size_t o, size_t i, size_t w) { want[o] += x[i] * weight[w]; });
  cpu::conv2d(out.view(), of.x.view(), of.weight.view(), of.bias.view(), c.window(), c.groups);
  expect_close(call("conv2d", c, layout), out, want, {.roundings = 16, .scale = 4});
}
void check_input_gradient(const Case& c, DType dtype = f32, Layout layout = Layout::contiguous) {
  Operands of(c, dtype, layout);
  Values dx(dtype, c.x(), layout);
  const Numbers weight = of.weight.numbers(), dy = of.dy.numbers();
  Numbers want(static_cast<size_t>(c.x().numel()));
  for_each_product(c, [&](size_t o, size_t i, size_t w) { want[i] += dy[o] * weight[w]; });
  cpu::conv2d_grad_input(dx.view(), of.dy.view(), of.weight.view(), c.window(), c.groups);
  expect_close(call("conv2d_grad_input", c, layout), dx, want, {.roundings = 16, .scale = 4});
}
void check_weight_gradient(const Case& c, DType dtype = f32, Layout layout = Layout::contiguous) {
  Operands of(c, dtype, layout);
  Values dw(dtype, c.weight(), layout);
  const Numbers x = of.x.numbers(), dy = of.dy.numbers();
  Numbers want(static_cast<size_t>(c.weight().numel()));
  for_each_product(c, [&](size_t o, size_t i, size_t w) { want[w] += dy[o] * x[i]; });
  cpu::conv2d_grad_weight(dw.view(), of.dy.view(), of.x.view(), c.window(), c.groups);
  expect_close(call("conv2d_grad_weight", c, layout), dw, want, {.roundings = 16, .scale = 8});
}

const Case kPlain{.N = 1, .C = 2, .H = 4, .W = 5, .M = 4, .KH = 2, .KW = 3};
const Case kRest[] = {
    {.N = 2, .C = 3, .H = 5, .W = 4, .M = 5, .KH = 3, .KW = 2, .padding = 1},
    {.N = 2, .C = 1, .H = 7, .W = 6, .M = 4, .KH = 3, .KW = 3, .stride = 2, .padding = 2},
    {.N = 1, .C = 2, .H = 7, .W = 8, .M = 4, .KH = 2, .KW = 3, .stride = 2, .padding = 1, .dilation = 2},
    {.N = 2, .C = 4, .H = 4, .W = 3, .M = 8, .KH = 2, .KW = 2, .padding = 1, .groups = 2},
};

}  // namespace

TEST_CASE("3.6 patches as columns give the convolution") {
  check_forward(kPlain);
  for (const Case& c : kRest) check_forward(c);
}

TEST_CASE("3.6 the same columns give the gradient of the weights") {
  check_weight_gradient(kPlain);
  for (const Case& c : kRest) check_weight_gradient(c);
}

TEST_CASE("3.6 columns added back into the image give the gradient of the input") {
  check_input_gradient({.N = 1, .C = 1, .H = 2, .W = 2, .M = 4, .KH = 1, .KW = 1});
  check_input_gradient(kPlain);
  for (const Case& c : kRest) check_input_gradient(c);
}

TEST_CASE("3.6 any layout and dtype") {
  const Case c{
      .N = 2, .C = 2, .H = 4, .W = 5, .M = 8, .KH = 3, .KW = 2, .stride = 2, .padding = 1, .groups = 2};
  for (const DType dtype : {f64, bf16, f16}) {
    for (const Layout layout : {Layout::contiguous, Layout::reversed}) {
      check_forward(c, dtype, layout);
      check_weight_gradient(c, dtype, layout);
      check_input_gradient(c, dtype, layout);
    }
  }
}
