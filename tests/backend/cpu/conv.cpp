#include <support/array.hpp>

#include <support/few.hpp>
#include <support/references.hpp>
#include <tinytorch/backend/cpu/conv.hpp>
#include <tinytorch/core/parallel.hpp>

using namespace test;
using tinytorch::backend::View;
using tinytorch::backend::Window2d;
using Case = ConvCase;
using Wanted = ConvOperand;
namespace cpu_kernels = tinytorch::backend::cpu;

namespace {

// Layouts of operands and results.
void check_case(const Case& c, DType dtype, Layout layout, Layout result = Layout::dense) {
  const Window2d window{c.KH, c.KW, c.stride, c.padding, c.dilation};
  const int64_t OH = tinytorch::backend::window_outputs(c.H, c.KH, window);
  const int64_t OW = tinytorch::backend::window_outputs(c.W, c.KW, window);
  Array x = Array::random(dtype, {c.N, c.C, c.H, c.W}, 1, -1, 1, layout);
  Array w = Array::random(dtype, {c.M, c.C / c.groups, c.KH, c.KW}, 2, -1, 1, layout);
  Array b = Array::random(dtype, {c.M}, 3, -1, 1, layout);
  Array dy = Array::random(dtype, {c.N, c.M, OH, OW}, 4, -1, 1, layout);
  Array y(dtype, dy.shape(), result), dx(dtype, x.shape(), result), dw(dtype, w.shape());
  cpu_kernels::conv2d(y.view(), x.view(), w.view(), b.view(), window, c.groups);
  cpu_kernels::conv2d_grad_input(dx.view(), dy.view(), w.view(), window, c.groups);
  cpu_kernels::conv2d_grad_weight(dw.view(), dy.view(), x.view(), window, c.groups);

  const double depth = static_cast<double>(c.C / c.groups * c.KH * c.KW);
  std::vector<double> want = conv_reference(c, Wanted::out, x.values(), w.values(), y.values(), OH, OW);
  const std::vector<double> bias = b.values();
  for (size_t i = 0; i < want.size(); ++i)
    want[i] += bias[i / static_cast<size_t>(OH * OW) % static_cast<size_t>(c.M)];
  check_close(y.values(), want, dtype, 2 + depth);
  check_close(dx.values(), conv_reference(c, Wanted::dx, x.values(), w.values(), dy.values(), OH, OW), dtype,
              2 + static_cast<double>(c.M / c.groups * c.KH * c.KW));
  check_close(dw.values(), conv_reference(c, Wanted::dw, x.values(), w.values(), dy.values(), OH, OW), dtype,
              2 + static_cast<double>(c.N * OH * OW));
}

}  // namespace

TEST_CASE("conv2d and its gradients equal the definition") {
  const std::vector<Case> cases{
      {1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1},      // all sizes 1
      {2, 3, 7, 5, 4, 3, 3, 1, 1, 1, 1},      // padding
      {3, 2, 11, 13, 5, 5, 3, 2, 2, 1, 1},    // stride, kernel not square
      {2, 4, 9, 9, 6, 3, 3, 1, 2, 2, 2},      // dilation and groups
      {2, 4, 9, 8, 4, 3, 3, 2, 1, 1, 4},      // depthwise, stride
      {3, 3, 6, 17, 6, 3, 2, 1, 3, 2, 3},     // depthwise, two outputs per channel, padding beyond the kernel
      {5, 3, 4, 4, 17, 4, 4, 1, 0, 1, 1},     // one output position: samples share a product
      {70, 2, 5, 5, 3, 2, 2, 1, 0, 1, 1},     // many small images
      {1, 2, 40, 67, 15, 3, 3, 1, 1, 1, 1},   // several blocks of one image
      {2, 33, 12, 12, 31, 1, 1, 1, 0, 1, 1},  // 1 x 1
      {2, 5, 9, 8, 7, 1, 1, 2, 0, 1, 1},      // pixels that no output reads
      {1, 2, 11, 12, 3, 2, 1, 4, 1, 1, 1},    // rows that no output reads, and padding
      {2, 7, 9, 11, 70, 3, 3, 1, 1, 1, 1},    // many tiles of filters, channels-first
      {2, 70, 9, 11, 7, 3, 3, 2, 1, 1, 1},    // a long depth and few filters, channels-first
      {2, 12, 9, 11, 70, 3, 3, 1, 1, 1, 1},   // converted to channels-last
      {2, 24, 9, 10, 40, 3, 3, 2, 1, 2, 2},   // converted, in groups
  };
  for (const Case& c : some_of(cases, 8)) {
    for (DType dtype : kFloating) check_case(c, dtype, Layout::dense);
    check_case(c, f32, Layout::gaps);
    for (DType dtype : kFloating) check_case(c, dtype, Layout::channels_last, Layout::channels_last);
    check_case(c, f32, Layout::channels_last, Layout::dense);
    check_case(c, f32, Layout::dense, Layout::channels_last);
    check_case(c, f64, Layout::transposed, Layout::gaps);
  }
}

