// Operators are their functions, with numbers on either side.
#include <doctest/doctest.h>

#include <tinytorch/tensor/operators.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using tt::Tensor;
using Values = std::vector<float>;

TEST_CASE("tensor with tensor") {
  const Tensor a = tt::from_data({1.0f, 5.0f, 6.0f}), b = tt::from_data({2.0f, 5.0f, 3.0f});
  CHECK((a + b).to_vector() == Values{3, 10, 9});
  CHECK((a - b).to_vector() == Values{-1, 0, 3});
  CHECK((a * b).to_vector() == Values{2, 25, 18});
  CHECK((a / b).to_vector() == Values{0.5, 1, 2});
  CHECK((-a).to_vector() == Values{-1, -5, -6});
  CHECK((a == b).to_vector() == Values{0, 1, 0});
  CHECK((a != b).to_vector() == Values{1, 0, 1});
  CHECK((a < b).to_vector() == Values{1, 0, 0});
  CHECK((a <= b).to_vector() == Values{1, 1, 0});
  CHECK((a > b).to_vector() == Values{0, 0, 1});
  CHECK((a >= b).to_vector() == Values{0, 1, 1});
  CHECK((a < b).dtype() == tt::boolean);
}

TEST_CASE("tensor with number, number with tensor: order matters, dtype stays") {
  const Tensor a = tt::from_data({1.0f, 4.0f});
  CHECK((a + 2).to_vector() == Values{3, 6});
  CHECK((2 + a).to_vector() == Values{3, 6});
  CHECK((a - 2).to_vector() == Values{-1, 2});
  CHECK((2 - a).to_vector() == Values{1, -2});
  CHECK((a * 0.5).to_vector() == Values{0.5, 2});
  CHECK((0.5 * a).to_vector() == Values{0.5, 2});
  CHECK((a / 2).to_vector() == Values{0.5, 2});
  CHECK((2 / a).to_vector() == Values{2, 0.5});
  CHECK((a < 2).to_vector() == Values{1, 0});
  CHECK((2 < a).to_vector() == Values{0, 1});
  CHECK((a <= 1).to_vector() == Values{1, 0});
  CHECK((4 <= a).to_vector() == Values{0, 1});
  CHECK((a > 1).to_vector() == Values{0, 1});
  CHECK((4 > a).to_vector() == Values{1, 0});
  CHECK((a >= 4).to_vector() == Values{0, 1});
  CHECK((1 >= a).to_vector() == Values{1, 0});
  CHECK((a == 4).to_vector() == Values{0, 1});
  CHECK((4 == a).to_vector() == Values{0, 1});
  CHECK((a != 4).to_vector() == Values{1, 0});
  CHECK((4 != a).to_vector() == Values{1, 0});
  for (const auto t : {tt::f64, tt::bf16, tt::f16, tt::i8, tt::u8, tt::i32, tt::i64}) {
    const Tensor x = tt::full({2}, 3, t);
    CHECK((x + 1).dtype() == t);
    CHECK((2 * x).to_vector() == Values{6, 6});
  }
}
