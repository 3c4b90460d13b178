#include <tinytorch/pruning/lora.hpp>

#include <pruning/formats.hpp>
#include <tinytorch/layers/adam.hpp>

using namespace test;

namespace {

struct Net : tt::Module {
  tt::Linear hidden, out;
  explicit Net(uint64_t seed) : Net(tt::Generator(seed)) {}
  explicit Net(tt::Generator g) : hidden{6, 10, true, g}, out{10, 4, false, g} {
    add("hidden", hidden), add("out", out);
  }
  tt::Tensor forward(const tt::Tensor& x) override { return out(tt::relu(hidden(x))); }
};

tt::Tensor random(const tt::Shape& shape, uint64_t seed) {
  tt::Generator g(seed);
  return tt::randn(shape, tt::f32, tt::cpu, g).to(tt::default_device());
}
double largest_difference(const tt::Tensor& a, const tt::Tensor& b) {
  return tt::max(tt::abs(a.detach().to(tt::f64) - b.detach().to(tt::f64))).item<double>();
}
// Gives the zeros of B other values.
void fill_factors(tt::Module& model, uint64_t seed) {
  const tt::NoGrad no_grad;
  for (const tt::NamedTensor& p : tt::lora_parameters(model))
    tt::Tensor(p.tensor).copy_(random(p.tensor.shape(), seed++) * 0.3);
}
tt::DecoderConfig small_decoder() {
  tt::DecoderConfig c;
  c.vocabulary = 17, c.context = 12, c.features = 12, c.heads = 3, c.groups = 1, c.head_size = 4;
  c.layers = 2, c.hidden = 20, c.qkv_bias = true;
  return c;
}

}  // namespace

TEST_CASE("adapters begin as nothing, only they are trained, and merged weights compute the same") {
  Net net(1);
  const tt::Tensor x = random({9, 6}, 2), goal = random({9, 4}, 3);
  const tt::Tensor before = net(x).detach(), weight = net.hidden.weight.detach().clone();
  tt::Generator g(4);
  CHECK(tt::attach_lora(net, {.rank = 2, .alpha = 6, .targets = {"hidden"}}, g) == 1);
  CHECK(same_values(net(x).detach(), before));
  const tt::NamedTensors trained = tt::lora_parameters(net);
  REQUIRE(trained.size() == 2);
  CHECK(trained[0].name == "hidden.A0");
  CHECK(trained[0].tensor.shape() == tt::Shape{2, 6});
  CHECK(trained[1].tensor.shape() == tt::Shape{10, 2});
  tt::AdamW optimizer(trained, {.lr = 0.02});
  double first = 0, last = 0;
  for (int i = 0; i < 30; ++i) {
    optimizer.zero_grad();
    const tt::Tensor loss = tt::mse_loss(net(x), goal);
    loss.backward(), optimizer.step();
    last = loss.item<double>();
    if (i == 0) first = last;
  }
  CHECK(last < 0.95 * first);
  CHECK(same_values(net.hidden.weight.detach(), weight));
  const tt::Tensor adapted = net(x).detach();
  // W + (6 / 2) B A in double
  const tt::Tensor sum =
      weight.to(tt::f64) +
      tt::matmul(trained[1].tensor.detach().to(tt::f64), trained[0].tensor.detach().to(tt::f64)) * 3;
  CHECK(tt::merge_lora(net) == 1);
  CHECK(largest_difference(net.hidden.weight, sum) < 1e-6);
  CHECK(largest_difference(net(x), adapted) < 1e-5);
  CHECK_FALSE(net.hidden.replacement());
  for (const tt::NamedTensor& p : net.named_parameters()) CHECK(p.tensor.requires_grad());
}

TEST_CASE("q, k, v, gate and up of a packed matrix have adapters of their own") {
  tt::manual_seed(5);
  tt::Decoder model(small_decoder());
  model.eval();
  const tt::Tensor tokens =
      tt::from_data(std::vector<int64_t>{3, 1, 4, 1, 5, 9}, {1, 6}, tt::cpu).to(tt::default_device());
  const tt::Tensor before = model.forward(tokens).detach(),
                   qkv = model.blocks[1].attention.qkv.weight.detach().clone();
  CHECK(tt::attach_lora(model, {.rank = 2, .targets = {"q_proj", "v_proj", "layers.0.mlp.up_proj"}}) == 5);
  CHECK(same_values(model.forward(tokens).detach(), before));
  CHECK(tt::lora_parameters(model).size() == 10);
  fill_factors(model, 6);
  const tt::Tensor adapted = model.forward(tokens).detach();
  CHECK(largest_difference(adapted, before) > 1e-3);
  CHECK(tt::merge_lora(model) == 5);
  CHECK(largest_difference(model.forward(tokens), adapted) < 1e-4);
  const tt::Tensor merged = model.blocks[1].attention.qkv.weight.detach();
  CHECK(largest_difference(merged.slice(0, 0, 12), qkv.slice(0, 0, 12)) > 1e-3);
  CHECK(same_values(merged.slice(0, 12, 16), qkv.slice(0, 12, 16)));  // k has none
  CHECK(largest_difference(merged.slice(0, 16, 20), qkv.slice(0, 16, 20)) > 1e-3);
}

