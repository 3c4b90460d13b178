#include <support/few.hpp>
#include <support/fresh.hpp>
#include <support/references.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

namespace {

using Values = std::vector<double>;

// One input channel per group: image [N, C, H, W], `each` outputs per channel.
struct Depthwise {
  int64_t N, C, H, W, each, KH, KW, stride = 1, padding = 0, dilation = 1;
  ConvCase conv() const { return {N, C, H, W, C * each, KH, KW, stride, padding, dilation, C}; }
  Window2d window() const { return {KH, KW, stride, padding, dilation}; }
  int64_t outputs(int64_t input, int64_t kernel) const {
    return tinytorch::backend::window_outputs(input, kernel, window());
  }
};

void check_depthwise(Fresh& fresh, const Depthwise& c, DType t, Layout layout) {
  if (test::left_out(2)) return;
  INFO(text_of(t), " [", c.N, ", ", c.C, ", ", c.H, ", ", c.W, "] kernel ", c.KH, " x ", c.KW, " each ",
       c.each, " layout ", static_cast<int>(layout));
  const ConvCase conv = c.conv();
  const int64_t OH = c.outputs(c.H, c.KH), OW = c.outputs(c.W, c.KW);
  DeviceArray x = fresh.array(t, {c.N, c.C, c.H, c.W}, -1, 1, layout),
              w = fresh.array(t, {conv.M, 1, c.KH, c.KW}, -1, 1, layout),
              b = fresh.array(t, {conv.M}, -1, 1, layout),
              dy = fresh.array(t, {c.N, conv.M, OH, OW}, -1, 1, layout), y(t, dy.shape(), layout),
              bare(t, dy.shape()), dx(t, x.shape(), layout), dw(t, w.shape(), layout);
  kernels::conv2d(y.view(), x.view(), w.view(), b.view(), c.window(), c.C);
  kernels::conv2d(bare.view(), x.view(), w.view(), {}, c.window(), c.C);
  kernels::conv2d_grad_input(dx.view(), dy.view(), w.view(), c.window(), c.C);
  kernels::conv2d_grad_weight(dw.view(), dy.view(), x.view(), c.window(), c.C);
  const Values xs = x.values(), ws = w.values(), slopes = dy.values(), bias = b.values();
  Values want = conv_reference(conv, ConvOperand::out, xs, ws, slopes, OH, OW);
  const auto taps = static_cast<double>(c.KH * c.KW);
  check_close(bare.values(), want, t, 2 + taps);
  for (size_t i = 0; i < want.size(); ++i) {
    want[i] += bias[i / static_cast<size_t>(OH * OW) % static_cast<size_t>(conv.M)];
  }
  check_close(y.values(), want, t, 2 + taps);
  check_close(dx.values(), conv_reference(conv, ConvOperand::dx, xs, ws, slopes, OH, OW), t,
              2 + taps * static_cast<double>(c.each));
  check_close(dw.values(), conv_reference(conv, ConvOperand::dw, xs, ws, slopes, OH, OW), t,
              2 + static_cast<double>(c.N * OH * OW));
}

const Depthwise kCases[] = {{1, 2, 1, 1, 1, 1, 1},         {2, 3, 7, 5, 1, 3, 3, 1, 1},
                            {3, 5, 11, 13, 1, 5, 3, 2, 2}, {2, 4, 9, 9, 2, 3, 3, 1, 2, 2},
                            {1, 33, 6, 31, 1, 3, 3, 1, 1}, {2, 3, 17, 16, 3, 7, 7, 2, 3},
                            {1, 2, 33, 65, 1, 1, 5, 3, 0}};

}  // namespace

TEST_CASE("depthwise convolution and its gradients equal the definition" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const Depthwise& c : kCases) {
    for (const DType t : kFloating) {
      for (const Layout layout : kLayouts) {
        if (few_cases() && t != f32 && layout != Layout::dense) continue;
        check_depthwise(fresh, c, t, layout);
      }
    }
  }
}

TEST_CASE(
    "depthwise convolution propagates NaN only to the windows that contain it, and accepts an empty batch" *
    needs_devices()) {
  Values image(2 * 5 * 5, 1);
  image[12] = kNan;  // center of channel 0
  DeviceArray x = DeviceArray::from(f32, {1, 2, 5, 5}, image),
              w = DeviceArray::from(f32, {2, 1, 3, 3}, Values(18, 1)), y(f32, {1, 2, 5, 5});
  const Window2d window{3, 3, 1, 1, 1};
  kernels::conv2d(y.view(), x.view(), w.view(), {}, window, 2);
  const Values got = y.values();
  for (size_t i = 0; i < got.size(); ++i) {
    const size_t row = i % 25 / 5, col = i % 5;
    const bool sees = i < 25 && row >= 1 && row <= 3 && col >= 1 && col <= 3;
    CHECK(std::isnan(got[i]) == sees);
    if (!sees) CHECK(got[i] == static_cast<double>((row % 4 ? 3 : 2) * (col % 4 ? 3 : 2)));
  }
  DeviceArray none(f32, {0, 2, 5, 5}), dw = DeviceArray::from(f32, {2, 1, 3, 3}, Values(18, 7));
  kernels::conv2d(none.view(), none.view(), w.view(), {}, window, 2);
  kernels::conv2d_grad_input(none.view(), none.view(), w.view(), window, 2);
  kernels::conv2d_grad_weight(dw.view(), none.view(), none.view(), window, 2);
  CHECK(dw.values() == Values(18, 0));
}

#else
TEST_CASE("without CUDA there are no kernels to test" * doctest::skip()) {}
#endif
