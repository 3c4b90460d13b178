#include <doctest/doctest.h>

#include <cmath>
#include <support/device.hpp>
#include <support/few.hpp>
#include <support/fresh.hpp>
#include <tinytorch/kv_cache/contiguous.hpp>
#include <tinytorch/quantization/model.hpp>
#include <tinytorch/transformer/generate.hpp>

using namespace tinytorch;

namespace {

Gpt2 small_gpt2(bool tied = true) {
  manual_seed(3);
  return Gpt2({.vocabulary = 96,
               .context = 32,
               .features = 64,
               .layers = 2,
               .heads = 4,
               .deviation = 0.2,
               .tied = tied});
}
Llama small_llama() {
  manual_seed(4);
  return Llama({.vocabulary = 96,
                .context = 32,
                .features = 64,
                .layers = 2,
                .heads = 4,
                .groups = 2,
                .hidden = 128,
                .deviation = 0.2});
}
double relative_error(const Tensor& got, const Tensor& want) {
  const Tensor d = got.to(DType::f64) - want.to(DType::f64), w = want.to(DType::f64);
  return std::sqrt(sum(d * d).item<double>() / sum(w * w).item<double>());
}
int64_t bytes_held() { return static_cast<int64_t>(allocator_stats().current); }

}  // namespace

TEST_CASE("a packed model computes what the model with the decoded weights computes" *
          test::long_on_emulator()) {
  const NoGrad no_grad;
  const auto check = [](auto&& make) {
    std::vector<BlockFormat> formats(block_formats().begin(), block_formats().end());
    formats.insert(formats.end(), code_formats().begin(), code_formats().end());
    std::erase_if(formats, [](const BlockFormat& f) { return 64 % f.block != 0; });
    for (const BlockFormat& f : test::some_of(formats, 3)) {
      CAPTURE(f.name);
      auto model = make(), decoded = make();
      model.eval(), decoded.eval();
      const QuantizationReport report =
          quantize(model, {.format = f.name, .head = f.name, .activations = Activations::floats});
      CHECK(report.layers.size() == 2 * 4 + 1);
      StateDict state;
      decoded.for_each_module([&](const std::string& path, Module& m) {
        if (auto* const layer = dynamic_cast<Linear*>(&m); layer && path != "head")
          layer->weight.copy_(quantize(layer->weight, f).dequantize());
      });
      const Tensor head = quantize(decoded.head_weight(), f).dequantize();
      decoded.own_head = std::make_shared<Linear>(64, 96, false);
      decoded.own_head->weight.copy_(head);
      const Tensor tokens = randint(0, 96, {2, 9}, DType::i64);
      CHECK(relative_error(model(tokens), decoded(tokens)) < 1e-5);
    }
  };
  check([] { return small_gpt2(); });
  check([] { return small_llama(); });
}

TEST_CASE("the report, the tree and the memory agree, and no float copy of a weight is alive") {
  const NoGrad no_grad;
  const int64_t nothing = bytes_held();
  Gpt2 model = small_gpt2(false);
  const QuantizationReport report = quantize(model, {.format = "Q4_0", .head = "Q8_0"});
  CHECK(report.bytes == quantization::bytes_of(model));
  if (default_device().is_cpu())
    CHECK(static_cast<double>(bytes_held() - nothing) <= 1.02 * static_cast<double>(report.bytes) + 64 * 60);
  int64_t packed = 0, numbers = 0;
  for (const QuantizedLayer& l : report.layers) {
    CHECK(l.sqnr > 15);
    if (l.path == "head") {
      CHECK(l.format == "Q8_0");
    } else {
      CHECK(l.format == "Q4_0");
      packed += l.bytes, numbers += l.shape.numel();
    }
  }
  CHECK(packed * 8 * 2 == numbers * 9);  // 4.5 bits
  const StateDict state = model.state_dict();
  CHECK(state.at("blocks.0.attention.qkv.weight").dtype() == DType::u8);
  CHECK(state.at("blocks.1.mlp.down.weight").shape() == Shape{64, 256 / 32 * 18});
  CHECK(state.at("head.weight").dtype() == DType::u8);
  CHECK(state.at("final_norm.weight").dtype() == DType::f32);
  CHECK(report.text().find("blocks.1.mlp.down") != std::string::npos);
  // A second call finds nothing left to pack.
  CHECK(quantize(model, {.format = "Q8_0"}).layers.empty());
}

TEST_CASE("a packed model writes the same text with a cache and without" * test::long_on_emulator()) {
  for (const bool llama : {false, true}) {
    const auto check = [](auto model) {
      model.eval();
      quantize(model, {.format = "Q8_0", .head = "Q8_0"});
      const std::vector<int32_t> prompt{1, 2, 3, 4, 5};
      GenerateOptions options{
          .max_tokens = 12, .sampling = {.temperature = 0}, .end_tokens = std::vector<int64_t>{}};
      options.cache = true;
      const auto with = generate(model, prompt, options).tokens;
      options.cache = false;
      CHECK(generate(model, prompt, options).tokens == with);
    };
    llama ? check(small_llama()) : check(small_gpt2());
  }
}

TEST_CASE("layers are chosen by path, and what cannot be packed is kept and named") {
  const NoGrad no_grad;
  Gpt2 model = small_gpt2();
  const auto choose = [](const std::string& path) {
    return path.ends_with("down") ? std::string("Q8_0") : std::string();
  };
  const QuantizationReport report = quantize(model, {.choose = choose});
  int64_t kept = 0;
  for (const QuantizedLayer& l : report.layers) {
    CHECK(l.format == (l.path.ends_with("down") ? "Q8_0" : ""));
    kept += l.format.empty();
  }
  CHECK(kept == 6);
  CHECK(model(randint(0, 96, {1, 4}, DType::i64)).shape() == Shape{1, 4, 96});
  Linear narrow(20, 8);
  struct Net : Module {
    explicit Net(Linear& l) { add("narrow", l); }
  } net(narrow);
  const QuantizationReport r = quantize(net, {.format = "Q4_0"});
  CHECK(r.layers.at(0).format.empty());
  CHECK(r.layers.at(0).why.find("32") != std::string::npos);
  CHECK(narrow(randn({3, 20})).shape() == Shape{3, 8});
  CHECK_THROWS_AS(quantize(net, {.head = "Q8_0"}), Error);
  CHECK_THROWS_AS(quantize(net, {.format = "Q3_9"}), Error);
}
