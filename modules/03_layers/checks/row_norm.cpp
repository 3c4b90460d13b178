#include <support/check.hpp>
#include <tinytorch/backend/cpu/norm.hpp>

using namespace course;
using backend::View;
namespace cpu = tinytorch::backend::cpu;

namespace {

constexpr DType kFloating[] = {f32, f64, bf16, f16};

struct Forward {
  Numbers y, mean, rstd;
};
// The reference in double. With rms the mean is 0. weight and bias may be empty.
Forward forward(const Numbers& x, size_t C, bool rms, const Numbers& weight, const Numbers& bias,
                double eps) {
  Forward f;
  for (size_t r = 0; r < x.size() / C; ++r) {
    double mean = 0, square = 0;
    for (size_t i = 0; i < C && !rms; ++i) mean += x[r * C + i] / static_cast<double>(C);
    for (size_t i = 0; i < C; ++i)
      square += (x[r * C + i] - mean) * (x[r * C + i] - mean) / static_cast<double>(C);
    f.mean.push_back(mean);
    f.rstd.push_back(1 / std::sqrt(square + eps));
    for (size_t i = 0; i < C; ++i) {
      const double h = (x[r * C + i] - mean) * f.rstd.back();
      f.y.push_back(h * (weight.empty() ? 1 : weight[i]) + (bias.empty() ? 0 : bias[i]));
    }
  }
  return f;
}

struct Options {
  bool rms = false, weight = true, bias = true;
  Layout layout = Layout::contiguous;
  double low = -2, high = 2, eps = 1e-5, scale = 4;
};
std::string call(const char* what, const Shape& shape, const Options& o) {
  return std::string(what) + (o.rms ? "rms_norm" : "layer_norm") + " of " + shape.str() + ", " +
         (o.weight ? (o.bias && !o.rms ? "weight and bias" : "weight")
                   : (o.bias && !o.rms ? "bias" : "no weight")) +
         ", " + name_of_layout(o.layout) + (o.eps > 0.1 ? ", eps " + shown(o.eps) : "");
}
View view_if(bool wanted, Values& v) { return wanted ? v.view() : View{}; }

void check_forward(DType dtype, const Shape& shape, const Options& o) {
  Shape rows = shape;
  rows.pop_back();
  const int64_t C = shape.back();
  const DType wide = dtype == f64 ? f64 : f32;
  Values x = Values::random(dtype, shape, o.layout, o.low, o.high), y(dtype, shape, o.layout);
  Values weight = Values::random(dtype, {C}, o.layout, 0.5, 2), bias = Values::random(dtype, {C}, o.layout);
  Values mean(wide, rows), rstd(wide, rows);
  const Forward want =
      forward(x.numbers(), static_cast<size_t>(C), o.rms, o.weight ? weight.numbers() : Numbers{},
              o.bias && !o.rms ? bias.numbers() : Numbers{}, o.eps);
  if (o.rms) {
    cpu::rms_norm(y.view(), rstd.view(), x.view(), view_if(o.weight, weight), o.eps);
  } else {
    cpu::layer_norm(y.view(), mean.view(), rstd.view(), x.view(), view_if(o.weight, weight),
                    view_if(o.bias, bias), o.eps);
    expect_close(call("the mean of ", shape, o), mean, want.mean, {.roundings = 4, .scale = o.scale});
  }
  expect_close(call("", shape, o), y, want.y, {.roundings = 16, .scale = o.scale});
  expect_close(call("1 / sqrt(var + eps) of ", shape, o), rstd, want.rstd, {.roundings = 64, .scale = 0});
}

void check_backward(DType dtype, const Shape& shape, Options o) {
  o.bias = false;
  const auto C = static_cast<size_t>(shape.back());
  Shape rows = shape;
  rows.pop_back();
  const DType wide = dtype == f64 ? f64 : f32;
  Values x = Values::random(dtype, shape, o.layout, o.low, o.high),
         dy = Values::random(dtype, shape, o.layout);
  Values weight = Values::random(dtype, {shape.back()}, o.layout, 0.5, 2);
  const Numbers xs = x.numbers(), g = dy.numbers(), w = o.weight ? weight.numbers() : Numbers(C, 1.0);
  const Forward f = forward(xs, C, o.rms, {}, {}, o.eps);
  Numbers dx(xs.size()), dweight(C), dbias(C);
  for (size_t r = 0; r < xs.size() / C; ++r) {
    double sum = 0, dot = 0;
    for (size_t i = r * C; i < (r + 1) * C; ++i) {
      const double h = (xs[i] - f.mean[r]) * f.rstd[r], gw = g[i] * w[i % C];
      sum += o.rms ? 0 : gw / static_cast<double>(C);
      dot += gw * h / static_cast<double>(C);
      dweight[i % C] += g[i] * h;
      dbias[i % C] += g[i];
    }
    for (size_t i = r * C; i < (r + 1) * C; ++i) {
      dx[i] = f.rstd[r] * (g[i] * w[i % C] - sum - (xs[i] - f.mean[r]) * f.rstd[r] * dot);
    }
  }
  Values mean = Values::of(wide, rows, f.mean), rstd = Values::of(wide, rows, f.rstd);
  Values got(dtype, shape, o.layout), got_weight(dtype, {shape.back()}), got_bias(dtype, {shape.back()});
  if (o.rms) {
    cpu::rms_norm_grad(got.view(), got_weight.view(), dy.view(), x.view(), rstd.view(),
                       view_if(o.weight, weight));
  } else {
    cpu::layer_norm_grad(got.view(), got_weight.view(), got_bias.view(), dy.view(), x.view(), mean.view(),
                         rstd.view(), view_if(o.weight, weight));
    expect_close(call("dbias of ", shape, o), got_bias, dbias, {.roundings = 8, .scale = 4});
  }
  expect_close(call("dx of ", shape, o), got, dx, {.roundings = 32, .scale = o.scale});
  expect_close(call("dweight of ", shape, o), got_weight, dweight, {.roundings = 32, .scale = o.scale});
}

}  // namespace

