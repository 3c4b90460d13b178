#include "reference.hpp"

#include <tinytorch/tensor/vjp/sum_to.hpp>

using namespace course;

namespace {

// The sums of the elements of x, each over the elements that were broadcast from one element of `target`.
Numbers summed(const Numbers& x, const Shape& shape, const Shape& target) {
  Numbers out(static_cast<size_t>(target.numel()));
  for (size_t i = 0; i < x.size(); ++i) {
    const Shape at = index_of(shape, static_cast<int64_t>(i));
    int64_t to = 0;
    for (int d = 0; d < target.size(); ++d) {
      to = to * target[d] + (target[d] == 1 ? 0 : at[shape.size() - target.size() + d]);
    }
    out[static_cast<size_t>(to)] += x[i];
  }
  return out;
}

void check_sum_to(const std::string& what, const Tensor& x, const Shape& target, const Numbers& want) {
  const Tensor got = call(what, [&] { return sum_to(x, target); });
  expect_close(what, got, target, want, {.scale = static_cast<double>(x.numel()) / 4});
}
void check_sum_to(const Shape& shape, const Shape& target, DType dtype = f64,
                  Layout layout = Layout::contiguous) {
  const Tensor x = random_tensor(shape, dtype, layout);
  check_sum_to("sum_to(x " + shape.str() + ", " + target.str() + "), " + name_of(dtype) + ", " +
                   name_of_layout(layout),
               x, target, summed(numbers_of(x), shape, target));
}

}  // namespace

TEST_CASE("2.2 a bias: the rows of a matrix are summed") {
  const Tensor x = tensor_of({2, 3}, {1, 2, 3, 10, 20, 30});
  check_sum_to("sum_to({{1, 2, 3}, {10, 20, 30}}, [3])", x, {3}, {11, 22, 33});
  check_sum_to({5, 4}, {4});
  check_sum_to({2, 3, 4}, {4});
  check_sum_to({2, 3, 4}, {3, 4});
}

TEST_CASE("2.2 a size of 1 stays a dimension") {
  const Tensor x = tensor_of({2, 3}, {1, 2, 3, 10, 20, 30});
  check_sum_to("sum_to({{1, 2, 3}, {10, 20, 30}}, [2, 1])", x, {2, 1}, {6, 60});
  check_sum_to({5, 4}, {1, 4});
  check_sum_to({5, 4}, {1, 1});
  check_sum_to({2, 3, 4}, {2, 1, 4});
  check_sum_to({2, 4}, {1, 4});
}

TEST_CASE("2.2 both at once, and down to a scalar") {
  check_sum_to({2, 3, 4}, {3, 1});
  check_sum_to({2, 3, 4}, {1, 4});
  check_sum_to({2, 1, 3, 5}, {1, 3, 1});
  check_sum_to({2, 3}, {});
  check_sum_to({3, 3}, {3});
  check_sum_to({3, 3}, {3, 1});
}

TEST_CASE("2.2 a shape that stays the same, and an undefined tensor") {
  const Tensor x = random_tensor({2, 3});
  expect("sum_to(x [2, 3], [2, 3]) is x itself, without a copy", sum_to(x, {2, 3}).impl() == x.impl());
  expect("sum_to(an undefined tensor, [3]) is undefined", !sum_to(Tensor(), {3}).defined());
  check_sum_to({1, 3}, {3});
  check_sum_to({1, 1, 3}, {1, 3});
  check_sum_to({1, 1}, {});
}

TEST_CASE("2.2 sizes of 0: the sum of no elements is 0") {
  check_sum_to({0, 3}, {3});
  check_sum_to({0, 3}, {1, 3});
  check_sum_to({3, 0}, {3, 1});
  check_sum_to({2, 0}, {0});
}

TEST_CASE("2.2 any layout, any floating type") {
  for (const Layout layout : kLayouts) check_sum_to({3, 5}, {5}, f32, layout);
  for (const DType dtype : {f64, f32, bf16, f16}) check_sum_to({7, 2, 3}, {2, 1}, dtype);
  // The layout of a broadcast: all rows are one row in memory.
  const Tensor row = random_tensor({4});
  const Tensor stretched = alias(row, {3, 4}, {0, 1}, 0);
  Numbers want = numbers_of(row);
  for (double& v : want) v *= 3;
  check_sum_to("sum_to(x [3, 4] with strides [0, 1], [4])", stretched, {4}, want);
}
