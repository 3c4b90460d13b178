#include <doctest/doctest.h>

#include <support/device.hpp>
#include <support/fresh.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <tinytorch/quantization/linear.hpp>

using namespace tinytorch;

namespace {

struct Net : Module {
  Linear first{64, 32}, second{32, 3};
  Net() { add("first", first), add("second", second); }
  Tensor forward(const Tensor& x) override { return second(relu(first(x))); }
};

}  // namespace

TEST_CASE("a packed layer stands in the place of the layer: in calls, in the tree, and in modes") {
  const NoGrad no_grad;
  Net net;
  const Tensor x = randn({5, 64}), weight = net.first.weight.clone(), bias = net.first.bias.clone();
  const QuantizedTensor packed = quantize(weight, "Q8_0");
  pack_linear(net.first, block_format("Q8_0"));
  CHECK(equal(net.first(x), linear(x, packed, bias)));
  CHECK(equal(net(x), net.second(relu(linear(x, packed, bias)))));
  const StateDict state = net.state_dict();
  CHECK(state.size() == 4);
  CHECK(state.at("first.weight").dtype() == DType::u8);
  CHECK(state.at("first.weight").shape() == Shape{32, 64 / 32 * 34});
  CHECK(equal(state.at("first.bias"), bias));
  CHECK(net.parameter_count() == 32 * 3 + 3);  // a packed weight is not trained
  CHECK(!net.first.weight.defined());
  std::vector<std::string> paths;
  net.for_each_module([&](const std::string& path, Module& m) {
    paths.push_back(path);
    if (path == "first") CHECK(dynamic_cast<QuantizedLinear*>(&m) != nullptr);
  });
  CHECK(paths == std::vector<std::string>{"", "first", "second"});
  net.eval();
  CHECK(!net.first.replacement()->training());
  // Conversion to another dtype leaves the codes alone.
  net.to(DType::bf16);
  CHECK(net.state_dict().at("first.weight").dtype() == DType::u8);
  CHECK(net.state_dict().at("first.bias").dtype() == DType::bf16);
  CHECK(net(x.to(DType::bf16)).dtype() == DType::bf16);
}

TEST_CASE("a state of packed layers is loaded into another model of the same packing") {
  const NoGrad no_grad;
  Net a, b;
  const Tensor x = randn({5, 64});
  for (Net* net : {&a, &b}) pack_linear(net->first, block_format("Q4_0"));
  CHECK(!equal(a(x), b(x)));
  b.load_state_dict(a.state_dict());
  CHECK(equal(a(x), b(x)));
  Net c;
  pack_linear(c.first, block_format("Q8_0"));
  CHECK_THROWS_AS(c.load_state_dict(a.state_dict()), Error);
}

TEST_CASE("scales beside the codes are part of the state, and stay f32 in a model of another dtype") {
  const NoGrad no_grad;
  const Tensor x = randn({5, 64});
  for (const char* format : {"I8_zero", "F8_E4M3_tensor"}) {
    Net a, b;
    for (Net* net : {&a, &b}) pack_linear(net->first, block_format(format));
    const StateDict state = a.state_dict();
    const bool zeros = block_format(format).zero_points;
    CHECK(state.size() == (zeros ? 6u : 5u));
    CHECK(state.at("first.scales").dtype() == DType::f32);
    CHECK(state.count("first.zero_points") == (zeros ? 1u : 0u));
    CHECK(!equal(a(x), b(x)));
    b.load_state_dict(state);
    CHECK(equal(a(x), b(x)));
    const Tensor before = state.at("first.scales").clone();
    a.to(DType::bf16);
    CHECK(a.state_dict().at("first.scales").dtype() == DType::f32);
    CHECK(equal(a.state_dict().at("first.scales"), before));
    CHECK(a.state_dict().at("first.bias").dtype() == DType::bf16);
    CHECK(a(x.to(DType::bf16)).dtype() == DType::bf16);
  }
}

TEST_CASE("a replacement can be taken back, and a hook sees what a layer is called with") {
  const NoGrad no_grad;
  Net net;
  const Tensor x = randn({5, 64}), before = net(x);
  net.first.replace(std::make_shared<QuantizedLinear>(quantize(net.first.weight, "Q4_0"), net.first.bias));
  CHECK(!equal(net(x), before));
  net.first.replace(nullptr);
  CHECK(equal(net(x), before));
  int64_t calls = 0;
  net.second.on_call([&](const Tensor& given) {
    ++calls;
    CHECK(given.shape() == Shape{5, 32});
  });
  (void)net(x);
  net.second.on_call({});
  (void)net(x);
  CHECK(calls == 1);
}

TEST_CASE("replaced modules keep their replacement when they move") {
  const NoGrad no_grad;
  std::vector<Linear> layers;
  layers.emplace_back(32, 8);
  pack_linear(layers[0], block_format("Q8_0"));
  const Tensor x = randn({2, 32}), y = layers[0](x);
  for (int i = 0; i < 9; ++i) layers.emplace_back(32, 8);
  CHECK(equal(layers[0](x), y));
}

TEST_CASE("ranges of packed rows: joined if they are alike, beside floats if they are not") {
  const NoGrad no_grad;
  const Tensor x = randn({4, 64}), reversed = flip(arange(0, 64).to(DType::i64), {0});
  const auto rows_of = [](const Tensor& w, int64_t from, int64_t to, const char* format) {
    return quantize(slice(w, 0, from, to).contiguous(), format);
  };
  struct Range {
    int64_t from, to;
    const char* format;
    bool reverse;
  };
  const auto check = [&](const std::vector<Range>& ranges, bool one) {
    Linear layer(64, 32);
    const Tensor weight = layer.weight.clone(), bias = layer.bias.clone();
    std::vector<PackedRows> packed;
    Tensor want = weight.clone();
    for (const Range& r : ranges) {
      packed.push_back({r.from, rows_of(weight, r.from, r.to, r.format), r.reverse ? reversed : Tensor()});
      const Tensor numbers = packed.back().weight.dequantize();
      slice(want, 0, r.from, r.to).copy_(r.reverse ? index_select(numbers, -1, reversed) : numbers);
    }
    replace_rows(layer, packed, Activations::floats);
    CHECK(max(abs(layer(x) - linear(x, want, bias))).item<float>() < 1e-4f);
    int parts = 0;
    layer.for_each_module(
        [&](const std::string&, Module& m) { parts += dynamic_cast<JoinedLinear*>(&m) != nullptr ? 1 : 0; });
    CHECK(parts == (one ? 0 : 1));
  };
  check({{0, 32, "Q4_0", false}}, true);
  check({{0, 32, "Q4_0", true}}, true);
  check({{0, 8, "Q4_0", false}, {8, 32, "Q4_0", false}}, true);
  check({{0, 8, "Q4_0", true}, {8, 32, "Q4_0", true}}, true);
  check({{0, 8, "Q4_0", true}, {8, 32, "Q4_0", false}}, false);
  check({{0, 8, "Q4_0", false}, {8, 32, "Q8_0", false}}, false);
  check({{8, 16, "Q4_0", false}}, false);
  check({{0, 8, "Q4_0", false}, {24, 32, "Q4_0", false}}, false);
}
