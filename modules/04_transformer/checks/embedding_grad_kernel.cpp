#include <support/check.hpp>
#include <tinytorch/backend/cuda/launch.hpp>

using namespace course;

namespace {

using Indices = std::vector<int64_t>;
Values on_device(const Indices& index, const Shape& shape, Layout layout = Layout::contiguous) {
  return Values::of(i64, shape, Numbers(index.begin(), index.end()), layout).on_device();
}
Indices fresh(int64_t n, int64_t V) {
  Indices index;
  for (int64_t k = 0; k < n; ++k) index.push_back(static_cast<int64_t>(uniform(0, static_cast<double>(V))));
  return index;
}

struct Case {
  int64_t V, columns;
  DType dtype = f32;
  Layout layout = Layout::contiguous;
};
std::string text(const Case& c, const Shape& index) {
  return "table [" + std::to_string(c.V) + ", " + std::to_string(c.columns) + "] " + name_of(c.dtype) +
         ", indices " + index.str() + ", " + name_of_layout(c.layout);
}
Shape with_columns(Shape index, const Case& c) {
  index.push_back(c.columns);
  return index;
}

void check_forward(const Case& c, const Indices& index, const Shape& shape) {
  Values table = Values::random(c.dtype, {c.V, c.columns}, c.layout).on_device();
  Values at = on_device(index, shape, c.layout), out = Values(c.dtype, with_columns(shape, c)).on_device();
  const Numbers rows = table.numbers();
  Numbers want;
  for (const int64_t row : index) {
    for (int64_t k = 0; k < c.columns; ++k) {
      want.push_back(row >= 0 && row < c.V ? rows[static_cast<size_t>(row * c.columns + k)] : 0);
    }
  }
  backend::cuda::embedding(out.view(), table.view(), at.view());
  expect_close("embedding: " + text(c, shape), out, want, {.roundings = 0});
}

void check_backward(const Case& c, const Indices& index, const Shape& shape) {
  Values dy = Values::random(c.dtype, with_columns(shape, c), c.layout, 0, 1).on_device();
  Values at = on_device(index, shape, c.layout), dw = Values(c.dtype, {c.V, c.columns}, c.layout).on_device();
  const Numbers gs = dy.numbers();
  Numbers want(static_cast<size_t>(c.V * c.columns));
  for (size_t n = 0; n < index.size(); ++n) {
    if (index[n] < 0 || index[n] >= c.V) continue;
    for (int64_t k = 0; k < c.columns; ++k) {
      want[static_cast<size_t>(index[n] * c.columns + k)] +=
          gs[n * static_cast<size_t>(c.columns) + static_cast<size_t>(k)];
    }
  }
  backend::cuda::embedding_grad(dw.view(), dy.view(), at.view());
  expect_close("embedding_grad: " + text(c, shape), dw, want,
               {.roundings = 4 + static_cast<double>(index.size())});
}

}  // namespace

TEST_CASE("4.17 embedding picks rows") {
  check_forward({5, 3}, {4, 0, 4}, {3});
  check_forward({50, 7}, fresh(90, 50), {6, 15});
  for (const DType t : {f64, bf16, f16}) check_forward({9, 4, t}, fresh(6, 9), {6});
  for (const Layout l : kLayouts) check_forward({9, 4, f32, l}, fresh(6, 9), {2, 3});
  check_forward({4, 3}, {1, -1, 4, 3}, {4});
}

TEST_CASE("4.17 the gradient of a row is the sum over its positions; an unused row has zero") {
  check_backward({3, 2}, {1}, {1});
  check_backward({4, 3}, {2, 0, 2}, {3});
  check_backward({4, 3}, {1, 1, 1, 1, 1}, {5});
  check_backward({20, 5}, fresh(40, 20), {40});
}

TEST_CASE("4.17 more positions and columns than a block has threads, and one row used by all") {
  check_backward({3, 2}, fresh(300, 3), {300});
  check_backward({2, 3}, Indices(257, 1), {257});
  check_backward({6, 257}, fresh(9, 6), {9});
}

TEST_CASE("4.17 an index outside the table adds nothing") {
  check_backward({4, 3}, {1, -1, 4, 3, 1 << 30}, {5});
}

TEST_CASE("4.17 any dtype and layout; 16-bit gradients are summed without rounding") {
  for (const DType t : {f64, bf16, f16}) check_backward({5, 3, t}, fresh(12, 5), {3, 4});
  for (const Layout l : kLayouts) check_backward({5, 4, f32, l}, fresh(12, 5), {3, 4});
  check_backward({2, 3, bf16}, Indices(270, 0), {270});
  check_backward({5, 3}, {}, {0});
}

TEST_CASE("4.17 gradients are added in the order of the positions, for the same bits in each run") {
  const Numbers terms{1e8, 1, -1e8, 1};  // in this order the sum in f32 is 1
  Values dy = Values::of(f32, {4, 1}, terms).on_device(), dw = Values(f32, {1, 1}).on_device();
  Values at = on_device({0, 0, 0, 0}, {4});
  backend::cuda::embedding_grad(dw.view(), dy.view(), at.view());
  expect_equal("embedding_grad of 1e8, 1, -1e8, 1 for one row, added in this order in f32", dw.numbers()[0],
               1.0);
}
