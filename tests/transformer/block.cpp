#include <tinytorch/transformer/block.hpp>

#include <tinytorch/tinytorch.hpp>

#include <support/errors.hpp>
#include <support/values.hpp>

namespace tt = tinytorch;

namespace {

using Gpt2Block = tt::TransformerBlock<tt::LayerNorm, tt::Mlp>;
using LlamaBlock = tt::TransformerBlock<tt::RMSNorm, tt::SwiGlu>;
const tt::SelfAttentionOptions kAttention{.features = 12, .heads = 3};

tt::Tensor input() {
  tt::Generator g(12);
  return tt::randn({2, 5, 12}, tt::f32, tt::default_device(), g);
}
template <class Block>
tt::Tensor by_hand(Block& block, const tt::Tensor& x) {
  const tt::Tensor h = x + block.attention(block.attention_norm(x));
  return h + block.mlp(block.mlp_norm(h));
}

}  // namespace

TEST_CASE("a block is x + attention(norm(x)), then x + mlp(norm(x))") {
  tt::manual_seed(1);
  Gpt2Block gpt2(kAttention, 1e-5, 0.0, 20, tt::Activation::gelu);
  LlamaBlock llama(kAttention, 1e-6, 0.0, 20);
  check_values(gpt2(input()).to_vector<double>(), by_hand(gpt2, input()).to_vector<double>(), 1e-5);
  check_values(llama(input()).to_vector<double>(), by_hand(llama, input()).to_vector<double>(), 1e-5);
}

TEST_CASE("a BlockStack that fuses residual sums with norms equals its blocks applied one by one") {
  tt::manual_seed(2);
  tt::BlockStack<Gpt2Block> stack;
  for (int i = 0; i < 3; ++i) stack.append(kAttention, 1e-5, 0.0, 20);
  tt::LayerNorm last(12);
  const tt::ResidualStream stream = stack.forward(tt::ResidualStream{input()}, {});
  const tt::Tensor expected = by_hand(stack[2], by_hand(stack[1], by_hand(stack[0], input())));
  check_values(tt::normalize(last, stream, 0).sum.to_vector<double>(), expected.to_vector<double>(), 1e-5);
  check_values(tt::normalize(last, stream, 0).normalized.to_vector<double>(),
               last(expected).to_vector<double>(), 1e-5);
  check_values(stack(input()).to_vector<double>(), expected.to_vector<double>(), 1e-5);
  CHECK(stack.size() == 3);
  CHECK(errors::thrown_by([&] { stack[3]; }).code == "TT-NN-06");
  CHECK(stack.named_parameters()[0].name == "0.attention_norm.weight");
}

TEST_CASE("branch dropout is applied in training only, and every parameter gets a gradient") {
  tt::manual_seed(3);
  LlamaBlock block(kAttention, 1e-6, 0.3, 20);
  CHECK(block(input()).to_vector() != block(input()).to_vector());
  tt::sum(tt::square(block(input()))).backward();
  for (const tt::NamedTensor& p : block.named_parameters()) {
    CAPTURE(p.name);
    CHECK(tt::max(tt::abs(p.tensor.grad())).item() > 0);
  }
  block.eval();
  CHECK(block(input()).to_vector() == block(input()).to_vector());
}

TEST_CASE("branches with zero weights leave the residual stream unchanged") {
  tt::manual_seed(4);
  Gpt2Block block(kAttention, 1e-5, 0.0, 20);
  for (tt::Linear* last : {&block.attention.projection, &block.mlp.down}) {
    tt::init::constant(last->weight, 0);
    tt::init::constant(last->bias, 0);
  }
  CHECK(block(input()).to_vector() == input().to_vector());
}
