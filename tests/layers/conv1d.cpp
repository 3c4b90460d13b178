#include <tinytorch/layers/conv1d.hpp>

#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <support/values.hpp>
#include <tinytorch/layers/conv_transpose.hpp>
#include <tinytorch/layers/instance_norm.hpp>
#include <tinytorch/layers/pooling.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <tinytorch/layers/upsample.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using errors::thrown_by;

namespace {
float largest(const tt::Tensor& t) { return tt::max(tt::abs(t)).item(); }
}  // namespace

TEST_CASE("Conv1d and ConvTranspose have PyTorch's shapes of weights and bounds of their values") {
  tt::manual_seed(7);
  tt::Conv1d conv(8, 64, 5, {.groups = 2});
  CHECK(conv.weight.shape() == tt::Shape{64, 4, 5});
  CHECK(largest(conv.weight) <= 1 / std::sqrt(20.0f));
  CHECK(largest(conv.weight) > 0.98f / std::sqrt(20.0f));
  tt::ConvTranspose2d up(8, 64, {5, 2}, {.stride = 2, .groups = 2});
  CHECK(up.weight.shape() == tt::Shape{8, 32, 5, 2});
  CHECK(largest(up.weight) <= 1 / std::sqrt(320.0f));  // of the outputs of each input
  CHECK(largest(up.weight) > 0.98f / std::sqrt(320.0f));
  CHECK(tt::ConvTranspose1d(2, 3, 4, {}, false).named_parameters().size() == 1);
  CHECK(tt::Conv1d(2, 3, 4, {}, false).named_parameters().size() == 1);
  CHECK(thrown_by([] { tt::Conv1d(3, 4, 1, {.groups = 2}); }).code == "TT-NN-12");
  CHECK(thrown_by([] { tt::ConvTranspose1d(4, 3, 1, {.groups = 2}); }).code == "TT-NN-12");
}

TEST_CASE("a stack of layers for sequences, and one for images, has the sizes of PyTorch") {
  tt::Sequential sequences(tt::Conv1d(3, 6, 3, {.padding = 1}), tt::InstanceNorm1d(6), tt::MaxPool1d(2),
                           tt::ConvTranspose1d(6, 2, 4, {.stride = 2, .padding = 1}), tt::AvgPool1d(3, 1, 1));
  CHECK(sequences(tt::ones({2, 3, 10})).shape() == tt::Shape{2, 2, 10});
  tt::Sequential images(tt::ConvTranspose2d(3, 4, 2, {.stride = 2}), tt::InstanceNorm2d(4, 1e-5, true),
                        tt::Upsample({.scale_factor = 1.5, .mode = tt::Interpolation::bilinear}),
                        tt::AdaptiveMaxPool2d(2, 3));
  const tt::Tensor y = images(tt::randn({2, 3, 4, 4}));
  CHECK(y.shape() == tt::Shape{2, 4, 2, 3});
  tt::sum(tt::square(y)).backward();
  for (const tt::Tensor& p : images.parameters()) CHECK(p.grad().defined());
}

TEST_CASE("InstanceNorm gives each channel of each sample mean 0 and variance 1") {
  tt::manual_seed(8);
  const tt::Tensor x = tt::randn({3, 2, 5, 7}, tt::f64) * 3 + 4;
  const tt::Tensor y = tt::InstanceNorm2d(2)(x);
  for (const double mean : tt::mean(y, {2, 3}).to_vector<double>()) CHECK(std::abs(mean) < 1e-12);
  for (const double var : tt::var(y, {2, 3}, 0).to_vector<double>()) CHECK(std::abs(var - 1) < 1e-5);
  tt::InstanceNorm2d affine(2, 1e-5, true);
  affine.to(tt::f64);
  const tt::NoGrad no_grad;
  affine.weight.copy_(tt::from_data({2.0, -1.0}));
  affine.bias.copy_(tt::from_data({0.5, 3.0}));
  const tt::Tensor scale = tt::from_data({2.0, -1.0}).reshape({2, 1, 1}),
                   shift = tt::from_data({0.5, 3.0}).reshape({2, 1, 1});
  check_values(affine(x).detach().to_vector<double>(), (y * scale + shift).to_vector<double>(), 1e-12);
  CHECK(tt::InstanceNorm1d(2).named_parameters().empty());
  CHECK(thrown_by([&] { tt::InstanceNorm1d(2)(x); }).code == "TT-SHAPE-02");
  CHECK(thrown_by([&] { tt::InstanceNorm2d(3)(x); }).code == "TT-SHAPE-02");
}
