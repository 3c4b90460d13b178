#include <support/check.hpp>
#include <tinytorch/backend/cpu/batch_norm.hpp>

using namespace course;
using backend::View;
namespace cpu = tinytorch::backend::cpu;

namespace {

constexpr DType kFloating[] = {f32, f64, bf16, f16};

// The positions of channel c in a row-major [N, C, ...].
std::vector<size_t> places(const Shape& shape, int64_t c) {
  int64_t inner = 1;
  for (int d = 2; d < shape.size(); ++d) inner *= shape[d];
  std::vector<size_t> all;
  for (int64_t i = 0; i < shape.numel(); ++i) {
    if (i / inner % shape[1] == c) all.push_back(static_cast<size_t>(i));
  }
  return all;
}
struct Moments {
  Numbers mean, var;
};
Moments moments(const Numbers& x, const Shape& shape) {
  Moments m;
  for (int64_t c = 0; c < shape[1]; ++c) {
    const std::vector<size_t> channel = places(shape, c);
    double mean = 0, var = 0;
    for (size_t i : channel) mean += x[i] / static_cast<double>(channel.size());
    for (size_t i : channel) var += (x[i] - mean) * (x[i] - mean) / static_cast<double>(channel.size());
    m.mean.push_back(mean);
    m.var.push_back(var);
  }
  return m;
}
DType wide(DType dtype) { return dtype == f64 ? f64 : f32; }

void check_moments(DType dtype, const Shape& shape, Layout layout, double low, double high) {
  Values x = Values::random(dtype, shape, layout, low, high), mean(wide(dtype), {shape[1]}),
         var(wide(dtype), {shape[1]});
  const Moments want = moments(x.numbers(), shape);
  const std::string of = " of the channels of " + shape.str() + ", " + name_of_layout(layout);
  cpu::channel_moments(mean.view(), var.view(), x.view());
  expect_close("mean" + of, mean, want.mean, {.roundings = 4, .scale = std::abs(high)});
  expect_close("variance" + of, var, want.var, {.roundings = 32, .scale = 1});
}
void check_normalized(DType dtype, const Shape& shape, Layout layout, bool weighted) {
  const int64_t C = shape[1];
  Values x = Values::random(dtype, shape, layout, -2, 2), out(dtype, shape, layout);
  Values mean = Values::random(wide(dtype), {C}),
         var = Values::random(wide(dtype), {C}, Layout::contiguous, 0.5, 2);
  Values weight = Values::random(dtype, {C}, layout, 0.5, 2), bias = Values::random(dtype, {C}, layout);
  const Numbers xs = x.numbers(), ms = mean.numbers(), vs = var.numbers(), ws = weight.numbers(),
                bs = bias.numbers();
  Numbers want(xs.size());
  for (int64_t k = 0; k < C; ++k) {
    const auto c = static_cast<size_t>(k);
    for (size_t i : places(shape, k)) {
      want[i] = (xs[i] - ms[c]) / std::sqrt(vs[c] + 0.01) * (weighted ? ws[c] : 1) + (weighted ? bs[c] : 0);
    }
  }
  cpu::batch_norm(out.view(), x.view(), mean.view(), var.view(), weighted ? weight.view() : View{},
                  weighted ? bias.view() : View{}, 0.01);
  expect_close(
      "batch_norm of " + shape.str() + (weighted ? ", weight and bias, " : ", ") + name_of_layout(layout),
      out, want, {.roundings = 16, .scale = 4});
}
void check_gradient(DType dtype, const Shape& shape, Layout layout, bool of_batch) {
  const int64_t C = shape[1];
  constexpr double kEps = 0.01;
  Values x = Values::random(dtype, shape, layout, -2, 2), dy = Values::random(dtype, shape, layout);
  Values weight = Values::random(dtype, {C}, layout, 0.5, 2), dx(dtype, shape, layout), dweight(dtype, {C}),
         dbias(dtype, {C});
  const Numbers xs = x.numbers(), g = dy.numbers(), ws = weight.numbers();
  const Moments m = moments(xs, shape);
  Values mean = Values::of(wide(dtype), {C}, m.mean), var = Values::of(wide(dtype), {C}, m.var);
  Numbers want(xs.size()), want_weight, want_bias;
  for (int64_t k = 0; k < C; ++k) {
    const auto c = static_cast<size_t>(k);
    const std::vector<size_t> channel = places(shape, k);
    const double rstd = 1 / std::sqrt(m.var[c] + kEps), count = static_cast<double>(channel.size());
    double sum = 0, dot = 0;
    for (size_t i : channel) sum += g[i], dot += g[i] * (xs[i] - m.mean[c]) * rstd;
    want_weight.push_back(dot);
    want_bias.push_back(sum);
    for (size_t i : channel) {
      const double through = of_batch ? sum / count + (xs[i] - m.mean[c]) * rstd * dot / count : 0;
      want[i] = ws[c] * rstd * (g[i] - through);
    }
  }
  cpu::batch_norm_grad({dx.view(), dweight.view(), dbias.view(), {}, {}}, dy.view(), x.view(), mean.view(),
                       var.view(), weight.view(), kEps, of_batch, {}, {});
  const std::string of = " of batch_norm_grad of " + shape.str() + ", " + name_of_layout(layout) +
                         (of_batch ? ", statistics of the batch" : ", statistics given");
  expect_close("dx" + of, dx, want, {.roundings = 32, .scale = 4});
  expect_close("dweight" + of, dweight, want_weight, {.roundings = 32, .scale = 4});
  expect_close("dbias" + of, dbias, want_bias, {.roundings = 32, .scale = 4});
}

}  // namespace

