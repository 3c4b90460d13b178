// The heads of an attention layer, counted by its weights: pruning (pruning/shrink.hpp) removes whole groups
// of heads, so that a layer may have fewer than its options say. D and the queries of a group stay.
#pragma once

#include <cstdint>
#include <string>
#include <tinytorch/kv_cache/attention_cache.hpp>

namespace tinytorch::inline TT_BUILD {

struct HeadCounts {
  int64_t heads = 0, groups = 0;  // H of the queries, G of the keys and values
};

// The counts of a layer with these options whose packed QKV has (H + 2 G) D = `width` features.
template <class Options>
HeadCounts head_counts(const Options& o, int64_t width) {
  const int64_t share = o.heads / o.groups, each = (share + 2) * o.head_size;
  return {each == 0 ? 0 : width / each * share, each == 0 ? 0 : width / each};
}

// Returns the shape of a cache for these blocks, whose shape was `built` before heads were removed. A cache
// has one number of groups for all layers. Throws TT-KV-01 if the layers have different numbers. A layer that
// is packed (quantization/) has no float weight to count; it counts as the others do.
template <class Blocks>
KvShape kept_kv_shape(const Blocks& blocks, KvShape built, TT_LOC) {
  int64_t known = -1;
  for (const auto& block : blocks) {
    const Tensor& w = block.attention.qkv.weight;
    if (!w.defined()) continue;
    const int64_t groups = head_counts(block.attention.options, w.size(0)).groups;
    if (known >= 0 && groups != known) {
      fail(
          "TT-KV-01",
          "the layers of this model have " + std::to_string(known) + " and " + std::to_string(groups) +
              " groups of heads\n  rule: a cache has one number of groups for all layers\n  hint: remove the "
              "same share of heads from every layer (ShrinkOptions::choose)",
          loc);
    }
    known = groups;
  }
  if (known >= 0) built.groups = known;
  return built;
}

// Throws TT-NN-24 if a layer has other sizes than the configuration says, because formats with one
// configuration for all layers cannot hold a model some of whose heads or features were removed. Packed
// layers are not checked.
template <class Model>
void require_configured_sizes(const char* what, const Model& model, Loc loc) {
  const auto require = [&](const std::string& name, const Tensor& weight, int dim, int64_t configured) {
    if (!weight.defined() || weight.size(dim) == configured) return;
    fail("TT-NN-24",
         std::string(what) + ": " + name + " is " + weight.shape().str() + ", the configuration says " +
             std::to_string(configured) +
             "\n  rule: the format has one configuration for all layers, so it cannot hold a pruned model"
             "\n  hint: save_safetensors(path, model.state_dict()) keeps the weights as they are",
         loc);
  };
  const auto& config = model.config;
  require("token_embedding", model.token_embedding.weight, 1, config.features);
  for (int64_t i = 0; i < model.blocks.size(); ++i) {
    const auto& block = model.blocks[i];
    const std::string path = "blocks." + std::to_string(i) + ".";
    const auto& o = block.attention.options;
    require(path + "attention.qkv", block.attention.qkv.weight, 0, (o.heads + 2 * o.groups) * o.head_size);
    if constexpr (requires { block.mlp.gate_up; }) {
      require(path + "mlp.gate_up", block.mlp.gate_up.weight, 0, 2 * config.hidden);
    } else {
      require(path + "mlp.up", block.mlp.up.weight, 0,
              config.hidden > 0 ? config.hidden : 4 * config.features);
    }
  }
}

}  // namespace tinytorch::inline TT_BUILD