TEST_CASE("depthwise convolutions equal the definition, in every layout") {
  const std::vector<Case> cases{
      {2, 64, 25, 5, 64, 3, 3, 1, 1, 1, 64},  // rows shorter than a vector
      {1, 33, 40, 67, 33, 3, 3, 1, 1, 1,
       33},  // several blocks of one plane; channels are not a multiple of a vector
      {2, 70, 9, 35, 70, 3, 3, 2, 1, 1, 70},   // stride 2: splits of even and odd pixels
      {3, 17, 11, 40, 17, 5, 3, 3, 2, 2, 17},  // stride 3, with dilation
      {2, 16, 5, 6, 16, 7, 7, 1, 3, 1, 16},    // a kernel larger than the image
      {2, 5, 7, 7, 5, 2, 2, 4, 0, 1, 5},       // a kernel smaller than its stride: unread pixels
      {2, 6, 8, 9, 18, 3, 3, 2, 1, 1, 6},      // three outputs per channel
      {70, 3, 2, 2, 3, 1, 1, 1, 0, 1, 3},      // many small images
  };
  for (const Case& c : some_of(cases, 4)) {
    for (const Layout layout : {Layout::dense, Layout::channels_last}) {
      for (DType dtype : kFloating) check_case(c, dtype, layout, layout);
    }
    check_case(c, f32, Layout::channels_last, Layout::dense);
    check_case(c, f32, Layout::gaps, Layout::channels_last);
  }
}

TEST_CASE("convolutions of channels-last images equal the definition") {
  const std::vector<Case> cases{
      {3, 16, 9, 13, 16, 3, 3, 1, 1, 1, 1},   // one vector of filters
      {2, 5, 14, 15, 70, 3, 3, 1, 1, 1, 1},   // more than a panel of filters, and a partial vector
      {2, 130, 7, 7, 33, 3, 3, 1, 1, 1, 1},   // a depth of several passes
      {2, 3, 21, 20, 24, 7, 7, 2, 3, 1, 1},   // stride, adjacent taps
      {2, 24, 9, 8, 40, 3, 3, 2, 1, 2, 2},    // groups, dilation
      {2, 33, 12, 12, 31, 1, 1, 1, 0, 1, 1},  // 1 x 1, read in place
      {2, 17, 12, 11, 18, 1, 1, 2, 0, 1, 1},  // with pixels that no output reads
      {2, 8, 10, 12, 9, 3, 2, 1, 0, 1, 1},    // no padding: x in place, dy in a frame
      {1, 9, 5, 6, 8, 2, 2, 3, 4, 1, 1},      // padding beyond the kernel
      {1, 32, 60, 60, 32, 3, 3, 1, 1, 1, 1},  // several bands
      {40, 16, 3, 2, 16, 3, 3, 1, 1, 1, 1},   // samples share a chunk
  };
  for (const Case& c : some_of(cases, 5)) {
    for (DType dtype : kFloating) check_case(c, dtype, Layout::channels_last, Layout::channels_last);
    check_case(c, f64, Layout::channels_last, Layout::dense);
    check_case(c, f32, Layout::dense, Layout::channels_last);
  }
}

