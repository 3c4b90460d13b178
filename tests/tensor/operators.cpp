// Operators equal the functions of the same name, with tensors and numbers on either side.
#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <tinytorch/tensor/operators.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using tt::Tensor;
using Values = std::vector<float>;

TEST_CASE("operators on two tensors") {
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

TEST_CASE("operators on tensor and number keep the order and the tensor's dtype") {
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

TEST_CASE("a tensor in a condition is converted to the bool of its element") {
  const tt::Tensor nine = tt::full({}, 9), five = tt::full({1, 1}, 5), mask = tt::from_data({true, false});
  CHECK_FALSE(static_cast<bool>(nine < five));
  CHECK(static_cast<bool>(five < nine));
  CHECK_FALSE(static_cast<bool>(tt::zeros({1})));
  CHECK(static_cast<bool>(tt::full({}, -0.5)));
  bool asked = false;
  if (five < nine) asked = true;
  CHECK(asked);
  if (!(five < nine) || nine < five) asked = false;
  CHECK(asked);
  CHECK(errors::thrown_by([&] { return mask ? 1 : 2; }).code == "TT-SHAPE-06");
  CHECK(errors::thrown_by([&] { return tt::ones({0}) ? 1 : 2; }).code == "TT-SHAPE-06");
  CHECK(errors::thrown_by([&] { return tt::Tensor() ? 1 : 2; }).code == "TT-TENSOR-01");
}

TEST_CASE("!, && and || are elementwise") {
  const tt::Tensor a = tt::from_data({true, true, false, false}),
                   b = tt::from_data({true, false, true, false});
  using Bools = std::vector<int>;
  CHECK((!a).to_vector<int>() == Bools{0, 0, 1, 1});
  CHECK((a && b).to_vector<int>() == Bools{1, 0, 0, 0});
  CHECK((a || b).to_vector<int>() == Bools{1, 1, 1, 0});
  CHECK(errors::thrown_by([&] { a&& tt::from_data({true, false, true}); }).code == "TT-SHAPE-02");
}
