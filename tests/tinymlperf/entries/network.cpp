// Networks of entries: every layer type, weights that fit, and weights that must be refused.
#include <doctest/doctest.h>

#include <limits>
#include <tinymlperf/entries/network.hpp>

using namespace tinymlperf;

namespace {

EntrySpec every_layer() {
  return parse_entry(R"({"schema": 1, "name": "all", "input": [1, 28, 28], "classes": 10, "layers": [
    {"type": "conv2d", "in": 1, "out": 4, "kernel": 3, "stride": 2, "padding": 1}, {"type": "batch_norm2d", "in": 4},
    {"type": "relu"}, {"type": "max_pool2d", "kernel": 2},
    {"type": "conv2d", "in": 4, "out": 6, "kernel": 3, "bias": false}, {"type": "gelu"},
    {"type": "avg_pool2d", "kernel": 3, "stride": 1}, {"type": "silu"}, {"type": "flatten"}, {"type": "dropout", "p": 0.5},
    {"type": "linear", "in": 54, "out": 12}, {"type": "tanh"}, {"type": "linear", "in": 12, "out": 10, "bias": false},
    {"type": "sigmoid"}]})");
}

// An entry with non-square padding and tiles, which the library's layers lack, and with groups.
EntrySpec rectangles() {
  return parse_entry(
      R"({"schema": 1, "benchmark": "kws", "name": "rectangles", "input": [1, 49, 10], "classes": 12,
    "layers": [
    {"type": "conv2d", "in": 1, "out": 4, "kernel": [10, 4], "stride": 2, "padding": [5, 1]},
    {"type": "conv2d", "in": 4, "out": 4, "kernel": [1, 3], "groups": 4},
    {"type": "max_pool2d", "kernel": [3, 1]}, {"type": "avg_pool2d", "kernel": [2, 3]},
    {"type": "max_pool2d", "kernel": 3, "stride": 1, "padding": 1},
    {"type": "adaptive_avg_pool2d", "output": [2, 1]}, {"type": "flatten"}, {"type": "batch_norm1d", "in": 8},
    {"type": "linear", "in": 8, "out": 12}]})",
      task_of("kws"));
}

tt::StateDict fresh_state(const EntrySpec& spec, uint64_t seed) {
  tt::Generator random(seed);
  tt::StateDict state;
  for (const auto& [name, tensor] : build_layers(spec, random)->state_dict())
    state.emplace(name, tensor.clone());
  return state;
}

// The reason for which `state` is refused, in one line.
std::string refusal(const EntrySpec& spec, const tt::StateDict& state) {
  try {
    check_weights(spec, "weights.safetensors", state);
  } catch (const Refusal& r) {
    CHECK(r.file == "weights.safetensors");
    return r.where + " | " + r.expected + " | " + r.found;
  }
  return "accepted";
}

}  // namespace

TEST_CASE("the state of the layers has the names and shapes that the reader of model.json computed") {
  const auto check = [](const EntrySpec& spec) {
    tt::StateDict state = fresh_state(spec, 1);
    int64_t trained = 0;
    for (const TensorSpec& t : spec.tensors) {
      CAPTURE(t.name);
      REQUIRE(state.count(t.name) == 1);
      CHECK(state.at(t.name).shape() == to_shape(t.shape));
      if (t.name.find("running") == std::string::npos) trained += state.at(t.name).numel();
    }
    CHECK(state.size() == spec.tensors.size() + 1);  // one more for batch norm's step counter
    CHECK(trained == spec.parameters);
  };
  check(every_layer());
  check(rectangles());
}

TEST_CASE("the outputs of an entry with non-square windows have the shape that the reader computed") {
  const tt::NoGrad no_grad;
  const EntrySpec spec = rectangles();
  tt::Generator random(3);
  const tt::Tensor x = tt::rand({2, 1, 49, 10}, tt::DType::f32, tt::cpu, random);
  const auto layers = build_layers(spec, random);
  layers->eval();
  CHECK((*layers)(x).shape() == tt::Shape{2, 12});
}

