// The weights of a model under the names, and in the layout, of Hugging Face's transformers.
//
// One table per model serves both directions: each entry is a tensor's name in the file and a view of our
// parameter with the file's shape. Loading copies into the view, saving copies out of it. GPT-2 keeps its
// matrices as [in, out]: our transposed views. Llama keeps q, k, v and gate, up apart: ranges of rows of our
// joined ones.
#pragma once

#include <functional>
#include <set>
#include <tinytorch/io/safetensors.hpp>
#include <tinytorch/transformer/gpt2.hpp>
#include <tinytorch/transformer/llama.hpp>

namespace tinytorch::inline TT_BUILD::hugging_face {

struct FileTensor {
  std::string name;
  Tensor view;
};

struct FileLayout {
  std::string prefix;  // of all names but the head's; files of the bare model lack it
  std::vector<FileTensor> tensors;
  std::vector<std::string> ignored_endings;  // buffers of older versions, and a tied head
};

// weight and bias of one file matrix; the bias only where there is one.
inline void add_pair(FileLayout& out, const std::string& name, const Tensor& weight, const Tensor& bias) {
  out.tensors.push_back({name + ".weight", weight.detach()});
  if (bias.defined()) out.tensors.push_back({name + ".bias", bias.detach()});
}
// Rows first, first + 1, ... of a joined matrix.
inline void add_rows(FileLayout& out, const std::string& name, const Linear& joined, int64_t first,
                     int64_t count) {
  const auto rows = [&](const Tensor& t) {
    return t.defined() ? slice(t.detach(), 0, first, first + count) : Tensor();
  };
  add_pair(out, name, rows(joined.weight), rows(joined.bias));
}

inline void add_head(FileLayout& out, const std::shared_ptr<Linear>& head) {
  if (head)
    add_pair(out, "lm_head", head->weight, head->bias);
  else
    out.ignored_endings.push_back("lm_head.weight");
}

inline FileLayout layout_of(const Gpt2& model) {
  FileLayout out{"transformer.", {}, {".attn.bias", ".attn.masked_bias"}};
  const auto transposed = [&](const std::string& name, const Linear& layer) {
    add_pair(out, name, layer.weight.detach().t(), layer.bias);
  };
  const auto norm = [&](const std::string& name, const LayerNorm& layer) {
    add_pair(out, name, layer.weight, layer.bias);
  };
  add_pair(out, "wte", model.token_embedding.weight, {});
  add_pair(out, "wpe", model.position_embedding.weight, {});
  for (int64_t i = 0; i < model.blocks.size(); ++i) {
    const Gpt2::Block& block = model.blocks[i];
    const std::string path = "h." + std::to_string(i);
    norm(path + ".ln_1", block.attention_norm);
    transposed(path + ".attn.c_attn", block.attention.qkv);
    transposed(path + ".attn.c_proj", block.attention.projection);
    norm(path + ".ln_2", block.mlp_norm);
    transposed(path + ".mlp.c_fc", block.mlp.up);
    transposed(path + ".mlp.c_proj", block.mlp.down);
  }
  norm("ln_f", model.final_norm);
  add_head(out, model.own_head);
  return out;
}

inline FileLayout layout_of(const Llama& model) {
  FileLayout out{"model.", {}, {"rotary_emb.inv_freq"}};
  add_pair(out, "embed_tokens", model.token_embedding.weight, {});
  for (int64_t i = 0; i < model.blocks.size(); ++i) {
    const Llama::Block& block = model.blocks[i];
    const std::string path = "layers." + std::to_string(i);
    const SelfAttentionOptions& o = block.attention.options;
    const int64_t q = o.heads * o.head_size, kv = o.groups * o.head_size, F = block.mlp.hidden;
    add_pair(out, path + ".input_layernorm", block.attention_norm.weight, {});
    add_rows(out, path + ".self_attn.q_proj", block.attention.qkv, 0, q);
    add_rows(out, path + ".self_attn.k_proj", block.attention.qkv, q, kv);
    add_rows(out, path + ".self_attn.v_proj", block.attention.qkv, q + kv, kv);
    add_pair(out, path + ".self_attn.o_proj", block.attention.projection.weight,
             block.attention.projection.bias);
    add_pair(out, path + ".post_attention_layernorm", block.mlp_norm.weight, {});
    add_rows(out, path + ".mlp.gate_proj", block.mlp.gate_up, 0, F);
    add_rows(out, path + ".mlp.up_proj", block.mlp.gate_up, F, F);
    add_pair(out, path + ".mlp.down_proj", block.mlp.down.weight, block.mlp.down.bias);
  }
  add_pair(out, "norm", model.final_norm.weight, {});
  add_head(out, model.own_head);
  return out;
}

// The names that transformers writes: with the prefix, except for the head.
inline std::string saved_name(const FileLayout& layout, const std::string& name) {
  return name.starts_with("lm_head.") ? name : layout.prefix + name;
}

// By name without the prefix, and without what is ignored.
inline TensorMap without_prefix(const FileLayout& layout, const TensorMap& file) {
  TensorMap out;
  for (const auto& [name, tensor] : file) {
    const auto ends_name = [&, &whole = name](const std::string& ending) { return whole.ends_with(ending); };
    if (std::any_of(layout.ignored_endings.begin(), layout.ignored_endings.end(), ends_name)) continue;
    const std::string bare = name.starts_with(layout.prefix) ? name.substr(layout.prefix.size()) : name;
    // With and without the prefix: one of them is unexpected.
    if (!out.emplace(bare, tensor).second) out.emplace(layout.prefix + bare, tensor);
  }
  return out;
}

// Copies the file's tensors into the model, converting dtype and device. TT-NN-04 lists every tensor that is
// missing, unexpected or misshapen; then nothing has been changed.
inline void copy_in(const FileLayout& layout, const TensorMap& file, const std::string& path, TT_LOC) {
  StateDict own, given = without_prefix(layout, file);
  for (const FileTensor& t : layout.tensors) own.emplace(t.name, t.view);
  require_same_entries("loading " + io::in_quotes(path), "the model of its config.json", own, given, loc);
  copy_entries(own, given, loc);
}

inline TensorMap copy_out(const FileLayout& layout) {
  TensorMap out;
  for (const FileTensor& t : layout.tensors)
    out.emplace(saved_name(layout, t.name), t.view.to(cpu).contiguous());
  return out;
}

}  // namespace tinytorch::inline TT_BUILD::hugging_face
