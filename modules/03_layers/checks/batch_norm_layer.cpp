#include <support/check.hpp>
#include <tinytorch/autograd/engine.hpp>
#include <tinytorch/layers/batch_norm.hpp>

using namespace course;

namespace {

Numbers numbers(const Tensor& t) { return t.to_vector<double>(); }
Tensor random(const Shape& shape, double low = -1, double high = 3) {
  return Tensor(from_data(Values::random(f64, shape, Layout::contiguous, low, high).numbers(), shape))
      .to(f32);
}
struct Moments {
  Numbers mean, var, unbiased;
};
// Mean and both variances of each channel of x [N, C, ...].
Moments moments(const Tensor& x) {
  const Numbers xs = numbers(x);
  const auto C = static_cast<size_t>(x.size(1)), count = xs.size() / C,
             inner = count / static_cast<size_t>(x.size(0));
  Moments m{Numbers(C), Numbers(C), Numbers(C)};
  for (size_t i = 0; i < xs.size(); ++i) m.mean[i / inner % C] += xs[i] / static_cast<double>(count);
  for (size_t i = 0; i < xs.size(); ++i) {
    const size_t c = i / inner % C;
    m.var[c] += (xs[i] - m.mean[c]) * (xs[i] - m.mean[c]) / static_cast<double>(count);
  }
  for (size_t c = 0; c < C; ++c)
    m.unbiased[c] = m.var[c] * static_cast<double>(count) / static_cast<double>(count - 1);
  return m;
}
Numbers normalized(const Tensor& x, const Numbers& mean, const Numbers& var, double eps) {
  Numbers y = numbers(x);
  const size_t C = mean.size(), inner = y.size() / C / static_cast<size_t>(x.size(0));
  for (size_t i = 0; i < y.size(); ++i)
    y[i] = (y[i] - mean[i / inner % C]) / std::sqrt(var[i / inner % C] + eps);
  return y;
}

}  // namespace

TEST_CASE("3.10 training normalizes by the statistics of the batch") {
  for (const Shape& shape : {Shape{6, 3}, Shape{2, 3, 4, 5}}) {
    BatchNorm layer(3, {.eps = 0.01});
    const Tensor x = random(shape);
    const Moments m = moments(x);
    expect_close("BatchNorm(3) in training, x " + shape.str(), numbers(layer(x)),
                 normalized(x, m.mean, m.var, 0.01), shape, {.roundings = 32, .scale = 2});
  }
}

TEST_CASE("3.10 training updates the running statistics") {
  BatchNorm layer(2, {.momentum = 0.25});
  const Tensor x = random({5, 2, 3});
  const Moments m = moments(x);
  layer(x);
  Numbers mean, var;
  for (size_t c = 0; c < 2; ++c) mean.push_back(0.25 * m.mean[c]), var.push_back(0.75 + 0.25 * m.unbiased[c]);
  expect_close("running_mean after one batch, momentum 0.25: 0.25 times the batch's mean",
               numbers(layer.running_mean), mean, {2}, {.roundings = 16});
  expect_close("running_var after one batch, momentum 0.25: 0.75 + 0.25 times the batch's unbiased variance",
               numbers(layer.running_var), var, {2}, {.roundings = 16});
  const Tensor next = random({4, 2, 3});
  const Moments n = moments(next);
  layer(next);
  for (size_t c = 0; c < 2; ++c)
    mean[c] = 0.75 * mean[c] + 0.25 * n.mean[c], var[c] = 0.75 * var[c] + 0.25 * n.unbiased[c];
  expect_close("running_mean after two batches", numbers(layer.running_mean), mean, {2}, {.roundings = 16});
  expect_close("running_var after two batches", numbers(layer.running_var), var, {2}, {.roundings = 16});
  expect_equal("num_batches_tracked", layer.batches.item<int64_t>(), int64_t{2});
}

TEST_CASE("3.10 evaluation normalizes by the running statistics and does not change them") {
  BatchNorm layer(3);
  for (int k = 0; k < 3; ++k) layer(random({8, 3}));
  layer.eval();
  const Numbers mean = numbers(layer.running_mean), var = numbers(layer.running_var);
  const Tensor x = random({5, 3});
  const Tensor y = layer(x);
  expect_close("BatchNorm(3) in evaluation, x [5, 3]", numbers(y), normalized(x, mean, var, 1e-5), {5, 3},
               {.roundings = 32, .scale = 2});
  expect_close("running_mean after evaluation", numbers(layer.running_mean), mean, {3}, {.roundings = 0});
  expect_close("running_var after evaluation", numbers(layer.running_var), var, {3}, {.roundings = 0});
  expect_equal("num_batches_tracked after evaluation", layer.batches.item<int64_t>(), int64_t{3});
  const Tensor alone = layer(x.slice(0, 2, 3));
  const Numbers together = numbers(y.slice(0, 2, 3));
  expect_close("row 2 evaluated alone: the same as in the batch", numbers(alone), together, {1, 3},
               {.roundings = 0});
}

TEST_CASE("3.10 training with one value per channel is refused") {
  BatchNorm layer(3);
  expect_throws("TT-NN-14", "BatchNorm(3) in training, x [1, 3]", [&] { layer(random({1, 3})); });
  layer.eval();
  layer(random({1, 3}));
  layer.train();
  layer(random({1, 3, 2}));
}

TEST_CASE("3.10 weight and bias are applied and get gradients; running statistics hold no graph") {
  BatchNorm layer(2);
  layer.weight.detach().fill_(2);
  layer.bias.detach().fill_(-1);
  Tensor x = random({6, 2});
  x.requires_grad_();
  const Moments m = moments(x);
  Numbers want = normalized(x, m.mean, m.var, 1e-5);
  for (double& v : want) v = 2 * v - 1;
  const Tensor y = layer(x);
  expect_close("BatchNorm(2) with weight 2, bias -1", numbers(y), want, {6, 2},
               {.roundings = 32, .scale = 2});
  expect("running_mean requires no gradient", !layer.running_mean.requires_grad(),
         "update it under NoGrad, with detached values");
  expect("running_var requires no gradient", !layer.running_var.requires_grad(),
         "update it under NoGrad, with detached values");
  backward(sum(square(y)));
  expect("the weight has a gradient", layer.weight.grad().defined());
  expect("the input has a gradient", x.grad().defined());
}
