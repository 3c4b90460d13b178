// The weights of GPT-2 and Llama under the names and in the layout of GGUF files.
//
// One table per model serves loading and saving, as in hugging_face_weights.hpp. Matrices are [out, in], like
// ours. Llama's q, k, v and gate, up are separate tensors, which are row ranges of our packed matrices.
//
// llama.cpp rotates neighbours of a Llama vector, (x_2i, x_2i+1), where we rotate halves, (x_i, x_i+D/2). So
// in a file the rows of each head of q and k alternate between the halves: row 2i + s of the file is our row
// i + s D/2. The rows of a head, [2, D/2, C] in ours, are transposed to [D/2, 2, C].
//
// Source: gguf-py/gguf/tensor_mapping.py and convert_hf_to_gguf.py (permute), ggml-org/llama.cpp.
#pragma once

#include <tinytorch/autograd/grad_mode.hpp>
#include <tinytorch/transformer/gguf_config.hpp>

namespace tinytorch::inline TT_BUILD::gguf {

struct Place {
  std::string name;
  Tensor ours;            // a view of our parameter, with the shape that the file has
  int64_t head_size = 0;  // above 0: the file has the rows of each head in the order of llama.cpp
  // The linear layer that has this weight or bias, null for other tensors, and the place's rows in it. `ours`
  // is undefined if another module has taken the layer's place (quantization/gguf.hpp).
  const Linear* layer = nullptr;
  int64_t first = 0, rows = 0;  // 0 rows: all
  bool is_bias = false;

