#include <tinytorch/backend/cpu/embedding.hpp>

#include <support/check.hpp>

using namespace course;
namespace cpu_kernels = tinytorch::backend::cpu;

namespace {

constexpr DType kDTypes[] = {f32, f64, bf16, f16};

Values random_index(const Shape& shape, int64_t V, Layout layout = Layout::contiguous) {
  return Values::random(i64, shape, layout, 0, static_cast<double>(V));
}
std::string called(const char* name, DType dtype, int64_t V, int64_t C, const Shape& index, Layout layout) {
  return std::string(name) + " of a table " + Shape{V, C}.str() + " of " + tinytorch::name_of(dtype) +
         ", index " + index.str() + ", " + name_of_layout(layout);
}
Shape with(Shape shape, int64_t C) {
  shape.push_back(C);
  return shape;
}

void check_forward(DType dtype, int64_t V, int64_t C, const Shape& shape, Layout layout) {
  Values weight = Values::random(dtype, {V, C}, layout), index = random_index(shape, V, layout);
  Values out(dtype, with(shape, C));
  const Numbers table = weight.numbers();
  Numbers want;
  for (const double i : index.numbers()) {
    for (int64_t c = 0; c < C; ++c)
      want.push_back(table[static_cast<size_t>(static_cast<int64_t>(i) * C + c)]);
  }
  cpu_kernels::embedding(out.view(), weight.view(), index.view());
  expect_close(called("embedding", dtype, V, C, shape, layout), out, want, {.roundings = 0});
}

void check_gradient(DType dtype, int64_t V, int64_t C, const Shape& shape, Layout layout) {
  Values dy = Values::random(dtype, with(shape, C), layout), index = random_index(shape, V, layout);
  Values dw(dtype, {V, C});
  const Numbers g = dy.numbers(), rows = index.numbers();
  Numbers want(static_cast<size_t>(V * C));
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t c = 0; c < static_cast<size_t>(C); ++c) {
      want[static_cast<size_t>(rows[i]) * static_cast<size_t>(C) + c] += g[i * static_cast<size_t>(C) + c];
    }
  }
  cpu_kernels::embedding_grad(dw.view(), dy.view(), index.view());
  expect_close(called("embedding_grad", dtype, V, C, shape, layout), dw, want,
               {.roundings = static_cast<double>(rows.size())});
}

}  // namespace

TEST_CASE("4.4 each index picks a row") {
  Values weight = Values::of(f32, {3, 2}, {1, 2, 3, 4, 5, 6}), index = Values::of(i64, {4}, {2, 0, 1, 2}),
         out(f32, {4, 2});
  cpu_kernels::embedding(out.view(), weight.view(), index.view());
  expect_close("rows {2, 0, 1, 2} of {{1, 2}, {3, 4}, {5, 6}}", out, {5, 6, 1, 2, 3, 4, 5, 6},
               {.roundings = 0});
}

TEST_CASE("4.4 rows of every dtype, index and layout") {
  for (const DType dtype : kDTypes) {
    for (const Layout layout : kLayouts) check_forward(dtype, 7, 5, {2, 3}, layout);
  }
  check_forward(f32, 1, 1, {1}, Layout::contiguous);
  check_forward(f32, 5, 3, {}, Layout::contiguous);
  check_forward(f64, 11, 13, {2, 1, 3}, Layout::gaps);
  check_forward(f32, 4, 3, {0}, Layout::contiguous);
}

TEST_CASE("4.4 the gradient of a row is the sum of all its uses") {
  Values dy = Values::of(f32, {3, 2}, {1, 2, 10, 20, 100, 200}), index = Values::of(i64, {3}, {1, 3, 1}),
         dw(f32, {4, 2});
  cpu_kernels::embedding_grad(dw.view(), dy.view(), index.view());
  expect_close("rows {{1, 2}, {10, 20}, {100, 200}} added to a table of 4 rows at {1, 3, 1}", dw,
               {0, 0, 101, 202, 0, 0, 10, 20}, {.roundings = 0});
}

TEST_CASE("4.4 gradients of every dtype, index and layout") {
  for (const DType dtype : kDTypes) {
    for (const Layout layout : kLayouts) check_gradient(dtype, 7, 5, {4, 3}, layout);
  }
  check_gradient(f64, 3, 1, {50}, Layout::contiguous);
  check_gradient(f32, 1, 4, {1, 2, 3}, Layout::gaps);
  check_gradient(f32, 4, 3, {0}, Layout::contiguous);
}

TEST_CASE("4.4 the sum of many 16-bit gradients of one row is not rounded") {
  for (const DType dtype : {bf16, f16}) {
    Values dy = Values::of(dtype, {2000, 1}, Numbers(2000, 1.0)),
           index = Values::of(i64, {2000}, Numbers(2000, 1.0));
    Values dw(dtype, {3, 1});
    cpu_kernels::embedding_grad(dw.view(), dy.view(), index.view());
    expect_close(std::string("2000 gradients of 1 for one row, in ") + tinytorch::name_of(dtype), dw,
                 {0, 2000, 0});
  }
}

TEST_CASE("4.4 the first index outside the table is found") {
  const auto first = [](const Numbers& numbers, const Shape& shape, Layout layout) {
    Values index = Values::of(i64, shape, numbers, layout);
    return cpu_kernels::first_outside(index.view(), 5);
  };
  for (const Layout layout : kLayouts) {
    const std::string place = std::string(" [2, 3], ") + name_of_layout(layout) + ", 5 rows";
    expect_equal("first_outside of {0, 1, 2, 3, 4, 0}" + place, first({0, 1, 2, 3, 4, 0}, {2, 3}, layout),
                 int64_t{-1});
    expect_equal("first_outside of {0, 1, 5, 3, 9, 0}" + place, first({0, 1, 5, 3, 9, 0}, {2, 3}, layout),
                 int64_t{2});
    expect_equal("first_outside of {0, 1, 2, 3, -1, 0}" + place, first({0, 1, 2, 3, -1, 0}, {2, 3}, layout),
                 int64_t{4});
  }
  expect_equal("first_outside of nothing", first({}, {0}, Layout::contiguous), int64_t{-1});
}
