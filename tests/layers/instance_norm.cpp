#include <tinytorch/layers/instance_norm.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <support/errors.hpp>
#include <support/values.hpp>
#include <tinytorch/autograd/gradcheck.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using errors::thrown_by;

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

TEST_CASE("the gradients of InstanceNorm are those of differences, in one, two and three dimensions") {
  tt::manual_seed(9);
  const auto check = [](const std::shared_ptr<tt::InstanceNorm>& norm, const tt::Shape& shape) {
    tt::Tensors inputs = {tt::randn(shape, tt::f64), tt::rand({2}, tt::f64) + 0.5, tt::randn({2}, tt::f64)};
    for (tt::Tensor& x : inputs) x.requires_grad_();
    const auto result = tt::gradcheck(
        [&](const tt::Tensors& in) {
          norm->weight = in[1], norm->bias = in[2];
          return norm->forward(in[0]);
        },
        inputs);
    INFO(result.message);
    CHECK(result.passed);
  };
  check(std::make_shared<tt::InstanceNorm1d>(2, 1e-5, true), {3, 2, 7});
  check(std::make_shared<tt::InstanceNorm2d>(2, 1e-5, true), {2, 2, 3, 5});
  check(std::make_shared<tt::InstanceNorm3d>(2, 1e-5, true), {2, 2, 3, 2, 4});
}
