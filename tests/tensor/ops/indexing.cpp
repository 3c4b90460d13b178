// Masks and lists of positions as an index.
#include <doctest/doctest.h>

#include <random>
#include <support/errors.hpp>
#include <tinytorch/autograd/gradcheck.hpp>
#include <tinytorch/tensor/ops/indexing.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinytorch;  // as a user's program: no name may become ambiguous
using Values = std::vector<float>;
using Integers = std::vector<int64_t>;

namespace {

Tensor grid() { return arange(6).to(f32).reshape(2, 3); }  // [[0, 1, 2], [3, 4, 5]]

}  // namespace

TEST_CASE("masks and positions as an index") {
  Tensor x = grid();
  CHECK(x[x > 1.5].to_vector() == Values{2, 3, 4, 5});
  CHECK(x[x > 100].shape() == Shape{0});
  CHECK(x[from_data({false, true})].to_vector() == Values{3, 4, 5});
  CHECK(x[from_data<int64_t>({1, 0, -1})].shape() == Shape{3, 3});
  CHECK(x[from_data<int64_t>({1, 0, -1})][2].to_vector() == Values{3, 4, 5});
  CHECK(x[zeros({2, 2}, i64)].shape() == Shape{2, 2, 3});
  x[x > 3] = 0;
  CHECK(x.to_vector() == Values{0, 1, 2, 3, 0, 0});
  x[x == 0] = from_data({7.0f, 8.0f, 9.0f});
  CHECK(x.to_vector() == Values{7, 1, 2, 3, 8, 9});
  x[x > 6] -= 6;
  CHECK(x.to_vector() == Values{1, 1, 2, 3, 2, 3});
  x[from_data<int64_t>({-1})] = from_data({4.0f, 5.0f, 6.0f});
  CHECK(x.to_vector() == Values{1, 1, 2, 4, 5, 6});
  x[from_data<int64_t>({0, 0})] = grid();  // the last value counts
  CHECK(x[0].to_vector() == Values{3, 4, 5});
  x[x > 100] = 1;
  x.t()[from_data({true, false, false})] = -1;  // through a view
  CHECK(x.to_vector() == Values{-1, 4, 5, -1, 5, 6});
  auto kept = x[0][from_data({true, true, false})];
  kept += 1;  // a variable is a copy
  CHECK(x[0].to_vector() == Values{-1, 4, 5});
  CHECK(index_put(x, x < 0, zeros({1})).to_vector() == Values{0, 4, 5, 0, 5, 6});
  test::expect_error("TT-RANGE-05", "", [&] { x[from_data<int64_t>({2})]; });
  test::expect_error("TT-SHAPE-13", "", [&] { x[from_data({true, false, true})]; });
  test::expect_error("TT-DTYPE-04", "", [&] { x[from_data({0.5f})]; });
  test::expect_error("TT-SHAPE-02", "", [&] { x[x > 0] = zeros(3); });
  CHECK(masked_select(x, from_data({true, false, false})).to_vector() == Values{-1, -1});
  CHECK(nonzero(x == 5).to_vector<int64_t>() == Integers{0, 2, 1, 1});
  CHECK(nonzero(full({}, 3)).shape() == Shape{1, 0});
  x.masked_fill_(x == 5, 0);
  x.clamp_(0, 4);
  CHECK(x.to_vector() == Values{0, 4, 0, 0, 0, 4});
}

TEST_CASE("masks of every dtype and layout equal loops over the elements") {
  const unsigned seed = std::random_device()();
  INFO("seed ", seed);
  manual_seed(seed);
  for (const DType dtype : {f64, f32, bf16, f16, i64, i32, i8, u8, boolean}) {
    CAPTURE(name_of(dtype));
    for (const Shape& shape : {Shape{7}, Shape{3, 5, 4}, Shape{1, 1}, Shape{2, 0, 3}, Shape{}}) {
      Tensor x = randint(0, 4, shape).to(dtype), mask = randint(0, 2, shape).to(boolean);
      if (shape.size() == 3)
        x = x.transpose(0, 2), mask = mask.flip({1}).transpose(0, 2);  // no contiguous rows
      const std::vector<double> values = x.to(f64).to_vector<double>(),
                                chosen = mask.to(f64).to_vector<double>();
      std::vector<double> selected, replaced = values;
      int64_t not_zero = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        if (chosen[i] != 0) selected.push_back(values[i]), replaced[i] = 1;
        not_zero += values[i] != 0;
      }
      const Tensor got = masked_select(x, mask), places = nonzero(x);
      CHECK(got.dtype() == dtype);
      CHECK(got.to(f64).to_vector<double>() == selected);
      CHECK(x[mask].to(f64).to_vector<double>() == selected);
      CHECK(places.shape() == Shape{not_zero, std::ssize(shape)});
      for (int64_t i = 0; i < not_zero; ++i) {
        Tensor element = x;
        for (int64_t d = 0; d < places.size(1); ++d)
          element = element.select(0, places[i][d].item<int64_t>());
        CHECK(element.item<double>() != 0);
      }
      Tensor y = x.clone();
      y[mask] = 1;
      CHECK(y.to(f64).to_vector<double>() == replaced);
    }
  }
}

TEST_CASE("gradients of masked_select and of a write by a mask are those of differences") {
  manual_seed(3);
  const Tensor mask = from_data({true, false, true, true, false, true}).reshape({2, 3});
  Tensor x = randn({2, 3}, f64), y = randn({4}, f64);
  x.requires_grad_(), y.requires_grad_();
  const auto selected = gradcheck([&](const Tensors& in) { return masked_select(in[0], mask); }, {x});
  CHECK_MESSAGE(selected.passed, selected.message);
  const auto put = gradcheck([&](const Tensors& in) { return index_put(in[0], mask, in[1]); }, {x, y});
  CHECK_MESSAGE(put.passed, put.message);
}
