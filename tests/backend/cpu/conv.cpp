#include "support/array.hpp"

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

void check_case(const Case& c, DType dtype, Layout layout) {
  const Window2d window{c.KH, c.KW, c.stride, c.padding, c.dilation};
  const int64_t OH = tinytorch::backend::window_outputs(c.H, c.KH, window);
  const int64_t OW = tinytorch::backend::window_outputs(c.W, c.KW, window);
  Array x = Array::random(dtype, {c.N, c.C, c.H, c.W}, 1, -1, 1, layout);
  Array w = Array::random(dtype, {c.M, c.C / c.groups, c.KH, c.KW}, 2, -1, 1, layout);
  Array b = Array::random(dtype, {c.M}, 3, -1, 1, layout);
  Array dy = Array::random(dtype, {c.N, c.M, OH, OW}, 4, -1, 1, layout);
  Array y(dtype, dy.shape()), dx(dtype, x.shape()), dw(dtype, w.shape());
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
  const Case cases[] = {
      {1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1},      // everything 1
      {2, 3, 7, 5, 4, 3, 3, 1, 1, 1, 1},      // padding
      {3, 2, 11, 13, 5, 5, 3, 2, 2, 1, 1},    // stride, kernel not square
      {2, 4, 9, 9, 6, 3, 3, 1, 2, 2, 2},      // dilation and groups
      {2, 4, 9, 8, 4, 3, 3, 2, 1, 1, 4},      // depthwise, stride
      {3, 3, 6, 17, 6, 3, 2, 1, 3, 2, 3},     // depthwise, two outputs each, padding beyond the kernel
      {5, 3, 4, 4, 17, 4, 4, 1, 0, 1, 1},     // one output position: samples share a product
      {70, 2, 5, 5, 3, 2, 2, 1, 0, 1, 1},     // many small images
      {1, 2, 40, 67, 15, 3, 3, 1, 1, 1, 1},   // several blocks of one image
      {2, 33, 12, 12, 31, 1, 1, 1, 0, 1, 1},  // 1 x 1
      {2, 5, 9, 8, 7, 1, 1, 2, 0, 1, 1},      // pixels that nothing reads
      {1, 2, 11, 12, 3, 2, 1, 4, 1, 1, 1},    // whole rows of them, and padding
  };
  for (const Case& c : cases) {
    for (DType dtype : kFloating) check_case(c, dtype, Layout::dense);
    check_case(c, f32, Layout::gaps);
  }
}

TEST_CASE("an infinity of x spoils those weight gradients that see it, and no others") {
  const Case c{3, 2, 5, 6, 4, 3, 3, 1, 1, 1, 1};
  const Window2d window{3, 3, 1, 1, 1};
  for (const double bad : {static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
    for (const int64_t place : {int64_t{5}, int64_t{0}, int64_t{29}, int64_t{2 * 30 + 11}}) {  // at an edge
      Array x = Array::random(f32, {3, 2, 5, 6}, 1, -1, 1), dy = Array::random(f32, {3, 4, 5, 6}, 2, 0.5, 1);
      x.view().as<float>()[place] = static_cast<float>(bad);
      Array dw(f32, {4, 2, 3, 3});
      cpu_kernels::conv2d_grad_weight(dw.view(), dy.view(), x.view(), window, 1);
      const auto want = conv_reference(c, Wanted::dw, x.values(), std::vector<double>(72), dy.values(), 5, 6);
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
      {2, 0, 4, 4, 3, 3, 3, 1, 1, 1, 1},  // no input channels: the bias alone
      {2, 0, 5, 4, 4, 3, 2, 2, 0, 1, 2},  // the same in groups
      {2, 3, 4, 4, 0, 3, 3, 1, 1, 1, 1},  // no output channels: dx is 0
      {2, 4, 5, 4, 0, 3, 2, 2, 0, 1, 2}, {0, 2, 4, 4, 3, 3, 3, 1, 1, 1, 1},  // no samples: dw is 0
      {2, 0, 4, 4, 0, 3, 3, 1, 1, 1, 1},                                     // nothing at all
  };
  for (const Case& c : cases) {
    for (DType dtype : kFloating) check_case(c, dtype, Layout::dense);
  }
}

TEST_CASE("conv2d gives the same bits at any thread count") {
  const Window2d window{3, 3, 1, 1, 1};
  Array x = Array::random(f32, {9, 4, 13, 13}, 1), w = Array::random(f32, {8, 4, 3, 3}, 2);
  Array dy = Array::random(f32, {9, 8, 13, 13}, 3);
  std::vector<double> first[3];
  const int before = thread_count();
  for (int threads : {1, 2, 5}) {
    set_thread_count(threads);
    Array y(f32, dy.shape()), dx(f32, x.shape()), dw(f32, w.shape());
    cpu_kernels::conv2d(y.view(), x.view(), w.view(), View{}, window, 1);
    cpu_kernels::conv2d_grad_input(dx.view(), dy.view(), w.view(), window, 1);
    cpu_kernels::conv2d_grad_weight(dw.view(), dy.view(), x.view(), window, 1);
    const std::vector<double> now[3] = {y.values(), dx.values(), dw.values()};
    for (int k = 0; k < 3; ++k) {
      if (threads == 1) first[k] = now[k];
      CHECK(first[k] == now[k]);
    }
  }
  set_thread_count(before);
}

TEST_CASE("a depthwise convolution treats every channel as a convolution of its own") {
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
