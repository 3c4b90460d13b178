#include <tinytorch/pruning/shrink.hpp>

#include <pruning/formats.hpp>

#include <tinytorch/kv_cache/contiguous.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/batch_norm.hpp>
#include <tinytorch/layers/conv2d.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/transformer/decoder.hpp>
#include <tinytorch/transformer/gpt2.hpp>

using namespace test;

namespace {

// conv -> bn -> relu -> (conv -> bn) + shortcut -> relu -> pool -> flatten -> linear
struct Residual : tt::Module {
  tt::Generator g{3};
  tt::Conv2d stem{3, 16, 3, {.padding = 1}, false, g}, a{16, 24, 3, {.padding = 1}, true, g},
      b{24, 16, 3, {.padding = 1}, true, g};
  tt::BatchNorm2d stem_norm{16}, a_norm{24}, b_norm{16};
  tt::Linear head{16 * 4, 5, true, g};
  Residual() {
    add("stem", stem), add("a", a), add("b", b), add("stem_norm", stem_norm), add("a_norm", a_norm);
    add("b_norm", b_norm), add("head", head);
  }
  tt::Tensor forward(const tt::Tensor& x) override {
    const tt::Tensor y = tt::relu(stem_norm(stem(x)));
    const tt::Tensor z = tt::relu(b_norm(b(tt::relu(a_norm(a(y))))) + y);
    const tt::Tensor p = tt::avg_pool2d(z, {.kernel = 4});
    return head(p.reshape({p.size(0), p.numel() / p.size(0)}));
  }
};

// Two branches are joined along channels, and sigmoid(0) is not 0.
struct Concat : tt::Module {
  tt::Generator g{4};
  tt::Conv2d left{3, 8, 1, {}, true, g}, right{3, 16, 3, {.padding = 1}, true, g},
      mix{24, 16, 1, {}, true, g}, out{16, 2, 8, {}, true, g};
  Concat() { add("left", left), add("right", right), add("mix", mix), add("out", out); }
  tt::Tensor forward(const tt::Tensor& x) override {
    return out(tt::sigmoid(mix(tt::sigmoid(tt::cat({left(x), right(x)}, 1)))));
  }
};

// Attention with 8 heads of 4, of which two share keys and values, then an MLP; the stream x + ... stays as
// wide as x.
struct Attention : tt::Module {
  tt::Generator g{5};
  tt::Linear q{16, 32, true, g}, k{16, 16, false, g}, v{16, 16, true, g}, proj{32, 16, true, g},
      up{16, 40, true, g}, down{40, 16, true, g};
  Attention() { add("q", q), add("k", k), add("v", v), add("proj", proj), add("up", up), add("down", down); }
  static tt::Tensor heads(const tt::Tensor& x) {
    return x.reshape({x.size(0), x.size(1), x.size(2) / 4, 4}).transpose(1, 2);
  }
  tt::Tensor forward(const tt::Tensor& x) override {
    const tt::Tensor y =
        tt::scaled_dot_product_attention(heads(q(x)), heads(k(x)), heads(v(x))).transpose(1, 2);
    const tt::Tensor z = x + proj(y.reshape({x.size(0), x.size(1), y.size(2) * 4}));
    return z + down(tt::gelu(up(z)));
  }
};

// GPT-2 with 4 heads of 4 and a hidden width of 40.
struct SmallGpt2 : tt::Gpt2 {
  static tt::Gpt2Config sizes() {
    tt::Gpt2Config c;
    c.vocabulary = 30, c.context = 12, c.features = 16, c.layers = 2, c.heads = 4, c.hidden = 40;
    c.deviation = 0.3;
    return c;
  }
  SmallGpt2() : tt::Gpt2((tt::manual_seed(6), sizes())) {}
};
// 8 heads of 4, of which two share keys and values; rotary positions and a gated MLP.
struct SmallLlama : tt::Llama {
  template <class Config = tt::LlamaConfig>
  static Config sizes() {
    Config c;
    c.vocabulary = 30, c.context = 12, c.features = 16, c.layers = 2, c.heads = 8, c.groups = 4;
    c.head_size = 4, c.hidden = 40, c.deviation = 0.3;
    return c;
  }
  SmallLlama() : tt::Llama((tt::manual_seed(7), sizes())) {}
};
struct SmallDecoder : tt::Decoder {
  SmallDecoder() : tt::Decoder((tt::manual_seed(7), SmallLlama::sizes<tt::DecoderConfig>())) {}
};

tt::Tensor tokens(int64_t B, int64_t T) {
  tt::Generator g(10);
  return tt::randint(0, 30, {B, T}, tt::i64, tt::default_device(), g);
}

// Random statistics and norms, so that channels differ.
void stir(tt::Module& net) {
  const tt::NoGrad no_grad;
  tt::Generator g(8);
  for (const tt::NamedTensor& t : net.named_buffers())
    if (t.tensor.rank() == 1)
      tt::Tensor(t.tensor).copy_(tt::rand(t.tensor.shape(), tt::f32, tt::cpu, g) + 0.5);
  for (const tt::NamedTensor& t : net.named_parameters())
    if (t.tensor.rank() == 1) tt::Tensor(t.tensor).copy_(tt::randn(t.tensor.shape(), tt::f32, tt::cpu, g));
  net.eval();
}

tt::Tensor input(const tt::Shape& shape) {
  tt::Generator g(9);
  return tt::randn(shape, tt::f32, tt::cpu, g);
}

// Masks one model and shrinks an equal one; returns the largest difference of their outputs.
template <class Net>
double difference(const tt::Tensor& x, const tt::ShrinkOptions& o, int64_t& numbers) {
  Net masked, small;
  stir(masked), stir(small);
  const tt::NoGrad no_grad;
  const tt::Tensor before = masked(x);
  const tt::ShrinkPlan plan = tt::plan_shrink(masked, x, o);
  CHECK(plan.groups_removed > 0);
  tt::mask_channels(masked, plan);
  tt::shrink(small, plan);
  numbers = small.parameter_count();
  CHECK(numbers < masked.parameter_count());
  const tt::Tensor y = masked(x), z = small(x);
  CHECK(tt::max(tt::abs(y - before)).item<double>() > 1e-3);  // something was removed
  return tt::max(tt::abs(z - y)).item<double>() / tt::max(tt::abs(y)).item<double>();
}

}  // namespace

