#include <support/check.hpp>
#include <tinytorch/tensor/strides.hpp>

using namespace course;

namespace {

Shape fresh_shape(int rank) {
  Shape shape;
  for (int d = 0; d < rank; ++d) shape.push_back(static_cast<int64_t>(uniform(2, 6)));
  return shape;
}
// Strides by the definition: the distance of two elements whose index differs by one in dimension d, if the
// elements are numbered row by row.
Strides strides_by_counting(const Shape& shape) {
  Strides strides;
  for (int d = 0; d < shape.size(); ++d) {
    int64_t step = 1;
    for (int later = d + 1; later < shape.size(); ++later) step *= shape[later];
    strides.push_back(step);
  }
  return strides;
}

}  // namespace

TEST_CASE("1.1 strides of a row-major tensor") {
  expect_equal("contiguous_strides([2, 3, 4])", contiguous_strides({2, 3, 4}), Strides{12, 4, 1});
  expect_equal("contiguous_strides([7])", contiguous_strides({7}), Strides{1});
  expect_equal("contiguous_strides([])", contiguous_strides({}), Strides{});
  for (int rank = 1; rank <= kMaxRank; ++rank) {
    const Shape shape = fresh_shape(rank);
    expect_equal("contiguous_strides(" + shape.str() + ")", contiguous_strides(shape),
                 strides_by_counting(shape));
  }
}

TEST_CASE("1.1 a dimension of size 0 counts as one of size 1") {
  expect_equal("contiguous_strides([2, 0, 4])", contiguous_strides({2, 0, 4}), Strides{4, 4, 1});
}

TEST_CASE("1.1 contiguous means row-major without gaps") {
  for (int rank = 1; rank <= 5; ++rank) {
    const Shape shape = fresh_shape(rank);
    const Strides strides = strides_by_counting(shape);
    const std::string of = "is_contiguous(" + shape.str() + ", ";
    expect_equal(of + strides.str() + ")", is_contiguous(shape, strides), true);
    for (int d = 0; d < rank; ++d) {
      Strides other = strides;
      other[d] += 1;
      expect_equal(of + other.str() + ")", is_contiguous(shape, other), false);
    }
    if (rank >= 2) {
      const Shape turned{shape[1], shape[0]};
      expect_equal("is_contiguous(" + turned.str() + ", [1, " + std::to_string(turned[0]) + "])",
                   is_contiguous(turned, {1, turned[0]}), false);
    }
  }
}

TEST_CASE("1.1 a dimension of size 1 may have any stride") {
  expect_equal("is_contiguous([3, 1, 4], [4, 99, 1])", is_contiguous({3, 1, 4}, {4, 99, 1}), true);
  expect_equal("is_contiguous([1], [7])", is_contiguous({1}, {7}), true);
  expect_equal("is_contiguous([2, 0, 3], [5, 5, 5])", is_contiguous({2, 0, 3}, {5, 5, 5}), true);
}

TEST_CASE("1.1 sizes and strides have 64 bits") {
  const int64_t k2_20 = int64_t{1} << 20,
                k2_40 = int64_t{1} << 40;  // no memory is needed: a shape is only numbers
  expect_equal("contiguous_strides([3, 2^20, 2^20])", contiguous_strides({3, k2_20, k2_20}),
               Strides{k2_40, k2_20, 1});
  expect_equal("contiguous_strides([2, 2^33])", contiguous_strides({2, k2_40 >> 7}), Strides{k2_40 >> 7, 1});
  expect_equal("is_contiguous([3, 2^20, 2^20], [2^40, 2^20, 1])",
               is_contiguous({3, k2_20, k2_20}, {k2_40, k2_20, 1}), true);
  expect_equal("is_contiguous([3, 65536, 65536], [0, 65536, 1]), where 65536 * 65536 = 2^32",
               is_contiguous({3, 65536, 65536}, {0, 65536, 1}), false);
  expect_equal("is_contiguous([2, 3], [2^32 + 3, 1])", is_contiguous({2, 3}, {(k2_40 >> 8) + 3, 1}), false);
}
