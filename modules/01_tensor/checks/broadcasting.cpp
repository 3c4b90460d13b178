#include <01_tensor/checks/reference.hpp>
#include <tinytorch/tensor/strides.hpp>

using namespace course;

namespace {

void check_shapes(const Shape& a, const Shape& b, const std::optional<Shape>& want) {
  expect_equal("broadcast_shapes(" + a.str() + ", " + b.str() + ")", broadcast_shapes(a, b), want);
  expect_equal("broadcast_shapes(" + b.str() + ", " + a.str() + ")", broadcast_shapes(b, a), want);
}

// The strides must lead to the elements that a broadcast has.
void check_strides(const Shape& from, const Strides& strides, const Shape& to) {
  const std::string what = "broadcast_strides(" + from.str() + ", " + strides.str() + ", " + to.str() + ")";
  const Strides got = broadcast_strides(from, strides, to);
  expect_equal(what + ": number of strides", got.size(), to.size());
  const auto own = offsets_of(from, strides);
  for (int64_t i = 0; i < to.numel(); ++i) {
    const Shape index = index_of(to, i);
    expect_equal(what + " = " + got.str() + ": offset of the element at " + index.str(),
                 offset_of(index, got), own[static_cast<size_t>(number_behind(index, from))]);
  }
}

}  // namespace

TEST_CASE("1.2 equal sizes stay, and a size of 1 stretches to the other") {
  check_shapes({3, 4}, {3, 4}, Shape{3, 4});
  check_shapes({3, 4}, {1, 4}, Shape{3, 4});
  check_shapes({3, 1}, {1, 4}, Shape{3, 4});
  check_shapes({5}, {1}, Shape{5});
}

TEST_CASE("1.2 shapes align at their last dimensions") {
  check_shapes({5, 1, 4}, {3, 1}, Shape{5, 3, 4});
  check_shapes({2, 3}, {3}, Shape{2, 3});
  check_shapes({2, 3}, {}, Shape{2, 3});
  check_shapes({}, {}, Shape{});
  check_shapes({7, 1, 1, 1}, {2, 3, 5}, Shape{7, 2, 3, 5});
}

TEST_CASE("1.2 sizes that differ, neither of which is 1, do not broadcast") {
  check_shapes({3}, {4}, std::nullopt);
  check_shapes({2, 3}, {2}, std::nullopt);
  check_shapes({4, 2, 1}, {3, 5}, std::nullopt);
  check_shapes({2, 4}, {4, 2}, std::nullopt);
}

TEST_CASE("1.2 a size of 0 is a size like any other") {
  check_shapes({0}, {1}, Shape{0});
  check_shapes({3, 0}, {3, 1}, Shape{3, 0});
  check_shapes({0}, {3}, std::nullopt);
}

TEST_CASE("1.2 a broadcast dimension has stride 0, each other dimension keeps its stride") {
  expect_equal("broadcast_strides([3], [1], [2, 3])", broadcast_strides({3}, {1}, {2, 3}), Strides{0, 1});
  expect_equal("broadcast_strides([2, 1], [7, 5], [2, 3])", broadcast_strides({2, 1}, {7, 5}, {2, 3}),
               Strides{7, 0});
  expect_equal("broadcast_strides([], [], [2, 3])", broadcast_strides({}, {}, {2, 3}), Strides{0, 0});
  expect_equal("broadcast_strides([1], [7], [5, 1]): a size of 1 that is not stretched keeps its stride",
               broadcast_strides({1}, {7}, {5, 1}), Strides{0, 7});
  expect_equal("broadcast_strides([4, 3], [1, 4], [4, 3])", broadcast_strides({4, 3}, {1, 4}, {4, 3}),
               Strides{1, 4});
}

TEST_CASE("1.2 the strides lead to the right elements") {
  for (int turn = 0; turn < 20; ++turn) {
    Shape to;
    const int rank = static_cast<int>(uniform(1, 5));
    for (int d = 0; d < rank; ++d) to.push_back(static_cast<int64_t>(uniform(1, 5)));
    Shape from = to;
    for (int64_t& size : from) size = uniform(0, 1) < 0.4 ? 1 : size;
    while (!from.empty() && uniform(0, 1) < 0.3) from.erase(0);
    Strides strides = row_major_strides(from);
    for (int64_t& s : strides) s = s * 2 + 1;
    check_strides(from, strides, to);
  }
}

TEST_CASE("1.2 sizes and strides have 64 bits") {
  const int64_t k2_32 = int64_t{1} << 32, k2_33 = 2 * k2_32;  // no memory is needed: a shape is only numbers
  check_shapes({k2_33, 1}, {3}, Shape{k2_33, 3});
  check_shapes({k2_33 + 3}, {3}, std::nullopt);  // equal in 32 bits
  check_shapes({k2_33 + 1}, {3}, std::nullopt);  // 1 in 32 bits
  check_shapes({2, k2_33 + 1}, {1}, Shape{2, k2_33 + 1});
  expect_equal("broadcast_strides([2^32 + 1, 1], [2^33, 1], [5, 2^32 + 1, 4])",
               broadcast_strides({k2_32 + 1, 1}, {k2_33, 1}, {5, k2_32 + 1, 4}), Strides{0, k2_33, 0});
  expect_equal("broadcast_strides([1], [7], [2^32 + 1])", broadcast_strides({1}, {7}, {k2_32 + 1}),
               Strides{0});
}
