#include <01_tensor/checks/reference.hpp>
#include <tinytorch/tensor/strides.hpp>

using namespace course;

namespace {

std::string call(const char* name, const Shape& from, const Strides& strides, const Shape& to) {
  return std::string(name) + "(" + from.str() + ", " + strides.str() + ", " + to.str() + ")";
}

// reshape_strides must give strides with which `to` has the same elements in the same order.
void check_reshape(const Shape& from, const Strides& strides, const Shape& to) {
  const auto got = reshape_strides(from, strides, to);
  const std::string what = call("reshape_strides", from, strides, to);
  expect(what, got.has_value(), "no copy is needed here, so the function must return strides, not nothing");
  expect_equal(what + ": as many strides as sizes", got->size(), to.size());
  expect_equal(what + " = " + got->str() + ": the elements in their order", offsets_of(to, *got),
               offsets_of(from, strides));
}
void check_copy(const Shape& from, const Strides& strides, const Shape& to) {
  expect_equal(call("reshape_strides", from, strides, to), reshape_strides(from, strides, to),
               std::optional<Strides>());
}

void check_permuted(const Shape& shape, const Strides& strides, const Dims& order) {
  const StridedShape got = permuted(shape, strides, order);
  const std::string what = call("permuted", shape, strides, order);
  Shape want_shape = order;
  Strides want_strides = order;
  for (int d = 0; d < order.size(); ++d) {
    want_shape[d] = shape[static_cast<int>(order[d])];
    want_strides[d] = strides[static_cast<int>(order[d])];
  }
  expect_equal(what + ": shape", got.shape, want_shape);
  expect_equal(what + ": strides", got.strides, want_strides);
  expect_equal(what + ": first", got.first, int64_t{0});
}

void check_sliced(const Shape& shape, const Strides& strides, int dim, int64_t start, int64_t stop,
                  int64_t step) {
  const StridedShape got = sliced(shape, strides, dim, start, stop, step);
  const std::string what = "sliced(" + shape.str() + ", " + strides.str() + ", " + std::to_string(dim) +
                           ", " + std::to_string(start) + ", " + std::to_string(stop) + ", " +
                           std::to_string(step) + ")";
  Shape want = shape;
  want[dim] = 0;
  for (int64_t i = start; i < stop; i += step) ++want[dim];
  expect_equal(what + ": shape", got.shape, want);
  std::vector<int64_t> elements, shown_elements = offsets_of(got.shape, got.strides);
  for (int64_t& at : shown_elements) at += got.first;
  for (int64_t i = 0; i < want.numel(); ++i) {
    Shape index = index_of(want, i);
    index[dim] = start + index[dim] * step;
    elements.push_back(offset_of(index, strides));
  }
  expect_equal(what + ": offsets of the elements", shown_elements, elements);
}

}  // namespace

TEST_CASE("1.6 a permuted view reorders sizes and strides in the same way") {
  check_permuted({2, 3}, {3, 1}, {1, 0});
  check_permuted({2, 3, 4}, {12, 4, 1}, {0, 2, 1});
  check_permuted({2, 3, 4}, {12, 4, 1}, {2, 0, 1});  // not its own inverse
  check_permuted({5, 6, 7, 8}, {1, 50, 0, 9}, {3, 1, 0, 2});
  check_permuted({}, {}, {});
}

TEST_CASE("1.6 negative positions count from the end, and every position is clamped") {
  const auto check = [](int64_t position, int64_t size, int64_t want) {
    expect_equal("slice_position(" + std::to_string(position) + ", " + std::to_string(size) + ")",
                 slice_position(position, size), want);
  };
  check(0, 5, 0);
  check(3, 5, 3);
  check(5, 5, 5);
  check(-1, 5, 4);
  check(-5, 5, 0);
  check(9, 5, 5);
  check(-9, 5, 0);
  check(2, 0, 0);
  check(-1, 0, 0);
}

TEST_CASE("1.6 a slice has a later start and a larger stride") {
  check_sliced({6}, {1}, 0, 2, 5, 1);
  check_sliced({3, 8}, {8, 1}, 1, 2, 6, 2);
  check_sliced({4, 5}, {5, 1}, 0, 1, 3, 1);
  check_sliced({4, 5}, {1, 4}, 1, 3, 5, 1);
}

