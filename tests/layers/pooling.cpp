#include <tinytorch/layers/pooling.hpp>

#include <doctest/doctest.h>

#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

namespace {
// [1, 1, 4, 4]: 0..15
tt::Tensor ramp() { return tt::reshape(tt::arange(0, 16, 1, tt::f32), {1, 1, 4, 4}); }
}  // namespace

TEST_CASE("max, average and global pooling of 0..15 give the values computed by hand") {
  CHECK(tt::MaxPool2d(2)(ramp()).to_vector() == std::vector<float>{5, 7, 13, 15});
  CHECK(tt::MaxPool2d(3, 1)(ramp()).to_vector() == std::vector<float>{10, 11, 14, 15});
  CHECK(tt::AvgPool2d(2)(ramp()).to_vector() == std::vector<float>{2.5, 4.5, 10.5, 12.5});
  CHECK(tt::AdaptiveAvgPool2d()(ramp()).to_vector() == std::vector<float>{7.5});
  CHECK(tt::AdaptiveAvgPool2d(2, 1)(ramp()).to_vector() == std::vector<float>{3.5, 11.5});
}

TEST_CASE("Flatten keeps the batch dimension") {
  CHECK(tt::Flatten()(tt::ones({3, 2, 4, 5})).shape() == tt::Shape{3, 40});
}
