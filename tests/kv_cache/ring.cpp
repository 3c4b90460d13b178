#include <tinytorch/kv_cache/ring.hpp>

#include <kv_cache/model.hpp>
#include <tinytorch/kv_cache/contiguous.hpp>

using namespace test;

namespace {

// Logits of tokens [1, T], fed one by one.
template <class Model>
tt::Tensor windowed(Model& model, const tt::Tensor& tokens, int64_t capacity, int64_t sinks) {
  tt::RingCache cache(model.kv_shape(), {.capacity = capacity}, {.sinks = sinks});
  return in_steps(model, cache, tokens, std::vector<int64_t>(static_cast<size_t>(tokens.size(1)), 1));
}

}  // namespace

TEST_CASE("as long as everything fits, a ring is a contiguous cache") {
  tt::Llama model = small_llama();
  const tt::Tensor tokens = some_tokens(2, 30);
  for (const std::vector<int64_t>& steps : {std::vector<int64_t>{30}, {11, 1, 18}}) {
    tt::ContiguousCache all(model.kv_shape(), {.sequences = 2, .capacity = 30});
    tt::RingCache ring(model.kv_shape(), {.sequences = 2, .capacity = 30}, {.sinks = 3});
    CHECK(difference(in_steps(model, all, tokens, steps), in_steps(model, ring, tokens, steps)) == 0);
  }
}

// In a model of one layer, the keys and values of a token do not depend on what that token could see. So a
// ring without sinks is the sliding window of attention.
TEST_CASE("a ring without sinks equals windowed attention over the whole text") {
  tt::manual_seed(7);
  const tt::Tensor q = tt::randn({1, 4, 50, 8}), k = tt::randn({1, 2, 50, 8}), v = tt::randn({1, 2, 50, 8});
  const tt::Tensor wanted = tt::scaled_dot_product_attention(q, k, v, {.causal = true, .window = 12});
  for (const std::vector<int64_t>& steps : {std::vector<int64_t>{50}, {12, 38}, {5, 1, 1, 20, 23}}) {
    tt::RingCache ring({.layers = 1, .groups = 2, .head_size = 8}, {.capacity = 12}, {.sinks = 0});
    tt::Tensors parts;
    int64_t at = 0;
    for (const int64_t n : steps) {
      const auto part = [&](const tt::Tensor& x) { return tt::slice(x, 2, at, at + n); };
      parts.push_back(ring.attend(0, part(q), part(k), part(v), {.causal = true}));
      at += n;
    }
    CHECK(difference(tt::cat(parts, 2), wanted) <= 1e-5);
  }
}

TEST_CASE("how a text is divided into steps does not matter, beyond the capacity too") {
  tt::Llama model = small_llama();
  const tt::Tensor tokens = some_tokens(1, 60);
  const tt::Tensor wanted = windowed(model, tokens, 16, 4);
  for (const std::vector<int64_t>& steps : {std::vector<int64_t>{60}, {16, 44}, {20, 1, 9, 30}}) {
    tt::RingCache ring(model.kv_shape(), {.capacity = 16}, {.sinks = 4});
    CHECK(difference(in_steps(model, ring, tokens, steps), wanted) <= 2e-5);
  }
}

TEST_CASE("memory is constant, sinks survive, and the text may be longer than the capacity") {
  tt::RingCache ring({.layers = 1, .groups = 1, .head_size = 4}, {.capacity = 8}, {.sinks = 2});
  const size_t before = tt::allocator_stats().current;
  const tt::NoGrad no_grad;
  const tt::Tensor q = tt::zeros({1, 1, 1, 4});  // equal scores: the result is the mean of the values
  for (int64_t t = 0; t < 10'000; ++t) {
    const tt::Tensor v = tt::full({1, 1, 1, 4}, static_cast<double>(t));
    const tt::Tensor y = ring.attend(0, q, q, v, {.causal = true});
    double sum = 0, count = 0;
    for (int64_t i = 0; i <= t; ++i) {
      if (i >= 2 && i + 6 <= t) i = t - 5;
      sum += static_cast<double>(i), count += 1;
    }
    if (t < 50 || t % 997 == 0) CHECK(y.to_vector<double>()[0] == doctest::Approx(sum / count));
  }
  CHECK(ring.position() == 10'000);
  CHECK(tt::allocator_stats().current <= before + 4096);
}

TEST_CASE("sinks must leave a slot, and a step of begin() must have one token of a sequence") {
  const tt::KvShape shape{.layers = 1, .groups = 1, .head_size = 4};
  expect_error("TT-KV-01", "0 <= sinks < capacity",
               [&] { tt::RingCache(shape, {.capacity = 4}, {.sinks = 4}); });
  tt::RingCache ring(shape, {.sequences = 2, .capacity = 4}, {.sinks = 1});
  ring.begin(std::vector<int64_t>{5, 0});
  const tt::Tensor x = tt::zeros({1, 1, 5, 4});
  CHECK_THROWS_WITH_AS((void)ring.attend(0, x, x, x, {.causal = true}), doctest::Contains("one token a step"),
                       tt::Error);
}
