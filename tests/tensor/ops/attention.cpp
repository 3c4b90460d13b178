#include "support/errors.hpp"

#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using test::expect_error;

namespace {

tt::Tensor normal(const tt::Shape& shape, uint64_t seed) {
  tt::Generator generator(seed);
  return tt::randn(shape, tt::f32, tt::default_device(), generator);
}
double distance(const tt::Tensor& a, const tt::Tensor& b) { return tt::max(tt::abs(a - b)).item<double>(); }

}  // namespace

TEST_CASE("attention is softmax(scale q k^T) v; the result is ready to be joined to [B, T, C]") {
  const tt::Tensor q = normal({2, 3, 5, 8}, 1), k = normal({2, 3, 7, 8}, 2), v = normal({2, 3, 7, 8}, 3);
  const tt::Tensor y = tt::scaled_dot_product_attention(q, k, v);
  CHECK(y.shape() == tt::Shape{2, 3, 5, 8});
  CHECK(y.transpose(1, 2).is_contiguous());
  CHECK(distance(y, tt::matmul(tt::softmax(tt::matmul(q, k.transpose(2, 3)) / std::sqrt(8.0)), v)) < 1e-6);
  CHECK(distance(tt::scaled_dot_product_attention(q, k, v, {.scale = 0.5}),
                 tt::matmul(tt::softmax(tt::matmul(q, k.transpose(2, 3)) * 0.5), v)) < 1e-6);
}

TEST_CASE("with a causal mask nothing comes from the future, and a window forgets the past") {
  const tt::Tensor q = normal({1, 2, 9, 4}, 1), k = normal({1, 2, 9, 4}, 2), v = normal({1, 2, 9, 4}, 3);
  tt::Tensor late_k = k.clone(), late_v = v.clone();
  late_k.slice(2, 6, 9).copy_(normal({1, 2, 3, 4}, 4));
  late_v.slice(2, 6, 9).copy_(normal({1, 2, 3, 4}, 5));
  const tt::AttentionOptions causal{.causal = true}, window{.causal = true, .window = 3};
  const tt::Tensor before = tt::scaled_dot_product_attention(q, k, v, causal),
                   after = tt::scaled_dot_product_attention(q, late_k, late_v, causal);
  CHECK(distance(before.slice(2, 0, 6), after.slice(2, 0, 6)) == 0);
  CHECK(distance(before.slice(2, 6, 9), after.slice(2, 6, 9)) > 0);
  // The last query of nine with a window of three: the same as of the last three keys alone.
  CHECK(distance(tt::scaled_dot_product_attention(q, k, v, window).slice(2, 8, 9),
                 tt::scaled_dot_product_attention(q.slice(2, 8, 9), k.slice(2, 6, 9), v.slice(2, 6, 9))) <
        1e-6);
  // One query against all keys, as with a cache, is the last row of the whole.
  CHECK(distance(before.slice(2, 8, 9), tt::scaled_dot_product_attention(q.slice(2, 8, 9), k, v, causal)) <
        1e-6);
}

TEST_CASE("heads that share keys equal heads with copies of them") {
  const tt::Tensor q = normal({2, 6, 5, 4}, 1), k = normal({2, 2, 5, 4}, 2), v = normal({2, 2, 5, 4}, 3);
  const auto copies = [](const tt::Tensor& x) {
    return tt::reshape(tt::expand(tt::reshape(x, {2, 2, 1, 5, 4}), {2, 2, 3, 5, 4}), {2, 6, 5, 4});
  };
  CHECK(distance(tt::scaled_dot_product_attention(q, k, v),
                 tt::scaled_dot_product_attention(q, copies(k), copies(v))) == 0);
}

TEST_CASE("dropout keeps the mean, and repeats with its generator") {
  const tt::Tensor q = tt::zeros({1, 1, 4, 4}), k = normal({1, 1, 20000, 4}, 1),
                   v = tt::ones({1, 1, 20000, 4});
  const auto once = [&](uint64_t seed) {
    tt::Generator generator(seed);
    return tt::scaled_dot_product_attention(q, k, v, {.dropout = 0.25}, generator);
  };
  CHECK(distance(once(7), once(7)) == 0);
  CHECK(distance(once(7), once(8)) > 0);
  // Of 20,000 equal probabilities a share of 0.75 is kept; its deviation is 0.0041 of the mean.
  CHECK(distance(once(7), tt::ones({1, 1, 4, 4})) < 5 * 0.0041);
}

TEST_CASE("attention refuses what it cannot do, and says what fits") {
  const tt::Tensor x = tt::zeros({1, 4, 5, 8});
  expect_error("TT-SHAPE-02", "G divides H", [&] {
    tt::scaled_dot_product_attention(x, tt::zeros({1, 3, 5, 8}), tt::zeros({1, 3, 5, 8}));
  });
  expect_error("TT-SHAPE-02", "sizes differ", [&] {
    tt::scaled_dot_product_attention(x, tt::zeros({1, 4, 5, 6}), tt::zeros({1, 4, 5, 6}));
  });
  expect_error("TT-SHAPE-02", "sizes differ", [&] {
    tt::scaled_dot_product_attention(x, x, tt::zeros({1, 4, 6, 8}));
  });
  expect_error("TT-SHAPE-04", "[B, H, T, D]", [&] {
    tt::scaled_dot_product_attention(tt::zeros({4, 5, 8}), x, x);
  });
  expect_error("TT-DTYPE-03", "scaled_dot_product_attention",
               [&] { tt::scaled_dot_product_attention(x, x.to(tt::f64), x); });
  expect_error("TT-RANGE-02", "dropout must be",
               [&] { tt::scaled_dot_product_attention(x, x, x, {.dropout = 1.5}); });
  expect_error("TT-RANGE-02", "window must not",
               [&] { tt::scaled_dot_product_attention(x, x, x, {.window = -1}); });
}
