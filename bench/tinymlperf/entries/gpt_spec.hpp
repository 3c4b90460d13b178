// An entry that is a GPT-2, described by four numbers. Its tokens are the 256 values of a byte:
//
//   {"schema": 1, "benchmark": "lm", "name": "gpt",
//    "type": "gpt", "context": 64, "features": 64, "layers": 2, "heads": 4}
//
// Its tensors have the names of transformer/gpt2.hpp. The token embedding is also the output projection.
#pragma once

#include <tinymlperf/benchmarks/task.hpp>
#include <tinymlperf/entries/entry_spec.hpp>

namespace tinymlperf::detail {

inline void add_gpt_tensors(EntrySpec& spec) {
  const GptSpec& g = *spec.gpt;
  const int64_t C = g.features;
  const auto affine = [&](const std::string& name, int64_t out, int64_t in) {
    spec.tensors.push_back({name + ".weight", {out, in}});
    spec.tensors.push_back({name + ".bias", {out}});
  };
  const auto norm = [&](const std::string& name) {
    spec.tensors.push_back({name + ".weight", {C}});
    spec.tensors.push_back({name + ".bias", {C}});
  };
  spec.tensors.push_back({"token_embedding.weight", {spec.outputs, C}});
  spec.tensors.push_back({"position_embedding.weight", {g.context, C}});
  for (int64_t layer = 0; layer < g.layers; ++layer) {
    const std::string block = "blocks." + std::to_string(layer) + ".";
    norm(block + "attention_norm");
    affine(block + "attention.qkv", 3 * C, C);
    affine(block + "attention.projection", C, C);
    norm(block + "mlp_norm");
    affine(block + "mlp.up", 4 * C, C);
    affine(block + "mlp.down", C, 4 * C);
  }
  norm("final_norm");
}

// All four numbers are at most 2^12, so the products below stay far below 2^63.
inline void read_gpt(EntrySpec& spec, const Fields& fields, const Task& task) {
  if (fields.text("type", limits::kNameLength, nullptr) != "gpt")
    fields.refuse("type", "\"gpt\"", "another type");
  GptSpec g;
  g.context = fields.integer("context", task.input.at(0), limits::kContext);
  g.features = fields.integer("features", 1, limits::kFeatures);
  g.layers = fields.integer("layers", 1, limits::kBlocks);
  g.heads = fields.integer("heads", 1, g.features);
  if (g.features % g.heads != 0)
    fields.refuse("heads", "a number that divides the " + std::to_string(g.features) + " features",
                  std::to_string(g.heads));
  spec.gpt = g;
  spec.input = task.input;
  spec.outputs = task.outputs;
  // A block's matrices have 12 C^2 weights; attention has two products of T^2 C / 2.
  const int64_t C = g.features, T = task.input.at(0);
  spec.parameters = (spec.outputs + g.context) * C + g.layers * (12 * C * C + 13 * C) + 2 * C;
  spec.multiply_adds = g.layers * (12 * C * C * T + T * T * C) + spec.outputs * C;
  if (spec.parameters > limits::kParameters)
    fields.refuse("", "at most " + std::to_string(limits::kParameters) + " parameters in all",
                  std::to_string(spec.parameters));
  if (spec.multiply_adds > limits::kMultiplyAdds)
    fields.refuse("", "at most " + std::to_string(limits::kMultiplyAdds) + " multiply-adds per sample",
                  std::to_string(spec.multiply_adds));
  add_gpt_tensors(spec);
}

inline Json to_json(const GptSpec& g) {
  return {{"type", "gpt"},
          {"context", g.context},
          {"features", g.features},
          {"layers", g.layers},
          {"heads", g.heads}};
}

}  // namespace tinymlperf::detail
