// Tests calls in the notation of PyTorch: sizes, dimensions and numbers without braces.
#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinytorch;  // as a user's program: no name may become ambiguous
using Values = std::vector<float>;
using Integers = std::vector<int64_t>;

namespace {

Tensor grid() { return arange(6).to(f32).reshape(2, 3); }  // [[0, 1, 2], [3, 4, 5]]

}  // namespace

TEST_CASE("dimensions and sizes without braces") {
  const Tensor x = grid();
  CHECK(sum(x, 1).to_vector() == Values{3, 12});
  CHECK(x.sum(0).to_vector() == Values{3, 5, 7});
  CHECK(mean(x, 0, true).shape() == Shape{1, 3});
  CHECK(x.mean(-1).to_vector() == Values{1, 4});
  CHECK(zeros(3).shape() == Shape{3});
  CHECK(zeros(2, 3).shape() == Shape{2, 3});
  CHECK(ones(2).to_vector() == Values{1, 1});
  CHECK(randn(4, 2, 1).shape() == Shape{4, 2, 1});
  CHECK(rand(4).shape() == Shape{4});
  CHECK(x.reshape(6).shape() == Shape{6});
  CHECK(reshape(x, -1).shape() == Shape{6});
  CHECK(x.reshape(3, -1).shape() == Shape{3, 2});
  CHECK(x.view(3, 2).shape() == Shape{3, 2});
  CHECK(x.view({1, -1}).shape() == Shape{1, 6});
  CHECK(x.view(-1).storage() == x.storage());
  test::expect_error("TT-SHAPE-05", "", [&] { x.t().view(6); });
  CHECK(x.permute(1, 0).shape() == Shape{3, 2});
  CHECK(x[0].expand(4, 3).shape() == Shape{4, 3});
  CHECK(x.T()[0].to_vector() == Values{0, 3});
  CHECK(x.view(1, 2, 1, 3).squeeze().shape() == Shape{2, 3});
  CHECK(squeeze(zeros(1, 1)).rank() == 0);
  CHECK(x.dim() == 2);
  CHECK(full(3, 1.).to_vector() == Values{1, 1, 1});
  CHECK(flip(x, 1)[0].to_vector() == Values{2, 1, 0});
  CHECK(cat(x, x).shape() == Shape{4, 3});
  CHECK(cat(x, x, x).shape() == Shape{6, 3});
  CHECK(stack(x, x).shape() == Shape{2, 2, 3});
  CHECK(cat({x, x}, 1).shape() == Shape{2, 6});
  CHECK(arange(4).to_vector<int64_t>() == Integers{0, 1, 2, 3});
  CHECK(arange(2.5).dtype() == f32);
  const Tensor r = randint(10, {50}), q = randint(3, 5, 50);
  CHECK(r.shape() == Shape{50});
  CHECK((r >= 0).all().item<bool>());
  CHECK((r < 10).all().item<bool>());
  CHECK((q >= 3 && q < 5).all().item<bool>());
  const Tensor image = arange(16).to(f32).reshape(1, 1, 4, 4);
  CHECK(max_pool2d(image, 2).to_vector() == Values{5, 7, 13, 15});
  CHECK(max_pool2d(image, 3, 1, 1).shape() == Shape{1, 1, 4, 4});
  CHECK(avg_pool2d(image, 2, 2).to_vector() == Values{2.5, 4.5, 10.5, 12.5});
}