TEST_CASE(
    "different padding along height and width; tiles of any sides, without remainder rows and columns") {
  const tt::NoGrad no_grad;
  tt::Generator random(1);
  const tt::Tensor x = tt::rand({2, 3, 7, 5}, tt::DType::f32, tt::cpu, random);
  // The expected result: the larger padding on all sides, then the additional columns removed.
  PaddedConv2d tall(3, 2, {3, 3}, Sides(2, 0), {}, true, random);
  const tt::Tensor wide = tt::conv2d(x, tall.weight, tall.bias, {.padding = 2});
  CHECK(tall(x).to_vector<float>() == tt::slice(wide, 3, 2, 5).contiguous().to_vector<float>());

  const auto in = x.to_vector<float>();
  for (const bool max : {true, false}) {
    TilePool2d pool(Sides(3, 2), max);
    const tt::Tensor y = pool(x);
    REQUIRE(y.shape() == tt::Shape{2, 3, 2, 2});
    const auto out = y.to_vector<float>();
    for (size_t plane = 0; plane < 6; ++plane)
      for (size_t row = 0; row < 2; ++row)
        for (size_t column = 0; column < 2; ++column) {
          float largest = 0, sum = 0;
          for (size_t i = 0; i < 6; ++i) {
            const float v = in[(plane * 7 + row * 3 + i / 2) * 5 + column * 2 + i % 2];
            largest = std::max(largest, v), sum += v;
          }
          CHECK(out[(plane * 2 + row) * 2 + column] == doctest::Approx(max ? largest : sum / 6));
        }
  }
}

TEST_CASE("the same weights in new layers give the same outputs, and other weights give different ones") {
  const EntrySpec spec = every_layer();
  const tt::NoGrad no_grad;
  tt::Generator random(3);
  const tt::Tensor x = tt::rand({2, 1, 28, 28}, tt::DType::f32, tt::cpu, random);
  const auto answer = [&](uint64_t seed) {
    const Network network(spec, check_weights(spec, "w", fresh_state(spec, seed)));
    const tt::Tensor y = network.forward(x);
    CHECK(y.shape() == tt::Shape{2, 10});
    return y.to_vector<float>();
  };
  CHECK(answer(1) == answer(1));  // this also shows that dropout is off
  CHECK(answer(1) != answer(2));
}

TEST_CASE("stored statistics of batch norm are used, and PyTorch's step counter is allowed") {
  const EntrySpec spec = every_layer();
  const tt::NoGrad no_grad;
  const tt::Tensor x = tt::ones({1, 1, 28, 28});
  tt::StateDict state = fresh_state(spec, 1);
  const auto before = Network(spec, check_weights(spec, "w", state)).forward(x).to_vector<float>();
  state["1.running_mean"] = tt::full({4}, 3.0);
  CHECK(Network(spec, check_weights(spec, "w", state)).forward(x).to_vector<float>() != before);
  CHECK(state.count("1.num_batches_tracked") == 1);
  CHECK(refusal(spec, state) == "accepted");
  state.erase("1.num_batches_tracked");
  CHECK(refusal(spec, state) == "accepted");
}

TEST_CASE("half precision weights are converted to f32") {
  const EntrySpec spec = every_layer();
  tt::StateDict state = fresh_state(spec, 1);
  state["10.weight"] = state["10.weight"].to(tt::DType::f16);
  const auto kept = check_weights(spec, "w", state);
  CHECK(kept.at("10.weight").dtype() == tt::DType::f32);
  CHECK(kept.at("10.weight").to_vector<float>() == state["10.weight"].to_vector<float>());
}

TEST_CASE("tensors that are missing, extra, not finite, or of a wrong shape or type are refused by name") {
  const EntrySpec spec = every_layer();
  const tt::StateDict good = fresh_state(spec, 1);
  tt::StateDict state = good;
  state.erase("4.weight");
  CHECK(refusal(spec, state) == "4.weight | a tensor of shape [6, 4, 3, 3] | no such tensor");
  state = good;
  state["4.bias"] = tt::zeros({6});
  CHECK(refusal(spec, state).find("extra tensor \"4.bias\"") != std::string::npos);
  state = good;
  state["10.weight"] = state["10.weight"].t().contiguous();
  CHECK(refusal(spec, state) == "10.weight | shape [12, 54] | shape [54, 12]");
  state = good;
  state["0.bias"] = tt::zeros({4}, tt::DType::i64);
  CHECK(refusal(spec, state) == "0.bias | dtype f32, f16 or bf16 | i64");
  state = good;
  state["12.weight"].data<float>()[119] = std::numeric_limits<float>::quiet_NaN();
  CHECK(refusal(spec, state) == "12.weight | finite values | a NaN or infinity at element 119");
}
