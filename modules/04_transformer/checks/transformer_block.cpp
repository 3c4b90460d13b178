#include <tinytorch/transformer/block.hpp>

#include "layers.hpp"

using namespace course;

namespace {

using Block = TransformerBlock<LayerNorm, Mlp>;
constexpr double kEps = 1e-3;  // so large that a missing eps is found

}  // namespace

TEST_CASE("4.10 the sum of the residual stream, and its normalization") {
  const Shape shape{2, 3, 4};
  const Tensor residual = random_tensor(shape, f64), branch = random_tensor(shape, f64);
  LayerNorm layer(4, kEps);
  RMSNorm rms(4, kEps);
  randomize(layer), randomize(rms);
  const Numbers sum = plus(numbers_of(residual), numbers_of(branch));
  const NormalizedSum start = normalize(layer, ResidualStream{residual}, 0),
                      later = normalize(layer, ResidualStream{residual, branch}, 0);
  expect_close("normalize, no branch yet: the sum is the residual", start.sum, numbers_of(residual), shape);
  expect_close("normalize, no branch yet: the LayerNorm of the residual", start.normalized,
               norm_of(Parameters(layer), numbers_of(residual), kEps), shape, {.roundings = 100});
  expect_close("normalize: residual + branch", later.sum, sum, shape);
  expect_close("normalize: the LayerNorm of residual + branch", later.normalized,
               norm_of(Parameters(layer), sum, kEps), shape, {.roundings = 100});
  const NormalizedSum square = normalize(rms, ResidualStream{residual, branch}, 0);
  expect_close("normalize: the RMSNorm of residual + branch", square.normalized,
               norm_of(Parameters(rms), sum, kEps), shape, {.roundings = 100});
}

TEST_CASE("4.10 dropout acts on the branch, not on the residual") {
  const Tensor ones = full({1, 50, 4}, 1.0, f64), branch = full({1, 50, 4}, 8.0, f64);
  LayerNorm norm(4);
  norm.to(f64);
  int dropped = 0;
  for (const double x : numbers_of(normalize(norm, ResidualStream{ones, branch}, 0.5).sum)) {
    expect("residual 1, branch 8, dropout 0.5: the sum is 1 or 1 + 16", x == 1 || x == 17,
           "it is " + shown(x));
    dropped += x == 1 ? 1 : 0;
  }
  expect("of 200 values, dropout 0.5 drops about half", dropped > 50 && dropped < 150,
         "it dropped " + std::to_string(dropped));
}

TEST_CASE("4.10 x += attention(norm(x)), then x += mlp(norm(x))") {
  for (const HeadSizes& s : {HeadSizes{1, 1, 2, 1, 1, 2}, {2, 5, 6, 3, 3, 2}, {1, 4, 8, 4, 2, 2}}) {
    Block block({.features = s.C, .heads = s.H, .groups = s.G}, kEps, 0.0, s.C + 3);
    randomize(block);
    const Tensor x = random_tensor({s.B, s.T, s.C}, f64, 2);
    expect_close("TransformerBlock, " + s.str(), block(x),
                 block_of(Parameters(block), numbers_of(x), s, kEps), x.shape(), {.roundings = 1000});
  }
}

TEST_CASE("4.10 a block returns residual and branch, not yet added") {
  const HeadSizes s{2, 3, 4, 2, 2, 2};
  Block block({.features = 4, .heads = 2}, kEps, 0.0, 5);
  randomize(block);
  const Tensor residual = random_tensor({2, 3, 4}, f64), branch = random_tensor({2, 3, 4}, f64);
  const ResidualStream y = block.forward(ResidualStream{residual, branch}, SequencePlace{});
  const Numbers want = block_of(Parameters(block), plus(numbers_of(residual), numbers_of(branch)), s, kEps);
  expect_close("residual + branch of the result of forward(ResidualStream)", y.residual + y.branch, want,
               {2, 3, 4}, {.roundings = 1000});
}

TEST_CASE("4.10 blocks one after the other") {
  const HeadSizes s{1, 4, 4, 2, 2, 2};
  BlockStack<Block> stack;
  for (int i = 0; i < 3; ++i)
    stack.append(SelfAttentionOptions{.features = 4, .heads = 2, .layer = i}, kEps, 0.0, int64_t{6});
  randomize(stack);
  const Tensor x = random_tensor({1, 4, 4}, f64);
  Numbers want = numbers_of(x);
  for (const char* name : {"0", "1", "2"}) want = block_of(Parameters(stack).below(name), want, s, kEps);
  expect_close("a stack of three blocks", stack(x), want, {1, 4, 4}, {.roundings = 10000});
  const ResidualStream y = stack.forward(ResidualStream{x}, SequencePlace{});
  expect_close("a stack of three blocks, as a ResidualStream", y.residual + y.branch, want, {1, 4, 4},
               {.roundings = 10000});
}

TEST_CASE("4.10 a block whose branches end in zero changes nothing") {
  Block block({.features = 6, .heads = 2}, kEps, 0.0, 8);
  randomize(block);
  const NoGrad no_grad;
  for (Linear* last : {&block.attention.projection, &block.mlp.down})
    last->weight.fill_(0), last->bias.fill_(0);
  const Tensor x = random_tensor({2, 3, 6}, f64);
  expect("the residual stream passes through the block without the change of a bit",
         numbers_of(block(x)) == numbers_of(x), "is there a norm or a factor on the path of the residual?");
}

TEST_CASE("4.10 the future does not leak, and every parameter gets a gradient") {
  Block block({.features = 6, .heads = 2, .dropout = 0.1}, kEps, 0.1, 8);
  const Tensor x = random_tensor({2, 7, 6});
  (block(x) * random_tensor({2, 7, 6})).sum().backward();
  expect_gradients("TransformerBlock", block);
  expect("dropout in training: two forward passes differ", numbers_of(block(x)) != numbers_of(block(x)));
  block.eval();
  expect("no dropout in evaluation: two forward passes are equal",
         numbers_of(block(x)) == numbers_of(block(x)));
  const int64_t changed = static_cast<int64_t>(uniform(1, 7));
  Tensor other = x.clone();
  slice(other, 1, changed).fill_(9);
  expect("after eval(), tokens before position " + std::to_string(changed) +
             " if all from there on change: the same bits",
         numbers_of(slice(block(x), 1, 0, changed)) == numbers_of(slice(block(other), 1, 0, changed)));
}
