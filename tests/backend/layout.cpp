// Layouts of strided views, and the compute types of their elements.
#include <doctest/doctest.h>

#include <tinytorch/backend/layout.hpp>
#include <tuple>

namespace tt = tinytorch;
using namespace tinytorch::backend;

TEST_CASE("collapse merges exactly the dimensions that are one longer dimension in every view") {
  const auto collapsed = [](tt::Shape shape, tt::Strides a, tt::Strides b) {
    tt::Strides strides[] = {a, b};
    collapse(shape, strides, 2);
    return std::tuple{shape, strides[0], strides[1]};
  };
  CHECK(collapsed({2, 3, 4}, {12, 4, 1}, {12, 4, 1}) ==
        std::tuple{tt::Shape{24}, tt::Strides{1}, tt::Strides{1}});
  CHECK(collapsed({2, 3, 4}, {12, 4, 1}, {0, 4, 1}) ==
        std::tuple{tt::Shape{2, 12}, tt::Strides{12, 1}, tt::Strides{0, 1}});
  CHECK(collapsed({2, 1, 4}, {4, 9, 1}, {8, 5, 2}) ==
        std::tuple{tt::Shape{8}, tt::Strides{1}, tt::Strides{2}});
  CHECK(collapsed({3, 2}, {1, 3}, {2, 1}) ==
        std::tuple{tt::Shape{3, 2}, tt::Strides{1, 3}, tt::Strides{2, 1}});
  CHECK(collapsed({1, 1}, {7, 7}, {7, 7}) == std::tuple{tt::Shape{1}, tt::Strides{1}, tt::Strides{1}});
  CHECK(collapsed({5, 4}, {0, 0}, {0, 0}) == std::tuple{tt::Shape{20}, tt::Strides{0}, tt::Strides{0}});
}

TEST_CASE(
    "stretch broadcasts strides to a larger shape, and drops leading sizes of 1 that the shape does not "
    "have") {
  const View v{nullptr, tt::f32, {3, 1}, {5, 9}};
  CHECK(stretch(v, {2, 3, 4}) == tt::Strides{0, 5, 0});
  CHECK(stretch({nullptr, tt::f32, {1, 3}, {3, 1}}, {3}) == tt::Strides{1});
}

TEST_CASE("the compute type represents all values of the dtype") {
  const auto computed = [](tt::DType t) {
    tt::DType in = t;
    dispatch_compute(t, [&]<class C>(C*) { in = tt::dtype_of<C>; });
    return in;
  };
  for (const tt::DType t : {tt::f32, tt::bf16, tt::f16}) CHECK(computed(t) == tt::f32);
  for (const tt::DType t : {tt::i8, tt::u8, tt::i32, tt::boolean}) CHECK(computed(t) == tt::i32);
  CHECK(computed(tt::f64) == tt::f64);
  CHECK(computed(tt::i64) == tt::i64);
}

TEST_CASE("images are channels-last if and only if the channels of a pixel are adjacent") {
  const auto last = [](tt::Shape shape, tt::Strides strides) {
    return is_channels_last({nullptr, tt::f32, shape, strides});
  };
  CHECK(channels_last_strides({2, 3, 4, 5}) == tt::Strides{60, 1, 15, 3});
  CHECK(last({2, 3, 4, 5}, {60, 1, 15, 3}));
  CHECK(last({2, 3, 4, 5}, {99, 1, 18, 3}));  // part of a larger image
  CHECK_FALSE(last({2, 3, 4, 5}, {60, 20, 5, 1}));
  CHECK_FALSE(last({2, 1, 4, 5}, {20, 1, 5, 1}));  // one channel
  CHECK_FALSE(last({2, 3, 1, 1}, {3, 1, 3, 3}));   // one pixel
  CHECK_FALSE(last({3, 4, 5}, {1, 15, 3}));
}

TEST_CASE("dimensions are sorted by the first operand's strides, and all operands with them") {
  CHECK(strides_fall({2, 3}, {3, 1}));
  CHECK(strides_fall({2, 3}, {9, 2}));
  CHECK(strides_fall({2, 1, 3}, {3, 99, 1}));  // the stride of a size of 1 does not matter
  CHECK(strides_fall({}, {}));
  CHECK_FALSE(strides_fall({2, 3}, {1, 2}));
  CHECK_FALSE(strides_fall({2, 3, 4, 5}, channels_last_strides({2, 3, 4, 5})));
  tt::Shape shape{2, 3, 4, 5};
  tt::Strides strides[] = {channels_last_strides(shape), {60, 20, 5, 1}};
  sort_dimensions(shape, strides);
  CHECK(shape == tt::Shape{2, 4, 5, 3});
  CHECK(strides[0] == tt::Strides{60, 15, 3, 1});
  CHECK(strides[1] == tt::Strides{60, 5, 1, 20});
}

TEST_CASE("is_dense: the elements fill a block of memory in some order of the dimensions") {
  CHECK(is_dense({}, {}));
  CHECK(is_dense({2, 3, 4, 5}, {60, 20, 5, 1}));
  CHECK(is_dense({2, 3, 4, 5}, {60, 1, 15, 3}));
  CHECK(is_dense({3, 1, 2}, {1, 77, 3}));
  CHECK(is_dense({0, 3}, {5, 5}));
  CHECK_FALSE(is_dense({2, 3}, {4, 1}));
  CHECK_FALSE(is_dense({2, 3}, {0, 1}));
  CHECK_FALSE(is_dense({2, 3}, {1, 1}));
  CHECK_FALSE(is_dense({2}, {2}));
}

TEST_CASE("is_dense_channels_last: any rank above 2, without gaps") {
  const auto last = [](tt::Shape shape, tt::Strides strides) {
    return is_dense_channels_last({nullptr, tt::f32, shape, strides});
  };
  CHECK(last({2, 3, 4, 5}, {60, 1, 15, 3}));
  CHECK(last({2, 3, 4}, {12, 1, 3}));
  CHECK_FALSE(last({2, 3, 4, 5}, {99, 1, 18, 3}));
  CHECK_FALSE(last({2, 3, 4, 5}, {60, 20, 5, 1}));
  CHECK_FALSE(last({2, 3, 4, 5}, {60, 1, 3, 12}));
  CHECK_FALSE(last({2, 1, 4, 5}, {20, 1, 5, 1}));
  CHECK_FALSE(last({2, 3}, {1, 2}));
  const View turned = channels_at_end({nullptr, tt::f32, {2, 3, 4, 5}, {60, 1, 15, 3}});
  CHECK(turned.shape == tt::Shape{2, 4, 5, 3});
  CHECK(turned.strides == tt::Strides{60, 15, 3, 1});
}