TEST_CASE("the fused MLP of GPT-2 calls its adapted layers, and is fused again afterwards") {
  tt::manual_seed(7);
  tt::Gpt2Config config;
  config.vocabulary = 11, config.context = 8, config.features = 8, config.heads = 2, config.layers = 1;
  tt::Gpt2 model(config);
  model.eval();
  const tt::Tensor tokens =
      tt::from_data(std::vector<int64_t>{1, 2, 3}, {1, 3}, tt::cpu).to(tt::default_device());
  const tt::Tensor before = model.forward(tokens).detach();
  CHECK(tt::attach_lora(model, {.rank = 1}) == 4);
  fill_factors(model, 8);
  CHECK(largest_difference(model.forward(tokens), before) > 1e-4);
  tt::drop_lora(model);
  CHECK(same_values(model.forward(tokens).detach(), before));
  CHECK_FALSE(model.blocks[0].mlp.replacement());
}

TEST_CASE("16-bit weights keep their dtype; dropout acts in training only; the scale may use the root of r") {
  Net net(9);
  net.to(tt::bf16);
  tt::attach_lora(net, {.rank = 4, .alpha = 8, .root_scaled = true, .dropout = 0.5});
  fill_factors(net, 10);
  const tt::Tensor x = random({3, 5, 6}, 11).to(tt::bf16);
  for (const tt::NamedTensor& p : tt::lora_parameters(net)) CHECK(p.tensor.dtype() == tt::bf16);
  CHECK_FALSE(same_values(net(x).detach(), net(x).detach()));
  net.eval();
  CHECK(same_values(net(x).detach(), net(x).detach()));
  CHECK(net(x).dtype() == tt::bf16);
  CHECK(net(x.slice(0, 0, 0)).shape() == tt::Shape{0, 5, 4});
  const tt::Tensor adapted = net(x).detach(), before = net.hidden.weight.detach().to(tt::f32);
  const auto part = std::dynamic_pointer_cast<tt::LoraLinear>(net.hidden.replacement())->parts()[0];
  CHECK(part.scale == doctest::Approx(4));
  tt::merge_lora(net);
  CHECK(net.hidden.weight.dtype() == tt::bf16);
  const tt::Tensor sum = before + tt::matmul(part.B.detach().to(tt::f32), part.A.detach().to(tt::f32)) * 4;
  CHECK(largest_difference(net.hidden.weight, sum) < 0.02);
  CHECK(largest_difference(net(x), adapted) < 0.3);
}

TEST_CASE("ranks and targets that do not fit are refused, and the model stays as it was") {
  Net net(12);
  const auto code = [](auto&& f) { return errors::thrown_by(f).code; };
  CHECK(code([&] { tt::attach_lora(net, {.rank = 0}); }) == "TT-PRUNE-07");
  CHECK(code([&] { tt::attach_lora(net, {.rank = 5}); }) == "TT-PRUNE-07");  // out has 4 rows
  CHECK(code([&] { tt::attach_lora(net, {.rank = 2, .targets = {"hidden", "nobody"}}); }) == "TT-PRUNE-09");
  CHECK(code([&] { tt::merge_lora(net); }) == "TT-PRUNE-09");
  CHECK_FALSE(net.hidden.replacement());
  CHECK(net.hidden.weight.requires_grad());
  tt::attach_lora(net, {.rank = 2});
  CHECK(code([&] { tt::attach_lora(net, {.rank = 2}); }) == "TT-PRUNE-09");
  CHECK(code([&] { tt::attach_lora(net, {.rank = 2, .dropout = 1}); }) == "TT-PRUNE-09");
  tt::drop_lora(net);
  CHECK(code([&] { tt::attach_lora(net, {.rank = 2, .dropout = 1}); }) == "TT-NN-16");
}
