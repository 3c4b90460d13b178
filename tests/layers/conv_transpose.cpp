#include <tinytorch/layers/conv_transpose.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <support/errors.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using errors::thrown_by;

namespace {
float largest(const tt::Tensor& t) { return tt::max(tt::abs(t)).item(); }
}  // namespace

TEST_CASE("ConvTranspose has PyTorch's shape of the weight and bound of its values") {
  tt::manual_seed(7);
  tt::ConvTranspose2d up(8, 64, {5, 2}, {.stride = 2, .groups = 2});
  CHECK(up.weight.shape() == tt::Shape{8, 32, 5, 2});
  CHECK(largest(up.weight) <= 1 / std::sqrt(320.0f));  // of the outputs of each input
  CHECK(largest(up.weight) > 0.98f / std::sqrt(320.0f));
  CHECK(tt::ConvTranspose1d(2, 3, 4, {}, false).named_parameters().size() == 1);
  CHECK(thrown_by([] { tt::ConvTranspose1d(4, 3, 1, {.groups = 2}); }).code == "TT-NN-12");
}

TEST_CASE("the layers add their bias to each output channel") {
  tt::ConvTranspose2d up(2, 3, 2, {.stride = 2});
  const tt::Tensor y = up(tt::zeros({1, 2, 4, 5}));
  CHECK(y.shape() == tt::Shape{1, 3, 8, 10});
  CHECK(y.select(3, 9).select(2, 7).to_vector() == up.bias.to_vector());
  tt::ConvTranspose1d line(2, 3, 2);
  CHECK(line(tt::zeros({1, 2, 4})).select(2, 4).to_vector() == line.bias.to_vector());
}