TEST_CASE("1.6 a slice's size is rounded up, and may be 0") {
  check_sliced({7}, {1}, 0, 0, 7, 2);
  check_sliced({7}, {3}, 0, 1, 7, 4);
  check_sliced({7}, {1}, 0, 2, 3, 5);
  check_sliced({2, 7}, {7, 1}, 1, 4, 4, 3);
}

TEST_CASE("1.6 a block without gaps can take any shape with as many elements") {
  check_reshape({6}, {1}, {2, 3});
  check_reshape({2, 3, 4}, {12, 4, 1}, {24});
  check_reshape({2, 3, 4}, {12, 4, 1}, {4, 6});
  check_reshape({2, 3, 4}, {12, 4, 1}, {2, 2, 3, 2});
  check_reshape({}, {}, {1, 1});
}

TEST_CASE("1.6 a dimension of any stride can be split in two") {
  check_reshape({12}, {5}, {3, 4});
  check_reshape({6, 4}, {1, 6}, {2, 3, 4});
  check_reshape({6, 4}, {1, 6}, {6, 2, 2});
  check_reshape({3, 4}, {9, 2}, {3, 2, 2});
}

TEST_CASE("1.6 dimensions of size 1 can be added and removed") {
  check_reshape({3, 1, 4}, {4, 77, 1}, {12});
  check_reshape({4, 3}, {1, 4}, {1, 4, 1, 3, 1});
  check_reshape({1, 4, 1, 3}, {0, 1, 9, 4}, {4, 3});
  check_reshape({1, 1}, {5, 5}, {});
}

TEST_CASE("1.6 dimensions merge if the outer stride is the inner stride times the inner size") {
  check_reshape({2, 3, 4}, {24, 4, 1}, {2, 12});
  check_reshape({2, 3, 4}, {3, 1, 6}, {6, 4});
  check_reshape({2, 3, 4}, {24, 4, 1}, {2, 4, 3});
}

TEST_CASE("1.6 a reshape that needs a copy gives nothing") {
  check_copy({4, 3}, {1, 4}, {12});
  check_copy({3, 4}, {5, 1}, {12});
  check_copy({2, 3, 4}, {24, 4, 1}, {6, 4});
  check_copy({3, 4}, {0, 1}, {12});
  check_copy({4, 3}, {1, 4}, {3, 4});
}

TEST_CASE("1.6 an empty tensor can take any empty shape") {
  expect("reshape_strides([0, 3], [7, 2], [3, 0, 2])",
         reshape_strides({0, 3}, {7, 2}, {3, 0, 2}).has_value());
}

TEST_CASE("1.6 sizes, strides and positions have 64 bits") {
  // No memory is needed: a view is only numbers.
  const int64_t k2_20 = int64_t{1} << 20, k2_33 = int64_t{1} << 33, k2_40 = int64_t{1} << 40;
  check_permuted({2, k2_33}, {k2_40, 1}, {1, 0});
  expect_equal("slice_position(-1, 2^40)", slice_position(-1, k2_40), k2_40 - 1);
  expect_equal("slice_position(2^33, 2^40)", slice_position(k2_33, k2_40), k2_33);
  const StridedShape part = sliced({k2_40}, {k2_20}, 0, k2_33, k2_40, k2_20);
  expect_equal("sliced([2^40], [2^20], 0, 2^33, 2^40, 2^20): shape", part.shape,
               Shape{(k2_40 - k2_33) / k2_20});
  expect_equal("sliced([2^40], [2^20], 0, 2^33, 2^40, 2^20): strides", part.strides, Strides{k2_40});
  expect_equal("sliced([2^40], [2^20], 0, 2^33, 2^40, 2^20): first", part.first, k2_33 * k2_20);
  expect_equal("reshape_strides([2^20, 2^20], [2^20, 1], [2^33, 2^7])",
               reshape_strides({k2_20, k2_20}, {k2_20, 1}, {k2_33, 128}),
               std::optional<Strides>(Strides{128, 1}));
  expect_equal("reshape_strides([2^33, 128], [2^33, 2^20], [2^40])",
               reshape_strides({k2_33, 128}, {128 * k2_20, k2_20}, {k2_40}),
               std::optional<Strides>(Strides{k2_20}));
  expect_equal("reshape_strides([6], [2^40], [2, 3])", reshape_strides({6}, {k2_40}, {2, 3}),
               std::optional<Strides>(Strides{3 * k2_40, k2_40}));
  check_copy({3, 65536, 65536}, {0, 65536, 1}, {3 * k2_33 / 2});  // 65536 * 65536 is 0 in 32 bits
}