TEST_CASE("the masked net equals the shrunk net: residual, concatenation, attention with shared keys") {
  int64_t numbers = 0;
  CHECK(difference<Residual>(input({2, 3, 8, 8}), {.sparsity = 0.4, .multiple = 1}, numbers) < 1e-6);
  CHECK(difference<Concat>(input({2, 3, 8, 8}), {.sparsity = 0.5, .multiple = 1}, numbers) < 1e-6);
  CHECK(difference<Attention>(input({2, 6, 16}), {.sparsity = 0.5}, numbers) < 1e-6);
  // 2 of 4 groups of heads and 24 of 40 hidden features stay.
  CHECK(numbers == 16 * 16 + 16 + 8 * 16 + 8 * 16 + 8 + 16 * 16 + 16 + 24 * 16 + 24 + 24 * 16 + 16);
}

TEST_CASE(
    "heads and hidden features of language models: the masked net equals the shrunk net, also by a cache") {
  const auto check = [&](auto make, int64_t qkv_rows, int64_t projection_columns, int64_t groups) {
    using Net = decltype(make());
    int64_t numbers = 0;
    const tt::Tensor x = tokens(2, 7);
    CHECK(difference<Net>(x, {.sparsity = 0.5}, numbers) < 1e-6);
    Net net;
    stir(net);
    const tt::NoGrad no_grad;
    const tt::ShrinkPlan plan = tt::plan_shrink(net, x, {.sparsity = 0.5});
    tt::shrink(net, plan);
    for (const auto& block : net.blocks) {
      CHECK(block.attention.qkv.weight.shape() == tt::Shape{qkv_rows, 16});
      CHECK(block.attention.projection.weight.shape() == tt::Shape{16, projection_columns});
      CHECK(block.mlp.down.weight.shape() == tt::Shape{16, 24});  // 24 of 40
    }
    CHECK(net.token_embedding.weight.shape() == tt::Shape{30, 16});
    // Removed heads are whole: D rows each of queries, keys and values.
    for (const auto& [name, dims] : plan.removed)
      if (name.ends_with("qkv.weight")) CHECK(dims.at(0).size() % 4 == 0);
    // Token by token through a cache of the new size: the logits of the whole text.
    CHECK(net.kv_shape().groups == groups);
    tt::ContiguousCache cache(net.kv_shape(), {.sequences = 2, .capacity = 12});
    const tt::Tensor whole = net(x);
    for (int64_t t = 0; t < 7; ++t) {
      const tt::Tensor step = net.forward(x.slice(1, t, t + 1).contiguous(), &cache);
      CHECK(tt::max(tt::abs(step - whole.slice(1, t, t + 1))).template item<double>() < 1e-4);
    }
  };
  check([] { return SmallGpt2(); }, 3 * 2 * 4, 2 * 4, 2);
  // 2 of 4 groups stay: 4 heads of queries, 2 of keys, 2 of values.
  check([] { return SmallLlama(); }, (4 + 2 * 2) * 4, 4 * 4, 2);
  check([] { return SmallDecoder(); }, (4 + 2 * 2) * 4, 4 * 4, 2);
}