TEST_CASE("parts of images are read and written in place") {
  for (const Layout layout : {Layout::dense, Layout::channels_last}) {
    for (const int64_t groups : {1, 2, 6}) {
      const Window2d window{3, 3, 1, 1, 1};
      Array x = Array::random(f64, {3, 7, 9, 8}, 1, -1, 1, layout),
            w = Array::random(f64, {6, 6 / groups, 3, 3}, 2);
      Array dy = Array::random(f64, {3, 7, 9, 8}, 3, -1, 1, layout);
      Array y = Array::random(f64, {3, 7, 9, 8}, 4, -1, 1, layout), dx = y, dw(f64, w.shape());
      const std::vector<double> before = y.values();
      const auto part = [](Array& a) {  // samples 1 and 2, channels 1 to 6, rows 2 to 7, columns 1 to 6
        View v = a.view();
        v.data = v.as<double>() + v.strides[0] + v.strides[1] + 2 * v.strides[2] + v.strides[3];
        v.shape = {2, 6, 6, 6};
        return v;
      };
      const auto values = [](const View& v) {
        std::vector<double> out(static_cast<size_t>(v.numel()));
        tinytorch::backend::pack(out.data(), v, 0, v.numel());
        return out;
      };
      cpu_kernels::conv2d(part(y), part(x), w.view(), View{}, window, groups);
      cpu_kernels::conv2d_grad_input(part(dx), part(dy), w.view(), window, groups);
      cpu_kernels::conv2d_grad_weight(dw.view(), part(dy), part(x), window, groups);
      const Case c{2, 6, 6, 6, 6, 3, 3, 1, 1, 1, groups};
      const auto xs = values(part(x)), dys = values(part(dy));
      check_close(values(part(y)), conv_reference(c, Wanted::out, xs, w.values(), dys, 6, 6), f64, 80);
      check_close(values(part(dx)), conv_reference(c, Wanted::dx, xs, w.values(), dys, 6, 6), f64, 80);
      check_close(dw.values(), conv_reference(c, Wanted::dw, xs, w.values(), dys, 6, 6), f64, 100);
      const std::vector<double> after_y = y.values(), after_dx = dx.values();
      size_t changed_y = 0, changed_dx = 0;
      for (size_t i = 0; i < before.size(); ++i) {
        changed_y += after_y[i] != before[i] ? 1 : 0;
        changed_dx += after_dx[i] != before[i] ? 1 : 0;
      }
      CHECK(changed_y == 2 * 6 * 6 * 6);
      CHECK(changed_dx == 2 * 6 * 6 * 6);
    }
  }
}

