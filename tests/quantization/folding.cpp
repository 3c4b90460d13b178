#include <tinytorch/quantization/folding.hpp>

#include <doctest/doctest.h>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
namespace q = tinytorch::quantization;

namespace {

// The largest change of an output if the makers of a layer are divided by s and its weight is multiplied by
// s, relative to the largest output.
template <class Model>
double change(Model& model, tt::Linear& layer, const tt::Tensor& input) {
  const tt::NoGrad no_grad;
  model.eval();
  const tt::Tensor before = model(input);
  q::separate_mlps(model);
  const q::InputMakers makers = q::input_makers(model);
  REQUIRE(makers.count(&layer) == 1);
  const tt::Tensor s = tt::exp(tt::randn({layer.weight.size(1)}, tt::f32, tt::cpu));
  tt::fold_scales_(makers.at(&layer), {layer.weight}, s);
  return tt::max(tt::abs(model(input) - before)).template item<double>() /
         tt::max(tt::abs(before)).template item<double>();
}
tt::Gpt2 gpt2(tt::Activation fn) {
  return tt::Gpt2({.vocabulary = 40,
                   .context = 8,
                   .features = 24,
                   .layers = 2,
                   .heads = 3,
                   .activation = fn,
                   .deviation = 0.3,
                   .tied = false});
}
tt::Llama llama(int64_t groups) {
  return tt::Llama({.vocabulary = 40,
                    .context = 8,
                    .features = 24,
                    .layers = 2,
                    .heads = 4,
                    .groups = groups,
                    .hidden = 20,
                    .attention_bias = true,
                    .mlp_bias = true,
                    .deviation = 0.3});
}

}  // namespace

TEST_CASE("the makers of a layer take its scales over, in each known tree") {
  tt::manual_seed(8);
  const tt::Tensor ids = tt::randint(0, 40, {2, 8}, tt::i64, tt::cpu);
  tt::Gpt2 relu = gpt2(tt::Activation::relu), gelu = gpt2(tt::Activation::gelu);
  for (tt::Gpt2* const m : {&relu, &gelu}) {
    CHECK(change(*m, m->blocks[1].attention.qkv, ids) < 1e-5);
    CHECK(change(*m, m->blocks[0].attention.projection, ids) < 1e-5);
    CHECK(change(*m, m->blocks[1].mlp.up, ids) < 1e-5);
    CHECK(change(*m, *m->own_head, ids) < 1e-5);
  }
  CHECK(change(relu, relu.blocks[0].mlp.down, ids) < 1e-5);
  CHECK(q::input_makers(gelu).count(&gelu.blocks[0].mlp.down) == 0);
  tt::Llama heads = llama(4), groups = llama(2);
  for (tt::Llama* const m : {&heads, &groups}) {
    CHECK(change(*m, m->blocks[1].attention.qkv, ids) < 1e-5);
    CHECK(change(*m, m->blocks[0].mlp.gate_up, ids) < 1e-5);
    CHECK(change(*m, m->blocks[1].mlp.down, ids) < 1e-5);
    CHECK(change(*m, *m->own_head, ids) < 1e-5);
  }
  CHECK(change(heads, heads.blocks[1].attention.projection, ids) < 1e-5);
  CHECK(q::input_makers(groups).count(&groups.blocks[1].attention.projection) == 0);
}

TEST_CASE("an MLP on its own, and layers that nobody is known to make inputs for") {
  tt::manual_seed(9);
  tt::Mlp mlp(12, 20, tt::Activation::relu);
  struct Holder : tt::Module {
    tt::Mlp& mlp;
    explicit Holder(tt::Mlp& m) : mlp(m) { add("mlp", m); }
    tt::Tensor forward(const tt::Tensor& x) override { return mlp(x); }
  } holder(mlp);
  CHECK(q::input_makers(holder).count(&mlp.down) == 1);        // as one op
  CHECK(change(holder, mlp.down, tt::randn({5, 12})) < 1e-5);  // and as two
  CHECK(q::input_makers(holder).count(&mlp.up) == 0);
}

TEST_CASE("an MLP of two calls computes what the fused one computes, for each activation") {
  for (const tt::Activation fn : {tt::Activation::none, tt::Activation::relu, tt::Activation::silu,
                                  tt::Activation::gelu, tt::Activation::gelu_tanh}) {
    tt::manual_seed(10);
    tt::Mlp mlp(7, 11, fn);
    const tt::Tensor x = tt::randn({3, 7}), fused = mlp(x);
    struct Holder : tt::Module {
      explicit Holder(tt::Mlp& m) { add("mlp", m); }
    } holder(mlp);
    q::separate_mlps(holder);
    CHECK(tt::max(tt::abs(mlp(x) - fused)).item<double>() < 1e-5);
    std::vector<std::string> paths;
    holder.for_each_module([&](const std::string& path, tt::Module&) { paths.push_back(path); });
    CHECK(paths == std::vector<std::string>{"", "mlp", "mlp.up", "mlp.down"});
  }
}
