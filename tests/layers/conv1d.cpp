#include <tinytorch/layers/conv1d.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <support/errors.hpp>
#include <tinytorch/layers/conv_transpose.hpp>
#include <tinytorch/layers/instance_norm.hpp>
#include <tinytorch/layers/pooling.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using errors::thrown_by;

namespace {
float largest(const tt::Tensor& t) { return tt::max(tt::abs(t)).item(); }
}  // namespace

TEST_CASE("Conv1d has PyTorch's shape of the weight and bound of its values") {
  tt::manual_seed(7);
  tt::Conv1d conv(8, 64, 5, {.groups = 2});
  CHECK(conv.weight.shape() == tt::Shape{64, 4, 5});
  CHECK(largest(conv.weight) <= 1 / std::sqrt(20.0f));
  CHECK(largest(conv.weight) > 0.98f / std::sqrt(20.0f));
  CHECK(tt::Conv1d(2, 3, 4, {}, false).named_parameters().size() == 1);
  CHECK(thrown_by([] { tt::Conv1d(3, 4, 1, {.groups = 2}); }).code == "TT-NN-12");
}

TEST_CASE("a stack of layers for sequences has the sizes of PyTorch") {
  tt::Sequential sequences(tt::Conv1d(3, 6, 3, {.padding = 1}), tt::InstanceNorm1d(6), tt::MaxPool1d(2),
                           tt::ConvTranspose1d(6, 2, 4, {.stride = 2, .padding = 1}), tt::AvgPool1d(3, 1, 1));
  CHECK(sequences(tt::ones({2, 3, 10})).shape() == tt::Shape{2, 2, 10});
}
