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
  // A number along a dimension takes part in the graph.
  Tensor w = grid().requires_grad_();
  w.max(1).values.sum().backward();
  CHECK(w.grad().to_vector() == Values{0, 0, 1, 0, 0, 1});
}
