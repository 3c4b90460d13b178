#include <support/device_array.hpp>
#include <support/few.hpp>
#include <support/references.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

namespace {

Window2d window_of(const ConvCase& c) { return {c.KH, c.KW, c.stride, c.padding, c.dilation}; }

struct Operands {
  DeviceArray x, w, b, dy, y, dx, dw;
  Operands(const ConvCase& c, DType t, Layout layout)
      : x(DeviceArray::random(t, {c.N, c.C, c.H, c.W}, 1, -1, 1, layout)),
        w(DeviceArray::random(t, {c.M, c.C / c.groups, c.KH, c.KW}, 2, -1, 1, layout)),
        b(DeviceArray::random(t, {c.M}, 3, -1, 1, layout)),
        dy(DeviceArray::random(t, {c.N, c.M, height(c), width(c)}, 4, -1, 1, layout)),
        y(t, dy.shape(), layout),
        dx(t, x.shape(), layout),
        dw(t, w.shape(), layout) {}
  static int64_t height(const ConvCase& c) {
    return tinytorch::backend::window_outputs(c.H, c.KH, window_of(c));
  }
  static int64_t width(const ConvCase& c) {
    return tinytorch::backend::window_outputs(c.W, c.KW, window_of(c));
  }
  void run(const ConvCase& c) {
    kernels::conv2d(y.view(), x.view(), w.view(), b.view(), window_of(c), c.groups);
    kernels::conv2d_grad_input(dx.view(), dy.view(), w.view(), window_of(c), c.groups);
    kernels::conv2d_grad_weight(dw.view(), dy.view(), x.view(), window_of(c), c.groups);
  }
};

void check_case(const ConvCase& c, DType dtype, Layout layout) {
  if (test::left_out(5)) return;
  Operands o(c, dtype, layout);
  o.run(c);
  INFO("C ", c.C, " M ", c.M, " kernel ", c.KH, " x ", c.KW, " groups ", c.groups);
  const int64_t OH = Operands::height(c), OW = Operands::width(c);
  const std::vector<double> x = o.x.values(), w = o.w.values(), dy = o.dy.values(), bias = o.b.values();
  std::vector<double> want = conv_reference(c, ConvOperand::out, x, w, o.y.values(), OH, OW);
  for (size_t i = 0; i < want.size(); ++i) {
    want[i] += bias[i / static_cast<size_t>(OH * OW) % static_cast<size_t>(c.M)];
  }
  check_close(o.y.values(), want, dtype, 2 + static_cast<double>(c.C / c.groups * c.KH * c.KW));
  check_close(o.dx.values(), conv_reference(c, ConvOperand::dx, x, w, dy, OH, OW), dtype,
              2 + static_cast<double>(c.M / c.groups * c.KH * c.KW));
  check_close(o.dw.values(), conv_reference(c, ConvOperand::dw, x, w, dy, OH, OW), dtype,
              2 + static_cast<double>(c.N * OH * OW));
}

const ConvCase kCases[] = {
    {1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1},    // all sizes 1
    {2, 3, 7, 5, 4, 3, 3, 1, 1, 1, 1},    // padding
    {3, 2, 11, 13, 5, 5, 3, 2, 2, 1, 1},  // stride, kernel not square
    {2, 4, 9, 9, 6, 3, 3, 1, 2, 2, 2},    // dilation and groups
    {2, 4, 9, 8, 4, 3, 3, 2, 1, 1, 4},    // depthwise, stride
    // Depthwise, two outputs per channel, padding larger than the kernel.
    {3, 3, 6, 17, 6, 3, 2, 1, 3, 2, 3},
    {5, 3, 4, 4, 17, 4, 4, 1, 0, 1, 1},     // one output position
    {33, 2, 5, 5, 3, 2, 2, 1, 0, 1, 1},     // many small images
    {1, 2, 20, 37, 15, 3, 3, 1, 1, 1, 1},   // more than one tile of columns
    {2, 33, 12, 12, 31, 1, 1, 1, 0, 1, 1},  // 1 x 1
    {2, 6, 9, 9, 4, 1, 1, 2, 0, 1, 2},      // 1 x 1 with stride, groups
    {1, 64, 8, 8, 64, 3, 3, 1, 1, 1, 1},    // sizes that are multiples of the tiles
    {2, 16, 9, 7, 72, 3, 3, 2, 1, 1, 1},    // sizes that are not
};

}  // namespace

TEST_CASE("conv2d and its gradients equal the definition" * needs_devices()) {
  for (const ConvCase& c : kCases) {
    for (DType dtype : kFloating) {
      if (few_cases() && dtype == f16 && c.M > 6) continue;
      check_case(c, dtype, Layout::dense);
    }
    check_case(c, f32, Layout::gaps);
    if (!few_cases() || c.M <= 6) check_case(c, bf16, Layout::gaps);
  }
}

TEST_CASE("conv2d and its gradients equal the definition without cuBLASLt" * needs_devices()) {
  kernels::use_blas(false);
  for (const ConvCase& c : kCases) check_case(c, f32, Layout::dense);
  kernels::use_blas(true);
}

TEST_CASE("conv2d works without a bias and with an empty batch" * needs_devices()) {
  const ConvCase c{2, 2, 4, 4, 3, 3, 3, 1, 0, 1, 1};
  const Window2d window = window_of(c);
  Operands o(c, f32, Layout::dense);
  kernels::conv2d(o.y.view(), o.x.view(), o.w.view(), View{}, window, 1);
  check_close(o.y.values(),
              conv_reference(c, ConvOperand::out, o.x.values(), o.w.values(), o.y.values(), 2, 2), f32, 20);
  DeviceArray none(f32, {0, 2, 4, 4}), no_dy(f32, {0, 3, 2, 2}), dw(f32, {3, 2, 3, 3});
  kernels::conv2d(no_dy.view(), none.view(), o.w.view(), View{}, window, 1);
  kernels::conv2d_grad_input(none.view(), no_dy.view(), o.w.view(), window, 1);
  kernels::conv2d_grad_weight(dw.view(), no_dy.view(), none.view(), window, 1);
  CHECK(dw.values() == std::vector<double>(54, 0.0));
}

TEST_CASE("conv2d and its gradients are deterministic" * needs_devices()) {
  for (DType dtype : {f32, bf16}) {
    const ConvCase c{9, 8, 13, 13, 16, 3, 3, 1, 1, 1, 1};
    Operands first(c, dtype, Layout::dense), second(c, dtype, Layout::dense);
    first.run(c);
    second.run(c);
    CHECK(first.y.values() == second.y.values());
    CHECK(first.dx.values() == second.dx.values());
    CHECK(first.dw.values() == second.dw.values());
  }
}

#else
TEST_CASE("without CUDA there are no kernels to test" * doctest::skip()) {}
#endif
