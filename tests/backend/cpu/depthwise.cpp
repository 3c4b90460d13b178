#include "support/array.hpp"

#include <tinytorch/backend/cpu/conv.hpp>

using namespace test;
using tinytorch::backend::View;
using tinytorch::backend::Window2d;

TEST_CASE("a depthwise convolution treats every channel as a convolution of its own") {
  const Window2d window{3, 3, 1, 1, 1};
  const Shape images{2, 5, 8, 19}, plane{2, 1, 8, 19};
  Array x = Array::random(f64, images, 1), w = Array::random(f64, {5, 1, 3, 3}, 2),
        dy = Array::random(f64, images, 3);
  Array y(f64, images), dx(f64, images), dw(f64, {5, 1, 3, 3});
  tinytorch::backend::cpu::conv2d(y.view(), x.view(), w.view(), View{}, window, 5);
  tinytorch::backend::cpu::conv2d_grad_input(dx.view(), dy.view(), w.view(), window, 5);
  tinytorch::backend::cpu::conv2d_grad_weight(dw.view(), dy.view(), x.view(), window, 5);
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
    tinytorch::backend::cpu::conv2d(one.view(), channel(x, c), kernel(w, c), View{}, window, 1);
    tinytorch::backend::cpu::conv2d_grad_input(one_dx.view(), channel(dy, c), kernel(w, c), window, 1);
    tinytorch::backend::cpu::conv2d_grad_weight(one_dw.view(), channel(dy, c), channel(x, c), window, 1);
    check_close(values(channel(y, c)), one.values(), f64, 20);
    check_close(values(channel(dx, c)), one_dx.values(), f64, 20);
    check_close(values(kernel(dw, c)), one_dw.values(), f64, 400);
  }
}
