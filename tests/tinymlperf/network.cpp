// Entries as running networks: every layer type, weights that fit, and weights that must be refused.
#include <doctest/doctest.h>

#include <limits>
#include <tinymlperf/network.hpp>

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

tt::StateDict fresh_state(const EntrySpec& spec, uint64_t seed) {
  tt::Generator random(seed);
  tt::StateDict state;
  for (const auto& [name, tensor] : build_layers(spec, random)->state_dict())
    state.emplace(name, tensor.clone());
  return state;
}

// The reason why `state` does not fit, as one line.
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

TEST_CASE("the state of the layers is what the reader of model.json predicted, by name and shape") {
  const EntrySpec spec = every_layer();
  tt::StateDict state = fresh_state(spec, 1);
  int64_t trained = 0;
  for (const TensorSpec& t : spec.tensors) {
    CAPTURE(t.name);
    REQUIRE(state.count(t.name) == 1);
    CHECK(state.at(t.name).shape() == to_shape(t.shape));
    if (t.name.find("running") == std::string::npos) trained += state.at(t.name).numel();
  }
  CHECK(state.size() == spec.tensors.size() + 1);  // and batch norm's step counter
  CHECK(trained == spec.parameters);
}

TEST_CASE("weights loaded into new layers give the same answers; other weights give others") {
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
  CHECK(answer(1) == answer(1));  // also: dropout is off
  CHECK(answer(1) != answer(2));
}

TEST_CASE("stored statistics of batch norm are used, and a PyTorch step counter is no extra tensor") {
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

TEST_CASE("half precision weights are widened") {
  const EntrySpec spec = every_layer();
  tt::StateDict state = fresh_state(spec, 1);
  state["10.weight"] = state["10.weight"].to(tt::DType::f16);
  const auto kept = check_weights(spec, "w", state);
  CHECK(kept.at("10.weight").dtype() == tt::DType::f32);
  CHECK(kept.at("10.weight").to_vector<float>() == state["10.weight"].to_vector<float>());
}

TEST_CASE("tensors missing, extra, misshapen, of a wrong type or not finite are refused by name") {
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
