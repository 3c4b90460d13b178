#include <tinytorch/layers/conv3d.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <support/errors.hpp>
#include <tinytorch/layers/activation.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

TEST_CASE("Conv3d has PyTorch's shape of the weight and bound of its values") {
  tt::manual_seed(7);
  tt::Conv3d conv(8, 16, {2, 3, 5}, {.groups = 2});
  CHECK(conv.weight.shape() == tt::Shape{16, 4, 2, 3, 5});
  const double bound = 1 / std::sqrt(4.0 * 30), largest = tt::abs(conv.weight).max().item<double>();
  CHECK(largest <= bound);
  CHECK(largest > 0.98 * bound);
  CHECK(tt::Conv3d(2, 3, 4, {}, false).named_parameters().size() == 1);
  CHECK(errors::thrown_by([] { tt::Conv3d(3, 4, 1, {.groups = 2}); }).code == "TT-NN-12");
}

TEST_CASE("a stack of layers for volumes has the sizes of PyTorch, and learns") {
  tt::manual_seed(8);
  tt::Sequential net(tt::Conv3d(1, 4, 3, {.padding = 1}), tt::ReLU(), tt::MaxPool3d(2),
                     tt::AvgPool3d({1, 2, 2}), tt::AdaptiveAvgPool3d(1));
  const tt::Tensor x = tt::randn({2, 1, 4, 8, 8});
  CHECK(net(x).shape() == tt::Shape{2, 4, 1, 1, 1});
  tt::sum(net(x)).backward();
  for (const auto& [name, p] : net.named_parameters()) CHECK(tt::abs(p.grad()).max().item<double>() > 0);
}
