// How strided views are walked, and in which type their elements are computed.
#include <doctest/doctest.h>

#include <tinytorch/backend/layout.hpp>
#include <tuple>

namespace tt = tinytorch;
using namespace tinytorch::backend;

TEST_CASE("collapse merges what can be walked as one and nothing else") {
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

TEST_CASE("stretch shows a view in a larger shape, and drops leading sizes of 1 that the shape lacks") {
  const View v{nullptr, tt::f32, {3, 1}, {5, 9}};
  CHECK(stretch(v, {2, 3, 4}) == tt::Strides{0, 5, 0});
  CHECK(stretch({nullptr, tt::f32, {1, 3}, {3, 1}}, {3}) == tt::Strides{1});
}

TEST_CASE("elements are computed in a type that holds them") {
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

TEST_CASE("images lie pixel by pixel where channels are neighbours, and in no other case") {
  const auto last = [](tt::Shape shape, tt::Strides strides) {
    return is_channels_last({nullptr, tt::f32, shape, strides});
  };
  CHECK(channels_last_strides({2, 3, 4, 5}) == tt::Strides{60, 1, 15, 3});
  CHECK(last({2, 3, 4, 5}, {60, 1, 15, 3}));
  CHECK(last({2, 3, 4, 5}, {99, 1, 18, 3}));  // part of a larger one
  CHECK_FALSE(last({2, 3, 4, 5}, {60, 20, 5, 1}));
  CHECK_FALSE(last({2, 1, 4, 5}, {20, 1, 5, 1}));  // one channel
  CHECK_FALSE(last({2, 3, 1, 1}, {3, 1, 3, 3}));   // one pixel
  CHECK_FALSE(last({3, 4, 5}, {1, 15, 3}));
}
