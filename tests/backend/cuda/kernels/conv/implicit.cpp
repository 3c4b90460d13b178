#include <support/device_array.hpp>
#include <support/few.hpp>
#include <support/references.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

namespace {

// Sizes around the tiles of 64 and 128 rows, 128 columns and a depth of 64, with odd and even numbers of
// outputs, and with samples that end within a tile.
const ConvCase kCases[] = {
    {1, 8, 9, 9, 8, 3, 3, 1, 1, 1, 1},       // one tile, mostly empty
    {3, 16, 11, 7, 24, 3, 5, 1, 2, 1, 1},    // odd outputs, kernel not square
    {2, 64, 8, 8, 64, 3, 3, 1, 1, 1, 1},     // full tiles
    {2, 72, 10, 9, 136, 3, 3, 2, 1, 1, 1},   // remainders in all dimensions, stride
    {5, 40, 13, 13, 72, 2, 2, 3, 0, 1, 1},   // stride larger than the kernel: some pixels are not read
    {2, 24, 12, 17, 200, 3, 3, 1, 2, 2, 1},  // dilation
    {9, 128, 5, 5, 16, 5, 5, 1, 2, 1, 1},    // long sums
    {2, 64, 9, 9, 192, 1, 1, 2, 0, 1, 1},    // 1 x 1 with stride
    {2, 8, 6, 6, 5, 3, 3, 1, 1, 1, 1},       // number of channels is no multiple of 8
    {2, 3, 15, 15, 33, 7, 7, 2, 3, 1, 1},    // the first layer of an image network
    {1, 17, 9, 9, 65, 3, 3, 1, 1, 1, 1},     // one more than a tile
    {2, 24, 13, 12, 40, 5, 5, 2, 2, 1, 1},   // stride 2: all remainders of odd and even sides
    {1, 16, 1, 7, 24, 3, 3, 2, 1, 1, 1},     // a dimension without odd pixels
    {1, 32, 8, 8, 24, 2, 2, 2, 0, 1, 1},     // windows without overlap
    {2, 16, 9, 11, 32, 3, 3, 2, 2, 2, 1},    // stride and dilation: dx uses columns
    {3, 40, 8, 6, 24, 1, 1, 1, 0, 1, 1},     // 1 x 1: the image is its columns
};

Window2d window_of(const ConvCase& c) { return {c.KH, c.KW, c.stride, c.padding, c.dilation}; }

struct Results {
  std::vector<double> y, dx, dw;
};

Results run(const ConvCase& c, DType t, DeviceArray& x, DeviceArray& w, DeviceArray& b, DeviceArray& dy) {
  DeviceArray y(t, dy.shape()), dx(t, x.shape()), dw(t, w.shape());
  kernels::conv2d(y.view(), x.view(), w.view(), b.view(), window_of(c), c.groups);
  kernels::conv2d_grad_input(dx.view(), dy.view(), w.view(), window_of(c), c.groups);
  kernels::conv2d_grad_weight(dw.view(), dy.view(), x.view(), window_of(c), c.groups);
  return {y.values(), dx.values(), dw.values()};
}

void check_case(const ConvCase& c, DType t) {
  if (test::left_out(10)) return;
  const Window2d window = window_of(c);
  const int64_t OH = tinytorch::backend::window_outputs(c.H, c.KH, window);
  const int64_t OW = tinytorch::backend::window_outputs(c.W, c.KW, window);
  DeviceArray x = DeviceArray::random(t, {c.N, c.C, c.H, c.W}, 1, -1, 1, Layout::dense);
  DeviceArray w = DeviceArray::random(t, {c.M, c.C, c.KH, c.KW}, 2, -1, 1, Layout::dense);
  DeviceArray b = DeviceArray::random(t, {c.M}, 3, -1, 1, Layout::dense);
  DeviceArray dy = DeviceArray::random(t, {c.N, c.M, OH, OW}, 4, -1, 1, Layout::dense);
  INFO("C ", c.C, " M ", c.M, " kernel ", c.KH, " x ", c.KW, " stride ", c.stride);
  const std::vector<double> xs = x.values(), ws = w.values(), dys = dy.values(), bias = b.values();
  std::vector<double> want = conv_reference(c, ConvOperand::out, xs, ws, dys, OH, OW);
  for (size_t i = 0; i < want.size(); ++i) {
    want[i] += bias[i / static_cast<size_t>(OH * OW) % static_cast<size_t>(c.M)];
  }
  const std::vector<double> want_dx = conv_reference(c, ConvOperand::dx, xs, ws, dys, OH, OW);
  const std::vector<double> want_dw = conv_reference(c, ConvOperand::dw, xs, ws, dys, OH, OW);
  for (const bool implicit : {true, false}) {
    if (few_cases() && !implicit && c.M > 64) continue;
    INFO("implicit ", implicit);
    kernels::use_implicit_conv(implicit);
    const Results got = run(c, t, x, w, b, dy);
    const Results again = kEmulated ? got : run(c, t, x, w, b, dy);  // the emulator is deterministic
    kernels::use_implicit_conv(true);
    check_close(got.y, want, t, 2 + 4 * static_cast<double>(c.C * c.KH * c.KW));
    check_close(got.dx, want_dx, t, 2 + 4 * static_cast<double>(c.M * c.KH * c.KW));
    check_close(got.dw, want_dw, t, 2 + 4 * static_cast<double>(c.N * OH * OW));
    CHECK(got.y == again.y);
    CHECK(got.dx == again.dx);
    CHECK(got.dw == again.dw);
  }
}

}  // namespace

TEST_CASE("16-bit convolution equals the definition and is deterministic, by implicit GEMM and by columns" *
          needs_devices()) {
  for (const ConvCase& c : kCases) {
    check_case(c, bf16);
    if (!few_cases() || c.M < 64) check_case(c, f16);
  }
}

TEST_CASE("the gradient of a convolution's weight equals the definition with several splits (split-K)" *
          needs_devices()) {
  check_case({6, 8, 24, 23, 8, 3, 3, 1, 1, 1, 1}, bf16);
}

#else
TEST_CASE("without CUDA there are no kernels to test" * doctest::skip()) {}
#endif
