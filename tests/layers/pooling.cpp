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

TEST_CASE("windows with two sides, ceil_mode, and sequences") {
  CHECK(tt::MaxPool2d({2, 4})(ramp()).to_vector() == std::vector<float>{7, 15});
  CHECK(tt::MaxPool2d(2, {2, 1})(ramp()).shape() == tt::Shape{1, 1, 2, 3});
  CHECK(tt::MaxPool2d(3, 2, 0, true)(ramp()).to_vector() == std::vector<float>{10, 11, 14, 15});
  CHECK(tt::AvgPool2d(3, 3, 0, true)(ramp()).to_vector() == std::vector<float>{5, 7, 13, 15});
  CHECK(tt::AdaptiveMaxPool2d()(ramp()).to_vector() == std::vector<float>{15});
  CHECK(tt::MaxPool1d(2)(ramp().reshape({1, 4, 4})).to_vector() ==
        std::vector<float>{1, 3, 5, 7, 9, 11, 13, 15});
  CHECK(tt::AvgPool1d(4)(ramp().reshape({1, 2, 8})).to_vector() == std::vector<float>{1.5, 5.5, 9.5, 13.5});
}

TEST_CASE("Flatten keeps the batch dimension") {
  CHECK(tt::Flatten()(tt::ones({3, 2, 4, 5})).shape() == tt::Shape{3, 40});
}
