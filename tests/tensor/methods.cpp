// Members of Tensor that forward to functions.
#include <doctest/doctest.h>

#include <tinytorch/tensor/methods.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinytorch;  // as a user's program: no name may become ambiguous
using Values = std::vector<float>;
using Integers = std::vector<int64_t>;

namespace {

Tensor grid() { return arange(6).to(f32).reshape(2, 3); }  // [[0, 1, 2], [3, 4, 5]]

}  // namespace

TEST_CASE("members that forward to functions") {
  const Tensor x = grid() + 1;
  CHECK(x.max().item() == 6);
  CHECK(x.min().item() == 1);
  const auto [values, at] = max(x * from_data({1.0f, 5.0f, 1.0f}), 1);
  CHECK(values.to_vector() == Values{10, 25});
  CHECK(at.to_vector<int64_t>() == Integers{1, 1});
  CHECK(x.min(0).values.to_vector() == Values{1, 2, 3});
  CHECK(x.max(0, true).indices.shape() == Shape{1, 3});
  CHECK(x.max({1}).to_vector() == Values{3, 6});
  CHECK(x.argmax().item<int64_t>() == 5);
  CHECK(argmin(x).item<int64_t>() == 0);
  CHECK(x.argmax(1).to_vector<int64_t>() == Integers{2, 2});
  CHECK(x.exp().to_vector() == exp(x).to_vector());
  CHECK(x.sqrt().log().abs().to_vector() == abs(log(sqrt(x))).to_vector());
  CHECK(x.relu().sigmoid().tanh().to_vector() == tanh(sigmoid(x)).to_vector());
  CHECK(x.pow(2).to_vector() == x.square().to_vector());
  CHECK(x.clamp(2, 3).to_vector() == Values{2, 2, 3, 3, 3, 3});
  CHECK(x.std().item() == stddev(x).item());
  CHECK(x.var(1).to_vector() == Values{1, 1});
  CHECK(x.matmul(x.t()).shape() == Shape{2, 2});
  CHECK(x.softmax(-1).to_vector() == softmax(x, 1).to_vector());
  CHECK((x > 5).any().item<bool>());
  CHECK_FALSE((x > 5).all().item<bool>());
  CHECK(x.log_softmax(1).to_vector() == log_softmax(x, 1).to_vector());
  CHECK(x.neg().sign().to_vector() == sign(neg(x)).to_vector());
  CHECK((x / 2).floor().to_vector() == Values{0, 1, 1, 2, 2, 3});
  CHECK((x / 2).round().to_vector() == Values{0, 1, 2, 2, 2, 3});
  CHECK(x.log1p().expm1().to_vector() == expm1(log1p(x)).to_vector());
  CHECK(x.rsqrt().reciprocal().to_vector() == reciprocal(rsqrt(x)).to_vector());
  CHECK(x.sin().cos().erf().to_vector() == erf(cos(sin(x))).to_vector());
  CHECK_FALSE(x.isnan().any().item<bool>());
  CHECK(x.isfinite().all().item<bool>());
  CHECK(x.prod().item() == 720);
  CHECK(x.norm({1}).to_vector() == norm(x, {1}).to_vector());
  CHECK(x.logsumexp(1).to_vector() == logsumexp(x, {1}).to_vector());
  CHECK(x.cumsum(1).to_vector() == Values{1, 3, 6, 4, 9, 15});
  // A number along a dimension takes part in the graph.
  Tensor w = grid().requires_grad_();
  w.max(1).values.sum().backward();
  CHECK(w.grad().to_vector() == Values{0, 0, 1, 0, 0, 1});
}

TEST_CASE("members that select, repeat and divide") {
  const Tensor x = grid();
  CHECK(x.repeat(2, 1).to_vector() == repeat(x, {2, 1}).to_vector());
  CHECK(x.repeat({1, 2}).shape() == Shape{2, 6});
  CHECK(x.flip({0}).to_vector() == Values{3, 4, 5, 0, 1, 2});
  CHECK(x.flip(1).to_vector() == Values{2, 1, 0, 5, 4, 3});
  CHECK(x.roll(1).to_vector() == Values{5, 0, 1, 2, 3, 4});
  CHECK(x.roll(1, 1).to_vector() == Values{2, 0, 1, 5, 3, 4});
  CHECK(x.tril().to_vector() == Values{0, 0, 0, 3, 4, 0});
  CHECK(x.triu(1).to_vector() == Values{0, 1, 2, 0, 0, 5});
  CHECK(x.split(2, 1)[1].to_vector() == Values{2, 5});
  CHECK(x.chunk(2)[1].to_vector() == Values{3, 4, 5});
  const Tensor at = from_data<int64_t>({2, 0}, {2, 1});
  CHECK(x.gather(1, at).to_vector() == Values{2, 3});
  CHECK(x.index_select(1, at.reshape({2})).to_vector() == Values{2, 0, 5, 3});
  CHECK(x.masked_fill(x > 3, -1).to_vector() == Values{0, 1, 2, 3, -1, -1});
  CHECK(x.topk(2).indices.to_vector<int64_t>() == Integers{2, 1, 2, 1});
  CHECK(x.sort(1, true).values.to_vector() == Values{2, 1, 0, 5, 4, 3});
}
