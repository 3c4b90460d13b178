#include <tinytorch/transformer/attention.hpp>

#include "growing_cache.hpp"
#include "layers.hpp"

using namespace course;

namespace {

SelfAttentionOptions options_of(const HeadSizes& s) {
  return {.features = s.C, .heads = s.H, .groups = s.G, .head_size = s.D};
}

void check(const HeadSizes& s, SelfAttentionOptions options, double theta = 0) {
  if (theta > 0) options.rotary = std::make_shared<Rotary>(s.D, RotaryOptions{.theta = theta});
  SelfAttention layer(options);
  randomize(layer);
  const Tensor x = random_tensor({s.B, s.T, s.C}, f64);
  const Numbers want = self_attention_of(Parameters(layer), numbers_of(x), s,
                                         {.causal = options.causal, .window = options.window}, theta);
  std::string what = "SelfAttention, " + s.str() + (options.causal ? ", causal" : "") +
                     (options.bias ? "" : ", without bias");
  if (theta > 0) what += ", rotary positions";
  // Rotary tables are in f32, so the tolerance is larger.
  expect_close(what, layer(x), want, {s.B, s.T, s.C}, {.roundings = theta > 0 ? 1e9 : 200});
}

}  // namespace

TEST_CASE("4.8 one head") { check({1, 3, 4, 1, 1, 4}, {.features = 4, .heads = 1, .causal = false}); }

TEST_CASE("4.8 each head attends with its own part of a token") {
  check({1, 3, 4, 2, 2, 2}, {.features = 4, .heads = 2});
  check({2, 5, 6, 3, 3, 2}, {.features = 6, .heads = 3});
  check({2, 5, 6, 3, 3, 2}, {.features = 6, .heads = 3, .causal = false, .bias = false});
  check({1, 7, 5, 2, 2, 3}, {.features = 5, .heads = 2, .head_size = 3});
}

TEST_CASE("4.8 groups of heads share keys and values") {
  for (const HeadSizes& s : {HeadSizes{1, 4, 4, 4, 2, 1}, {2, 5, 8, 4, 2, 2}, {1, 5, 6, 3, 1, 4}})
    check(s, options_of(s));
}

TEST_CASE("4.8 a head does not depend on the other heads") {
  // If the weights of head 1 of 3 change, only the middle third of the projection's input may change.
  SelfAttention layer({.features = 6, .heads = 3});
  randomize(layer);
  const NoGrad no_grad;
  layer.projection.weight.copy_(eye(6, f64)), layer.projection.bias.fill_(0);
  const Tensor x = random_tensor({2, 4, 6}, f64);
  const Tensor before = layer(x).clone();
  slice(layer.qkv.weight, 0, 2, 4).fill_(0.3), slice(layer.qkv.weight, 0, 8, 10).fill_(-0.7);
  const Tensor after = layer(x);
  for (const int64_t head : {0, 2}) {
    expect("other queries and keys for head 1 of 3: head " + std::to_string(head) + " keeps its bits",
           numbers_of(slice(before, -1, 2 * head, 2 * head + 2)) ==
               numbers_of(slice(after, -1, 2 * head, 2 * head + 2)));
  }
}

TEST_CASE("4.8 permuting the heads and the projection's columns keeps the result") {
  SelfAttention a({.features = 6, .heads = 3}), b({.features = 6, .heads = 3});
  randomize(a), randomize(b);
  const NoGrad no_grad;
  const int64_t order[] = {2, 0, 1};
  b.projection.bias.copy_(a.projection.bias);
  for (int64_t h = 0; h < 3; ++h) {
    for (int64_t part = 0; part < 3; ++part) {
      const int64_t to = part * 6 + h * 2, from = part * 6 + order[h] * 2;
      slice(b.qkv.weight, 0, to, to + 2).copy_(slice(a.qkv.weight, 0, from, from + 2));
      slice(b.qkv.bias, 0, to, to + 2).copy_(slice(a.qkv.bias, 0, from, from + 2));
    }
    slice(b.projection.weight, 1, h * 2, h * 2 + 2)
        .copy_(slice(a.projection.weight, 1, order[h] * 2, order[h] * 2 + 2));
  }
  const Tensor x = random_tensor({2, 5, 6}, f64);
  expect_close("heads in the order 2, 0, 1, and the projection's columns with them: the same result", b(x),
               numbers_of(a(x)), {2, 5, 6}, {.roundings = 200});
}

TEST_CASE("4.8 the future does not leak: not a bit changes when a later token does") {
  SelfAttention layer({.features = 6, .heads = 3});
  const NoGrad no_grad;
  const int64_t changed = static_cast<int64_t>(uniform(1, 7));
  const Tensor x = random_tensor({2, 7, 6});
  Tensor other = x.clone();
  slice(other, 1, changed).fill_(9);
  expect("tokens before position " + std::to_string(changed) + " if all from there on change: the same bits",
         numbers_of(slice(layer(x), 1, 0, changed)) == numbers_of(slice(layer(other), 1, 0, changed)));
}

TEST_CASE("4.8 rotary positions rotate queries and keys, not values") {
  check({2, 5, 8, 2, 2, 4}, {.features = 8, .heads = 2}, 100);
  check({1, 6, 8, 4, 2, 2}, {.features = 8, .heads = 4, .groups = 2}, 10000);
}

TEST_CASE("4.8 with a cache, token by token gives the same as all at once") {
  for (const bool turns : {false, true}) {
    SelfAttentionOptions options{.features = 8, .heads = 4, .groups = 2, .layer = 1};
    if (turns) options.rotary = std::make_shared<Rotary>(2);
    SelfAttention layer(options);
    randomize(layer);
    const NoGrad no_grad;
    const Tensor x = random_tensor({2, 6, 8}, f64);
    GrowingCache cache;
    Tensors parts;
    for (const auto& [from, to] : {std::pair<int64_t, int64_t>{0, 3}, {3, 4}, {4, 6}}) {
      parts.push_back(layer.forward(slice(x, 1, from, to), SequencePlace::after(&cache)));
      cache.held = to;
    }
    expect("layer 1 appends to its own entry of the cache",
           cache.layers[1].keys.defined() && !cache.layers[0].keys.defined());
    expect_close(std::string("tokens 0 to 2, then 3, then 4 and 5, with a cache") +
                     (turns ? " and rotary positions" : ""),
                 cat(parts, 1), numbers_of(layer(x)), {2, 6, 8}, {.roundings = 200});
  }
}

TEST_CASE("4.8 every parameter gets a gradient, and dropout acts in training only") {
  SelfAttention layer({.features = 6, .heads = 2, .dropout = 0.5});
  randomize(layer);
  const Tensor x = random_tensor({2, 5, 6}, f64);
  (layer(x) * random_tensor({2, 5, 6}, f64)).sum().backward();
  expect_gradients("SelfAttention", layer);
  expect("dropout 0.5 in training: two forward passes differ", numbers_of(layer(x)) != numbers_of(layer(x)));
  layer.eval();
  expect("after eval(): two forward passes are equal", numbers_of(layer(x)) == numbers_of(layer(x)));
}
