#include <01_tensor/checks/reference.hpp>
#include <tinytorch/backend/layout.hpp>

using namespace course;
using backend::collapse;
using backend::locate;
using backend::stretch;

namespace {

void check_locate(const Shape& shape, const Strides& strides) {
  for (int64_t i = 0; i < shape.numel(); ++i) {
    Shape index = Shape::filled(shape.size(), -1);
    const int64_t offset = locate(shape, strides, i, index.begin());
    const std::string what = "locate(" + shape.str() + ", " + strides.str() + ", " + std::to_string(i) + ")";
    expect_equal(what + ": index", index, index_of(shape, i));
    expect_equal(what + ": offset", offset, offset_of(index_of(shape, i), strides));
  }
}

// The collapsed dimensions must give the same elements in the same order, and must be as few as possible.
template <size_t kCount>
void check_collapse(const Shape& shape, const Strides (&strides)[kCount], int rank) {
  std::string what = "collapse of " + shape.str() + " with strides";
  for (const Strides& s : strides) what += " " + s.str();
  Shape merged = shape;
  Strides collapsed[kCount];
  for (size_t k = 0; k < kCount; ++k) collapsed[k] = strides[k];
  collapse(merged, collapsed, kCount);
  for (size_t k = 0; k < kCount; ++k) {
    expect_equal(what + ": as many strides as sizes", collapsed[k].size(), merged.size());
    expect_equal(
        what + " = " + merged.str() + " with " + collapsed[k].str() + ": the elements in their order",
        offsets_of(merged, collapsed[k]), offsets_of(shape, strides[k]));
  }
  expect_equal(what + " = " + merged.str() + ": how many dimensions are left", merged.size(), rank);
}

}  // namespace

TEST_CASE("1.3 locate turns a row-major number into an index and an offset") {
  check_locate({4}, {1});
  check_locate({2, 3}, {3, 1});
  check_locate({2, 3, 5}, {15, 5, 1});
  check_locate({}, {});
}

TEST_CASE("1.3 locate computes the offset from any strides") {
  check_locate({3, 2}, {1, 3});
  check_locate({3, 4}, {0, 1});
  check_locate({2, 3}, {-3, -1});
  check_locate({2, 1, 3, 2}, {70, 9, 0, 11});
}

TEST_CASE("1.3 stretch gives a view the strides of a larger shape") {
  Values row(f32, {3}, Layout::gaps), column(f32, {4, 1}), matrix(f32, {4, 3}, Layout::transposed);
  expect_equal("stretch([3] with stride 2, [4, 3])", stretch(row.view(), {4, 3}), Strides{0, 2});
  expect_equal("stretch([4, 1], [4, 3])", stretch(column.view(), {4, 3}),
               Strides{column.view().strides[0], 0});
  expect_equal("stretch([4, 3] transposed, [2, 4, 3])", stretch(matrix.view(), {2, 4, 3}), Strides{0, 1, 4});
  expect_equal("stretch([], [2, 3])", stretch(View{nullptr, f32, {}, {}}, {2, 3}), Strides{0, 0});
}

TEST_CASE("1.3 stretch drops leading dimensions of size 1 that the shape does not have") {
  expect_equal("stretch([1, 1, 3], [3])", stretch(View{nullptr, f32, {1, 1, 3}, {3, 3, 2}}, {3}), Strides{2});
  expect_equal("stretch([1, 1], [])", stretch(View{nullptr, f32, {1, 1}, {1, 1}}, {}), Strides{});
}

TEST_CASE("1.3 collapse merges a block without gaps into one dimension") {
  check_collapse<1>({2, 3, 4}, {{12, 4, 1}}, 1);
  check_collapse<1>({7}, {{1}}, 1);
  check_collapse<1>({2, 3}, {{6, 2}}, 1);  // the same gap between all elements
  check_collapse<1>({3, 4}, {{0, 0}}, 1);
}

TEST_CASE("1.3 collapse does not merge dimensions across a gap or a transpose") {
  check_collapse<1>({3, 4}, {{5, 1}}, 2);  // a gap after each row
  check_collapse<1>({3, 4}, {{1, 3}}, 2);  // transposed
  check_collapse<1>({3, 4}, {{0, 1}}, 2);  // one row, three times
  check_collapse<1>({2, 3, 4}, {{24, 4, 1}}, 2);
  check_collapse<1>({2, 3, 4}, {{20, 5, 1}}, 3);
}

TEST_CASE("1.3 collapse removes dimensions of size 1, but keeps at least one dimension") {
  check_collapse<1>({2, 1, 3}, {{3, 99, 1}}, 1);
  check_collapse<1>({1, 4, 1}, {{0, 2, 0}}, 1);
  check_collapse<1>({1, 1}, {{5, 5}}, 1);
  check_collapse<1>({}, {{}}, 1);
}

TEST_CASE("1.3 collapse merges dimensions only if they can be merged for every operand") {
  check_collapse<2>({3, 4}, {{4, 1}, {4, 1}}, 1);
  check_collapse<2>({3, 4}, {{4, 1}, {0, 1}}, 2);
  check_collapse<3>({2, 3, 4}, {{12, 4, 1}, {4, 0, 1}, {12, 4, 1}}, 3);
  check_collapse<3>({2, 3, 4}, {{12, 4, 1}, {0, 4, 1}, {12, 4, 1}}, 2);
}

TEST_CASE("1.3 sizes, numbers and offsets have 64 bits") {
  // No memory is needed: a layout is only numbers.
  const int64_t k2_20 = int64_t{1} << 20, k2_32 = int64_t{1} << 32, k2_40 = int64_t{1} << 40;
  const Shape shape{3, k2_20, k2_32 + 5};
  const Shape at{2, k2_20 - 1, k2_32 + 4};
  const Strides strides{7 * k2_40, k2_32 + 9, -3};
  Shape index = Shape::filled(3, -1);
  const int64_t number = (at[0] * shape[1] + at[1]) * shape[2] + at[2];
  const int64_t offset = locate(shape, strides, number, index.begin());
  const std::string what =
      "locate(" + shape.str() + ", " + strides.str() + ", " + std::to_string(number) + ")";
  expect_equal(what + ": index", index, at);
  expect_equal(what + ": offset", offset, offset_of(at, strides));
  expect_equal("stretch([2^32 + 1] with stride 2^40, [3, 2^32 + 1])",
               stretch(View{nullptr, f32, {k2_32 + 1}, {k2_40}}, {3, k2_32 + 1}), Strides{0, k2_40});
  Shape merged{k2_20, k2_20}, apart{3, 65536, 65536};
  Strides of_merged[1] = {{k2_20, 1}}, of_apart[1] = {{0, 65536, 1}};
  collapse(merged, of_merged, 1);
  collapse(apart, of_apart, 1);
  expect_equal("collapse of [2^20, 2^20] with strides [2^20, 1]: sizes", merged, Shape{k2_40});
  expect_equal("collapse of [2^20, 2^20] with strides [2^20, 1]: strides", of_merged[0], Strides{1});
  expect_equal("collapse of [3, 65536, 65536] with strides [0, 65536, 1], where 65536 * 65536 = 2^32: sizes",
               apart, Shape{3, k2_32});
  expect_equal("collapse of [3, 65536, 65536] with strides [0, 65536, 1]: strides", of_apart[0],
               Strides{0, 1});
}