TEST_CASE("layers with different numbers of heads run, and a cache for them is refused") {
  SmallGpt2 net;
  stir(net);
  const tt::Tensor x = tokens(1, 5);
  tt::shrink(net, tt::plan_shrink(net, x, {.sparsity = 0.5, .choose = [](const std::set<std::string>& names) {
                                             return names.count("blocks.1.attention.qkv.weight") > 0;
                                           }}));
  CHECK(net.blocks[0].attention.qkv.weight.size(0) == 48);
  CHECK(net.blocks[1].attention.qkv.weight.size(0) == 24);
  CHECK(net(x).shape() == tt::Shape{1, 5, 30});
  CHECK(errors::thrown_by([&] { (void)net.kv_shape(); }).code == "TT-KV-01");
}

TEST_CASE("training goes on after heads are removed: gradients and moments have the new shapes") {
  SmallGpt2 net;
  stir(net);
  tt::AdamW optimizer(net.named_parameters(), {.lr = 0.01});
  const tt::Tensor x = tokens(2, 6);
  const auto step = [&] {
    optimizer.zero_grad();
    const tt::Tensor loss = net.loss(x, x);
    loss.backward();
    optimizer.step();
    return loss.item<double>();
  };
  step();
  const tt::ShrinkPlan plan = tt::plan_shrink(net, x, {.sparsity = 0.5});
  tt::shrink(net, plan, &optimizer);
  for (const auto& [key, tensor] : optimizer.state_dict())
    if (key.starts_with("blocks.0.attention.qkv.weight.") && tensor.rank() == 2)
      CHECK(tensor.shape() == tt::Shape{24, 16});
  const double first = step();
  for (int i = 0; i < 10; ++i) step();
  CHECK(step() < first);
  CHECK(net.blocks[0].attention.qkv.weight.grad().shape() == tt::Shape{24, 16});
}

