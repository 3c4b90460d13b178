#include <support/errors.hpp>

#include <support/few.hpp>
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

TEST_CASE("attention is softmax(scale q k^T) v, stored so that [B, T, C] is a view") {
  const tt::Tensor q = normal({2, 3, 5, 8}, 1), k = normal({2, 3, 7, 8}, 2), v = normal({2, 3, 7, 8}, 3);
  const tt::Tensor y = tt::scaled_dot_product_attention(q, k, v);
  CHECK(y.shape() == tt::Shape{2, 3, 5, 8});
  CHECK(y.transpose(1, 2).is_contiguous());
  CHECK(distance(y, tt::matmul(tt::softmax(tt::matmul(q, k.transpose(2, 3)) / std::sqrt(8.0)), v)) < 1e-6);
  CHECK(distance(tt::scaled_dot_product_attention(q, k, v, {.scale = 0.5}),
                 tt::matmul(tt::softmax(tt::matmul(q, k.transpose(2, 3)) * 0.5), v)) < 1e-6);
}

TEST_CASE("a causal mask excludes later keys, a window excludes distant keys") {
  const tt::Tensor q = normal({1, 2, 9, 4}, 1), k = normal({1, 2, 9, 4}, 2), v = normal({1, 2, 9, 4}, 3);
  tt::Tensor late_k = k.clone(), late_v = v.clone();
  late_k.slice(2, 6, 9).copy_(normal({1, 2, 3, 4}, 4));
  late_v.slice(2, 6, 9).copy_(normal({1, 2, 3, 4}, 5));
  const tt::AttentionOptions causal{.causal = true}, window{.causal = true, .window = 3};
  const tt::Tensor before = tt::scaled_dot_product_attention(q, k, v, causal),
                   after = tt::scaled_dot_product_attention(q, late_k, late_v, causal);
  CHECK(distance(before.slice(2, 0, 6), after.slice(2, 0, 6)) == 0);
  CHECK(distance(before.slice(2, 6, 9), after.slice(2, 6, 9)) > 0);
  // The last of nine queries with a window of three equals attention over the last three keys.
  CHECK(distance(tt::scaled_dot_product_attention(q, k, v, window).slice(2, 8, 9),
                 tt::scaled_dot_product_attention(q.slice(2, 8, 9), k.slice(2, 6, 9), v.slice(2, 6, 9))) <
        1e-6);
  // One query with all keys, as with a KV cache, equals the last row of the full result.
  CHECK(distance(before.slice(2, 8, 9), tt::scaled_dot_product_attention(q.slice(2, 8, 9), k, v, causal)) <
        1e-6);
}

TEST_CASE("grouped-query attention equals attention with copied keys and values") {
  const tt::Tensor q = normal({2, 6, 5, 4}, 1), k = normal({2, 2, 5, 4}, 2), v = normal({2, 2, 5, 4}, 3);
  const auto copies = [](const tt::Tensor& x) {
    return tt::reshape(tt::expand(tt::reshape(x, {2, 2, 1, 5, 4}), {2, 2, 3, 5, 4}), {2, 6, 5, 4});
  };
  CHECK(distance(tt::scaled_dot_product_attention(q, k, v),
                 tt::scaled_dot_product_attention(q, copies(k), copies(v))) == 0);
}

TEST_CASE("dropout keeps the mean, and is repeatable with the same generator" * test::long_on_emulator()) {
  const tt::Tensor q = tt::zeros({1, 1, 4, 4}), k = normal({1, 1, 20000, 4}, 1),
                   v = tt::ones({1, 1, 20000, 4});
  const auto once = [&](uint64_t seed) {
    tt::Generator generator(seed);
    return tt::scaled_dot_product_attention(q, k, v, {.dropout = 0.25}, generator);
  };
  CHECK(distance(once(7), once(7)) == 0);
  CHECK(distance(once(7), once(8)) > 0);
  // A fraction of 0.75 of 20,000 equal weights is kept; its standard deviation is 0.0041 of the mean.
  CHECK(distance(once(7), tt::ones({1, 1, 4, 4})) < 5 * 0.0041);
}

TEST_CASE("invalid arguments of attention are errors that state the rule") {
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

TEST_CASE("samples of different lengths: keys beyond a sample's length are ignored") {
  const tt::Tensor q = normal({3, 4, 6, 8}, 1), k = normal({3, 2, 6, 8}, 2), v = normal({3, 2, 6, 8}, 3);
  const tt::Tensor lengths = tt::from_data(std::vector<int64_t>{6, 2, 0}, {3}, tt::default_device());
  for (const bool causal : {false, true}) {
    const tt::Tensor y = tt::scaled_dot_product_attention(q, k, v, {.causal = causal, .lengths = lengths});
    CHECK(distance(y.slice(0, 0, 1), tt::scaled_dot_product_attention(q.slice(0, 0, 1), k.slice(0, 0, 1),
                                                                      v.slice(0, 0, 1), {.causal = causal})) <
          1e-6);
    // Two keys of six; the first two queries give the same as in a sequence of two.
    CHECK(distance(y.slice(0, 1, 2).slice(2, 0, 2),
                   tt::scaled_dot_product_attention(
                       q.slice(0, 1, 2).slice(2, 0, 2), k.slice(0, 1, 2).slice(2, 0, 2),
                       v.slice(0, 1, 2).slice(2, 0, 2), {.causal = causal})) < 1e-6);
    CHECK(distance(y.slice(0, 2, 3), tt::zeros({1, 4, 6, 8})) == 0);
  }
  expect_error("TT-SHAPE-02", "lengths must be i64 [B]",
               [&] { tt::scaled_dot_product_attention(q, k, v, {.lengths = lengths.slice(0, 0, 2)}); });
}

TEST_CASE("joined_attention computes attention on packed QKV") {
  const int64_t B = 2, T = 5, H = 4, G = 2, D = 8;
  const tt::Tensor joined = normal({B, T, (H + 2 * G) * D}, 1);
  const tt::Tensor heads = tt::reshape(joined, {B, T, H + 2 * G, D}).transpose(1, 2);
  const tt::Tensor lengths = tt::from_data(std::vector<int64_t>{5, 3}, {2}, tt::default_device());
  for (const tt::AttentionOptions& options :
       {tt::AttentionOptions{}, tt::AttentionOptions{.causal = true, .scale = 0.3},
        tt::AttentionOptions{.causal = true, .window = 2, .lengths = lengths}}) {
    const tt::Tensor want = tt::scaled_dot_product_attention(heads.slice(1, 0, H), heads.slice(1, H, H + G),
                                                             heads.slice(1, H + G, H + 2 * G), options);
    const tt::Tensor got = tt::joined_attention(joined, H, G, options);
    CHECK(got.shape() == tt::Shape{B, T, H * D});
    CHECK(got.is_contiguous());
    CHECK(distance(got, want.transpose(1, 2).reshape({B, T, H * D})) == 0);
    // Any strides are allowed: a row of a wider tensor.
    const tt::Tensor wide = tt::cat({joined, joined}, 2);
    CHECK(distance(tt::joined_attention(wide.slice(2, 0, joined.size(2)), H, G, options), got) == 0);
  }
  expect_error("TT-SHAPE-02", "does not hold 3 heads", [&] { tt::joined_attention(joined, 3, 2); });
  expect_error("TT-SHAPE-04", "[B, T, (H + 2 G) D]", [&] { tt::joined_attention(heads, H, G); });
}
