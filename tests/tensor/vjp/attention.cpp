#include <doctest/doctest.h>

#include <tinytorch/autograd/gradcheck.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

TEST_CASE("gradients of attention: masks, grouped-query attention, other scales, strided operands") {
  tt::Generator generator(3);
  const auto leaf = [&](const tt::Shape& shape) {
    return tt::randn(shape, tt::f64, tt::default_device(), generator).requires_grad_();
  };
  for (const tt::AttentionOptions& options :
       {tt::AttentionOptions{}, tt::AttentionOptions{.causal = true}, tt::AttentionOptions{.window = 2},
        tt::AttentionOptions{.causal = true, .window = 3, .scale = 0.7}}) {
    const auto attention = [&](const tt::Tensors& in) {
      return tt::scaled_dot_product_attention(in[0], in[1], in[2], options);
    };
    const auto same = tt::gradcheck(attention, {leaf({2, 1, 4, 3}), leaf({2, 1, 4, 3}), leaf({2, 1, 4, 3})});
    CHECK_MESSAGE(same.passed, same.message);
    const auto shared =
        tt::gradcheck(attention, {leaf({1, 2, 2, 2}), leaf({1, 1, 4, 2}), leaf({1, 1, 4, 2})});
    CHECK_MESSAGE(shared.passed, shared.message);
  }
  const auto strided = tt::gradcheck(
      [](const tt::Tensors& in) {
        const tt::Tensor heads = tt::reshape(in[0], {1, 3, 3, 2, 3}).transpose(1, 3);  // [B, H, 3, T, D]
        return tt::scaled_dot_product_attention(heads.select(2, 0), heads.select(2, 1), heads.select(2, 2));
      },
      {leaf({1, 3, 18})});
  CHECK_MESSAGE(strided.passed, strided.message);
}

TEST_CASE("the gradient of attention uses the dropout of its forward pass") {
  tt::Tensor q = tt::ones({1, 1, 3, 4}).requires_grad_(), v = tt::ones({1, 1, 64, 4}).requires_grad_();
  const tt::Tensor k = tt::zeros({1, 1, 64, 4});
  const tt::Tensor y = tt::scaled_dot_product_attention(q, k, v, {.dropout = 0.5});
  tt::sum(y).backward();
  // dv is the sum of each key's weights after dropout, so the total equals the total of the results.
  CHECK(tt::sum(v.grad()).item<double>() == doctest::Approx(tt::sum(y).item<double>()).epsilon(1e-5));
  CHECK(tt::min(v.grad()).item<double>() == 0);
}

TEST_CASE("gradients of joined_attention and of samples of different lengths") {
  tt::Generator generator(5);
  const auto leaf = [&](const tt::Shape& shape) {
    return tt::randn(shape, tt::f64, tt::default_device(), generator).requires_grad_();
  };
  const tt::Tensor lengths = tt::from_data(std::vector<int64_t>{3, 1}, {2}, tt::default_device());
  const tt::AttentionOptions cut{.causal = true, .lengths = lengths};
  const auto joined = tt::gradcheck(
      [&](const tt::Tensors& in) { return tt::joined_attention(in[0], 2, 1, cut); }, {leaf({2, 3, 8})});
  CHECK_MESSAGE(joined.passed, joined.message);
  const auto apart = tt::gradcheck(
      [&](const tt::Tensors& in) { return tt::scaled_dot_product_attention(in[0], in[1], in[2], cut); },
      {leaf({2, 1, 2, 3}), leaf({2, 1, 3, 3}), leaf({2, 1, 3, 3})});
  CHECK_MESSAGE(apart.passed, apart.message);
  // Keys beyond a sample's length get gradients of 0.
  tt::Tensor v = leaf({2, 1, 3, 4});
  tt::sum(tt::scaled_dot_product_attention(leaf({2, 1, 3, 4}), leaf({2, 1, 3, 4}), v, cut)).backward();
  CHECK(tt::sum(tt::abs(v.grad().slice(0, 1, 2).slice(2, 1, 3))).item<double>() == 0);
}