TEST_CASE("channels that stay are a multiple; a shortcut's channels go together with all that add to it") {
  Residual net;
  stir(net);
  const tt::ShrinkPlan plan = tt::plan_shrink(net, input({2, 3, 8, 8}), {.sparsity = 0.45});
  CHECK(plan.unknown_ops.empty());
  CHECK(plan.removed.at("a.weight").at(0).size() == 8);  // 24 - 13 is rounded up to 16
  CHECK(plan.removed.count("stem.weight") == 0);         // 16 - 7 is rounded up to 16
  const tt::ShrinkPlan exact = tt::plan_shrink(net, input({2, 3, 8, 8}), {.sparsity = 0.25, .multiple = 1});
  const std::vector<int64_t>& stream = exact.removed.at("stem.weight").at(0);
  CHECK(stream.size() == 4);
  CHECK(exact.removed.at("b.weight").at(0) == stream);
  CHECK(exact.removed.at("b_norm.running_mean").at(0) == stream);
  CHECK(exact.removed.at("a.weight").at(1) == stream);
  CHECK(exact.removed.at("head.weight").at(1).size() == 16);
  CHECK(exact.removed.at("head.weight").count(0) == 0);
  CHECK(exact.removed.at("stem.weight").count(1) == 0);
  const tt::ShrinkPlan chosen =
      tt::plan_shrink(net, input({2, 3, 8, 8}),
                      {.sparsity = 0.25, .multiple = 1, .choose = [](const std::set<std::string>& names) {
                         return names.count("stem.weight") == 0;
                       }});
  CHECK(chosen.removed.count("stem.weight") == 0);
  CHECK(chosen.removed.at("a.weight").at(0).size() == 6);
}

TEST_CASE("the state of the optimizer follows: further steps equal those of the masked net") {
  for (const bool narrow : {false, true}) {
    Attention masked, small;
    if (narrow) masked.to(tt::bf16), small.to(tt::bf16);
    tt::AdamW a(masked.named_parameters(), {.lr = 0.01}), b(small.named_parameters(), {.lr = 0.01});
    const tt::Tensor x = input({2, 6, 16}).to(narrow ? tt::bf16 : tt::f32);
    const auto train = [&](tt::Module& net, tt::Optimizer& optimizer) {
      optimizer.zero_grad();
      tt::mean(tt::square(net(x) - 1)).backward();
      optimizer.step();
    };
    for (int i = 0; i < 3; ++i) train(masked, a), train(small, b);
    const tt::ShrinkPlan plan = tt::plan_shrink(masked, x, {.sparsity = 0.5});
    tt::shrink(small, plan, &b);
    for (const auto& [name, tensor] : b.state_dict())
      if (name.starts_with("up.weight.") && tensor.rank() == 2) CHECK(tensor.shape() == tt::Shape{24, 16});
    CHECK(b.state_dict().count("up.weight.master") == (narrow ? 1u : 0u));
    // Every tensor of the state is the one of the unpruned net without the removed indices.
    for (const auto& [key, tensor] : a.state_dict()) {
      const auto dims = plan.removed.find(key.substr(0, key.rfind('.')));
      const bool follows = dims != plan.removed.end() && tensor.rank() > 0;
      CHECK(
          same_values(b.state_dict().at(key), follows ? tt::pruning::without(tensor, dims->second) : tensor));
    }
    train(small, b);
    CHECK(small.up.weight.shape() == tt::Shape{24, 16});
    CHECK(small.up.weight.grad().shape() == tt::Shape{24, 16});
    CHECK(b.state_dict().at("up.weight.step").item<int64_t>() == 4);
  }
}

TEST_CASE("plans that would remove everything, or do not fit, are refused") {
  const auto code = [](auto&& f) { return errors::thrown_by(f).code; };
  Concat net;
  const tt::Tensor x = input({1, 3, 8, 8});
  CHECK(code([&] { tt::plan_shrink(net, x, {.sparsity = 1}); }) == "TT-PRUNE-02");
  CHECK(code([&] { tt::plan_shrink(net, x, {.sparsity = 0.97, .multiple = 1}); }) == "TT-PRUNE-04");
  const tt::ShrinkPlan plan = tt::plan_shrink(net, x, {.sparsity = 0.5});
  tt::shrink(net, plan);
  CHECK(code([&] { tt::shrink(net, plan); }) == "TT-PRUNE-03");
  // All heads of a layer: the message names its weight.
  SmallGpt2 gpt2;
  const auto error = errors::thrown_by([&] { tt::plan_shrink(gpt2, tokens(1, 2), {.sparsity = 0.97}); });
  CHECK(error.code == "TT-PRUNE-04");
  CHECK(error.text.find("blocks.0.attention") != std::string::npos);
}