TEST_CASE("3.9 mean and variance of each channel") {
  Values x = Values::of(f32, {2, 2, 2}, {1, 3, 10, 10, 5, 7, 10, 14}), mean(f32, {2}), var(f32, {2});
  cpu::channel_moments(mean.view(), var.view(), x.view());
  expect_close("mean of the channels of [[[1 3] [10 10]] [[5 7] [10 14]]]", mean, {4, 11});
  expect_close("variance of the channels of [[[1 3] [10 10]] [[5 7] [10 14]]]", var, {5, 3});
  for (const Shape& shape : {Shape{7, 3}, Shape{4, 3, 5}, Shape{2, 3, 2, 5}})
    check_moments(f32, shape, Layout::contiguous, -2, 2);
}

TEST_CASE("3.9 channels with a large mean keep the precision of their variance") {
  check_moments(f32, {4, 3, 5}, Layout::contiguous, 4000, 4001);
  check_moments(f64, {4, 3, 5}, Layout::contiguous, 1e8, 1e8 + 1);
}

TEST_CASE("3.9 each channel is normalized by its statistics") {
  for (const Shape& shape : {Shape{7, 3}, Shape{4, 3, 5}, Shape{2, 3, 2, 5}}) {
    for (const bool weighted : {false, true}) check_normalized(f32, shape, Layout::contiguous, weighted);
  }
}

TEST_CASE("3.9 the gradient also flows through mean and variance") {
  for (const Shape& shape : {Shape{7, 3}, Shape{4, 3, 5}, Shape{2, 3, 2, 5}}) {
    check_gradient(f64, shape, Layout::contiguous, true);
    check_gradient(f32, shape, Layout::contiguous, false);
  }
}

TEST_CASE("3.9 any layout and dtype") {
  for (const DType dtype : kFloating) {
    for (const Layout layout : kLayouts) {
      check_moments(dtype, {3, 2, 5}, layout, -2, 2);
      check_normalized(dtype, {3, 2, 5}, layout, true);
      check_gradient(dtype, {3, 2, 5}, layout, true);
    }
  }
}