TEST_CASE("an infinity of x reaches the weight gradients that depend on it, and no others") {
  const Window2d window{3, 3, 1, 1, 1};
  for (const double bad : {static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
    for (const int64_t place : {int64_t{5}, int64_t{0}, int64_t{29}, int64_t{2 * 30 + 11}}) {  // at an edge
      for (const bool depthwise : {false, true}) {
        for (const Layout layout : {Layout::dense, Layout::channels_last}) {
          Case c{3, 2, 5, 6, 4, 3, 3, 1, 1, 1, 1};
          if (depthwise) c.M = c.groups = 2;
          std::vector<double> xs = Array::random(f32, {3, 2, 5, 6}, 1, -1, 1).values();
          xs[static_cast<size_t>(place)] = bad;
          Array x = Array::from(f32, {3, 2, 5, 6}, xs, layout);
          Array dy = Array::random(f32, {3, c.M, 5, 6}, 2, 0.5, 1, layout),
                dw(f32, {c.M, 2 / c.groups, 3, 3});
          cpu_kernels::conv2d_grad_weight(dw.view(), dy.view(), x.view(), window, c.groups);
          const auto want = conv_reference(c, Wanted::dw, xs, dw.values(), dy.values(), 5, 6);
          const auto found = dw.values();
          int64_t finite = 0;
          for (size_t i = 0; i < want.size(); ++i) {
            CHECK(std::isfinite(found[i]) == std::isfinite(want[i]));
            if (!std::isfinite(want[i])) continue;
            CHECK(std::abs(found[i] - want[i]) < 1e-4);
            ++finite;
          }
          CHECK(finite > 0);
        }
      }
    }
  }
}

TEST_CASE("conv2d without bias, and with an empty batch") {
  const Case c{2, 2, 4, 4, 3, 3, 3, 1, 0, 1, 1};
  const Window2d window{3, 3, 1, 0, 1};
  Array x = Array::random(f32, {2, 2, 4, 4}, 1), w = Array::random(f32, {3, 2, 3, 3}, 2),
        y(f32, {2, 3, 2, 2});
  cpu_kernels::conv2d(y.view(), x.view(), w.view(), View{}, window, 1);
  check_close(y.values(), conv_reference(c, Wanted::out, x.values(), w.values(), y.values(), 2, 2), f32, 20);
  Array none(f32, {0, 2, 4, 4}), no_dy(f32, {0, 3, 2, 2}), dw(f32, {3, 2, 3, 3});
  cpu_kernels::conv2d(no_dy.view(), none.view(), w.view(), View{}, window, 1);
  cpu_kernels::conv2d_grad_weight(dw.view(), no_dy.view(), none.view(), window, 1);
  check_close(dw.values(), std::vector<double>(54, 0.0), f32, 0);
}

TEST_CASE("conv2d and its gradients without channels, outputs or samples") {
  const Case cases[] = {
      {2, 0, 4, 4, 3, 3, 3, 1, 1, 1, 1},  // no input channels: the result is the bias
      {2, 0, 5, 4, 4, 3, 2, 2, 0, 1, 2},  // no input channels, in groups
      {2, 3, 4, 4, 0, 3, 3, 1, 1, 1, 1},  // no output channels: dx is 0
      {2, 4, 5, 4, 0, 3, 2, 2, 0, 1, 2}, {0, 2, 4, 4, 3, 3, 3, 1, 1, 1, 1},  // no samples: dw is 0
      {2, 0, 4, 4, 0, 3, 3, 1, 1, 1, 1},                                     // no channels at all
  };
  for (const Case& c : cases) {
    for (DType dtype : kFloating) check_case(c, dtype, Layout::dense);
  }
}

TEST_CASE("conv2d gives the same bits at any thread count") {
  const Window2d window{3, 3, 1, 1, 1};
  const int before = thread_count();
  for (const Layout layout : {Layout::dense, Layout::channels_last}) {
    for (const int64_t groups : {1, 40}) {
      const int64_t M = groups == 1 ? 24 : 40;
      Array x = Array::random(f32, {9, 40, 13, 13}, 1, -1, 1, layout);
      Array w = Array::random(f32, {M, 40 / groups, 3, 3}, 2);
      Array dy = Array::random(f32, {9, M, 13, 13}, 3, -1, 1, layout);
      std::vector<double> first[3];
      for (int threads : {1, 2, 5}) {
        set_thread_count(threads);
        Array y(f32, dy.shape(), layout), dx(f32, x.shape(), layout), dw(f32, w.shape());
        cpu_kernels::conv2d(y.view(), x.view(), w.view(), View{}, window, groups);
        cpu_kernels::conv2d_grad_input(dx.view(), dy.view(), w.view(), window, groups);
        cpu_kernels::conv2d_grad_weight(dw.view(), dy.view(), x.view(), window, groups);
        const std::vector<double> now[3] = {y.values(), dx.values(), dw.values()};
        for (int k = 0; k < 3; ++k) {
          if (threads == 1) first[k] = now[k];
          CHECK(first[k] == now[k]);
        }
      }
    }
  }
  set_thread_count(before);
}

TEST_CASE("a depthwise convolution equals a separate convolution of each channel") {
  const Window2d window{3, 3, 1, 1, 1};
  const Shape images{2, 5, 8, 19}, plane{2, 1, 8, 19};
  Array x = Array::random(f64, images, 1), w = Array::random(f64, {5, 1, 3, 3}, 2),
        dy = Array::random(f64, images, 3);
  Array y(f64, images), dx(f64, images), dw(f64, {5, 1, 3, 3});
  cpu_kernels::conv2d(y.view(), x.view(), w.view(), View{}, window, 5);
  cpu_kernels::conv2d_grad_input(dx.view(), dy.view(), w.view(), window, 5);
  cpu_kernels::conv2d_grad_weight(dw.view(), dy.view(), x.view(), window, 5);
  const auto channel = [&](Array& a, int64_t c) {
    View v = a.view();
    v.data = v.as<double>() + c * v.strides[1];
    v.shape[1] = 1;
    return v;
  };
  const auto kernel = [&](Array& a, int64_t c) {
    View v = a.view();
    v.data = v.as<double>() + c * v.strides[0];
    v.shape[0] = 1;
    return v;
  };
  const auto values = [](const View& v) {
    std::vector<double> out(static_cast<size_t>(v.numel()));
    tinytorch::backend::pack(out.data(), v, 0, v.numel());
    return out;
  };
  for (int64_t c = 0; c < 5; ++c) {
    Array one(f64, plane), one_dx(f64, plane), one_dw(f64, {1, 1, 3, 3});
    cpu_kernels::conv2d(one.view(), channel(x, c), kernel(w, c), View{}, window, 1);
    cpu_kernels::conv2d_grad_input(one_dx.view(), channel(dy, c), kernel(w, c), window, 1);
    cpu_kernels::conv2d_grad_weight(one_dw.view(), channel(dy, c), channel(x, c), window, 1);
    check_close(values(channel(y, c)), one.values(), f64, 20);
    check_close(values(channel(dx, c)), one_dx.values(), f64, 20);
    check_close(values(kernel(dw, c)), one_dw.values(), f64, 400);
  }
}