  // The row of our parameter that is row `row` of the file.
  int64_t our_row(int64_t row) const {
    if (head_size == 0) return row;
    const int64_t in_head = row % head_size;
    return row - in_head + in_head / 2 + in_head % 2 * (head_size / 2);
  }
  // Our parameter in the order of the file, as a view with the rows of a head split in two dimensions.
  Tensor in_file_order() const {
    if (head_size == 0) return ours;
    Shape split{ours.size(0) / head_size, 2, head_size / 2};
    if (ours.rank() == 2) split.push_back(ours.size(1));
    return ours.reshape(split).transpose(1, 2);
  }
};

// Adds the weight of a norm, and its bias if it is defined.
inline void add_pair(std::vector<Place>& out, const std::string& name, const Tensor& weight,
                     const Tensor& bias) {
  out.push_back({name + ".weight", weight.detach()});
  if (bias.defined()) out.push_back({name + ".bias", bias.detach()});
}
// Adds `count` rows of a linear layer from row `first`, or all of them, under the full names `weight` and
// `bias`. A layer that was replaced keeps no tensors, so that both are listed.
inline void add_rows(std::vector<Place>& out, const std::string& weight, const std::string& bias,
                     const Linear& layer, int64_t first = 0, int64_t count = 0, int64_t head_size = 0) {
  const auto rows = [&](const Tensor& t) {
    if (!t.defined()) return Tensor();
    return count == 0 ? t.detach() : slice(t.detach(), 0, first, first + count);
  };
  const bool replaced = layer.replacement() != nullptr;
  out.push_back({weight, replaced ? Tensor() : rows(layer.weight), head_size, &layer, first, count, false});
  if (replaced || layer.bias.defined())
    out.push_back({bias, replaced ? Tensor() : rows(layer.bias), head_size, &layer, first, count, true});
}
inline void add_linear(std::vector<Place>& out, const std::string& name, const Linear& layer,
                       int64_t first = 0, int64_t count = 0, int64_t head_size = 0) {
  add_rows(out, name + ".weight", name + ".bias", layer, first, count, head_size);
}

inline std::vector<Place> layout_of(const Gpt2& model) {
  std::vector<Place> out;
  const auto add = [&](const std::string& name, const auto& layer) {
    if constexpr (std::is_base_of_v<Linear, std::remove_cvref_t<decltype(layer)>>)
      add_linear(out, name, layer);
    else
      add_pair(out, name, layer.weight, layer.bias);
  };
  out.push_back({kEmbedding, model.token_embedding.weight.detach()});
  out.push_back({kPositions, model.position_embedding.weight.detach()});
  for (int64_t i = 0; i < model.blocks.size(); ++i) {
    const Gpt2::Block& block = model.blocks[i];
    const std::string path = "blk." + std::to_string(i) + ".";
    add(path + "attn_norm", block.attention_norm), add(path + "attn_qkv", block.attention.qkv);
    add(path + "attn_output", block.attention.projection), add(path + "ffn_norm", block.mlp_norm);
    add(path + "ffn_up", block.mlp.up), add(path + "ffn_down", block.mlp.down);
  }
  add("output_norm", model.final_norm);
  if (model.own_head) add_rows(out, kHead, "output.bias", *model.own_head);
  return out;
}

inline std::vector<Place> layout_of(const Llama& model) {
  std::vector<Place> out;
  out.push_back({kEmbedding, model.token_embedding.weight.detach()});
  for (int64_t i = 0; i < model.blocks.size(); ++i) {
    const Llama::Block& block = model.blocks[i];
    const std::string path = "blk." + std::to_string(i) + ".";
    const SelfAttentionOptions& o = block.attention.options;
    const int64_t q = o.heads * o.head_size, kv = o.groups * o.head_size, F = block.mlp.hidden;
    add_pair(out, path + "attn_norm", block.attention_norm.weight, {});
    add_linear(out, path + "attn_q", block.attention.qkv, 0, q, o.head_size);
    add_linear(out, path + "attn_k", block.attention.qkv, q, kv, o.head_size);
    add_linear(out, path + "attn_v", block.attention.qkv, q + kv, kv);
    add_linear(out, path + "attn_output", block.attention.projection);
    add_pair(out, path + "ffn_norm", block.mlp_norm.weight, {});
    add_linear(out, path + "ffn_gate", block.mlp.gate_up, 0, F);
    add_linear(out, path + "ffn_up", block.mlp.gate_up, F, F);
    add_linear(out, path + "ffn_down", block.mlp.down);
  }
  add_pair(out, "output_norm", model.final_norm.weight, {});
  if (model.own_head) add_rows(out, kHead, "output.bias", *model.own_head);
  return out;
}

// Throws TT-NN-04 with a list of all tensors that are missing, unexpected or of another shape. A head that is
// a copy of the embedding may stand beside it, and rope_freqs is part of the config.
inline void require_same_table(const GgufFile& file, const std::vector<Place>& places, Loc loc) {
  std::string missing, unexpected, misshapen;
  const auto list = [](std::string& names, const std::string& name) {
    names += (names.empty() ? "" : ", ") + name;
  };
  std::set<std::string_view> known{kRopeFactors, kHead};
  for (const Place& p : places) {
    known.insert(p.name);
    const GgufTensorInfo* found = file.find(p.name);
    if (!found)
      list(missing, p.name);
    else if (!(found->shape == p.ours.shape()))
      list(misshapen, p.name + " is " + found->shape.str() + ", expected " + p.ours.shape().str());
  }
  for (const GgufTensorInfo& t : file.tensors)
    if (!known.contains(t.name)) list(unexpected, io::in_quotes(t.name));
  std::string message;
  for (const auto& [title, names] :
       {std::pair{"missing", &missing}, {"unexpected", &unexpected}, {"wrong shape", &misshapen}})
    if (!names->empty()) message += std::string("\n  ") + title + ": " + *names;
  if (message.empty()) return;
  fail("TT-NN-04",
       "loading " + io::in_quotes(file.name) + ": the tensors do not fit the model of its metadata" + message,
       loc);
}

// Copies values with the shape of the file into our parameter, converting dtype and device.
inline void copy_in(const Place& place, Tensor values, Loc loc) {
  NoGrad no_grad;
  Tensor target = place.in_file_order();
  if (values.device() != target.device()) values = values.to(target.device(), loc);
  if (values.dtype() != target.dtype()) values = values.to(target.dtype(), loc);
  target.copy_(values.reshape(target.shape()), loc);
}
// Our parameter with the shape and order of the file, on the CPU.
inline Tensor copy_out(const Place& place) {
  return place.in_file_order().detach().to(cpu).contiguous().reshape(place.ours.shape());
}

}  // namespace tinytorch::inline TT_BUILD::gguf