TEST_CASE("3.8 a row with mean 0 and variance 1") {
  Values x = Values::of(f32, {1, 4}, {1, 3, 5, 7}), y(f32, {1, 4}), mean(f32, {1}), rstd(f32, {1});
  cpu::layer_norm(y.view(), mean.view(), rstd.view(), x.view(), {}, {}, 0);
  const double s = std::sqrt(5.0);
  expect_close("layer_norm of [1, 3, 5, 7] with eps 0", y, {-3 / s, -1 / s, 1 / s, 3 / s});
  check_forward(f32, {3, 5}, {.eps = 0.5});
  for (const DType dtype : {f32, f64}) check_forward(dtype, {5, 7}, {});
}

TEST_CASE("3.8 weight and bias, or one of them, or none") {
  for (const bool weight : {false, true}) {
    for (const bool bias : {false, true}) check_forward(f32, {3, 11}, {.weight = weight, .bias = bias});
  }
}

TEST_CASE("3.8 a row with a large mean keeps the precision of its variance") {
  check_forward(f32, {3, 64}, {.low = 4000, .high = 4001, .scale = 4096});
  Values x = Values::of(f32, {1, 4}, {10000, 10001, 10002, 10003}), y(f32, {1, 4}), mean(f32, {1}),
         rstd(f32, {1});
  cpu::layer_norm(y.view(), mean.view(), rstd.view(), x.view(), {}, {}, 0);
  const double s = std::sqrt(5.0);
  expect_close("layer_norm of [10000, 10001, 10002, 10003]", y, {-3 / s, -1 / s, 1 / s, 3 / s},
               {.roundings = 8});
  Values equal = Values::of(f32, {1, 4}, {7, 7, 7, 7});
  cpu::layer_norm(y.view(), mean.view(), rstd.view(), equal.view(), {}, {}, 1e-5);
  expect_close("layer_norm of [7, 7, 7, 7]", y, {0, 0, 0, 0});
}

TEST_CASE("3.8 RMS norm divides by the root of the mean square") {
  for (const bool weight : {false, true}) check_forward(f32, {4, 9}, {.rms = true, .weight = weight});
  check_forward(f64, {3, 5}, {.rms = true, .eps = 0.5});
}

TEST_CASE("3.8 any layout and dtype") {
  for (const DType dtype : kFloating) {
    for (const Layout layout : kLayouts) {
      check_forward(dtype, {2, 3, 5}, {.layout = layout});
      check_forward(dtype, {2, 3, 5}, {.rms = true, .layout = layout});
    }
  }
  check_forward(f32, {4, 1}, {});
}

TEST_CASE("3.8 gradients of layer norm") {
  check_backward(f64, {1, 3}, {.weight = false});
  for (const bool weight : {false, true}) check_backward(f32, {5, 7}, {.weight = weight});
  for (const DType dtype : kFloating) check_backward(dtype, {2, 3, 5}, {.layout = Layout::reversed});
}

TEST_CASE("3.8 gradients of RMS norm") {
  check_backward(f64, {1, 3}, {.rms = true, .weight = false});
  for (const bool weight : {false, true}) check_backward(f32, {5, 7}, {.rms = true, .weight = weight});
  for (const DType dtype : kFloating) check_backward(dtype, {2, 3, 5}, {.rms = true, .layout = Layout::gaps});
}

TEST_CASE("3.8 only the requested gradients") {
  Values x = Values::random(f32, {3, 5}), dy = Values::random(f32, {3, 5}), dbias(f32, {5});
  Values mean = Values::of(f32, {3}, {0, 0, 0}), rstd = Values::of(f32, {3}, {1, 1, 1});
  const Numbers g = dy.numbers();
  Numbers want(5);
  for (size_t i = 0; i < g.size(); ++i) want[i % 5] += g[i];
  cpu::layer_norm_grad({}, {}, dbias.view(), dy.view(), x.view(), mean.view(), rstd.view(), {});
  expect_close("dbias of layer_norm_grad of [3, 5] without dx", dbias, want, {.scale = 4});
}
