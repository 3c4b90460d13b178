// The weights of a model under the names and in the layout of Hugging Face's transformers.
//
// One table per model serves loading and saving: each entry is the name of a tensor in the file, and a view
// of our parameter with the file's shape. Loading copies into the view; saving copies out of it. GPT-2 stores
// matrices as [in, out], which are transposed views of ours. Llama stores q, k, v and gate, up separately,
// which are row ranges of our packed matrices.
//
// Every tensor of a file is loaded or checked. Files of older versions contain tensors that a model can
// compute, such as the causal mask, and some contain a tied head as well: these must equal the model's own
// values.
#pragma once

#include <functional>
#include <tinytorch/io/safetensors.hpp>
#include <tinytorch/transformer/decoder.hpp>
#include <tinytorch/transformer/gpt2.hpp>

namespace tinytorch::inline TT_BUILD::hugging_face {

struct FileTensor {
  std::string name;
  Tensor view;
};

// A tensor that a file may contain although the model computes it.
struct ComputedTensor {
  std::string name;
  const char* what;  // "the causal mask", for messages
  std::function<bool(const Tensor&)> is_same;
};

struct FileLayout {
  std::string prefix;  // prefix of all names except the head's; files of the bare model omit it
  std::vector<FileTensor> tensors{};
  std::vector<ComputedTensor> computed{};
  std::string tied_to{};  // name of the embedding that is also the head; empty if the model has its own head
};

inline constexpr const char* kHead = "lm_head.weight";

// Adds the weight of a matrix, and its bias if it is defined.
inline void add_pair(FileLayout& out, const std::string& name, const Tensor& weight, const Tensor& bias) {
  out.tensors.push_back({name + ".weight", weight.detach()});
  if (bias.defined()) out.tensors.push_back({name + ".bias", bias.detach()});
}
// Adds `count` rows of a packed matrix from row `first`.
inline void add_rows(FileLayout& out, const std::string& name, const Linear& joined, int64_t first,
                     int64_t count) {
  const auto rows = [&](const Tensor& t) {
    return t.defined() ? slice(t.detach(), 0, first, first + count) : Tensor();
  };
  add_pair(out, name, rows(joined.weight), rows(joined.bias));
}

inline void add_head(FileLayout& out, const std::shared_ptr<Linear>& head, const std::string& embedding) {
  if (head)
    add_pair(out, "lm_head", head->weight, head->bias);
  else
    out.tied_to = embedding + ".weight";
}

// A causal mask is [1, 1, n, n]: 1 if the query may attend to the key, which is not at a later position, else
// 0.
inline bool is_causal_mask(const Tensor& t) {
  if (t.rank() != 4 || t.size(0) != 1 || t.size(1) != 1 || t.size(2) != t.size(3)) return false;
  const std::vector<double> mask = t.to_vector<double>();
  const auto n = static_cast<size_t>(t.size(2));
  for (size_t i = 0; i < n * n; ++i)
    if (mask[i] != (i % n <= i / n ? 1 : 0)) return false;
  return true;
}
// True if `t` equals the model's rotary frequencies within 16-bit precision.
inline bool are_frequencies(const Tensor& t, const Rotary& rotary) {
  const std::vector<double>& wanted = rotary.frequencies();
  if (!(t.shape() == Shape{static_cast<int64_t>(wanted.size())})) return false;
  const std::vector<double> given = t.to_vector<double>();
  for (size_t i = 0; i < given.size(); ++i)
    if (!(std::abs(given[i] - wanted[i]) <= 0.02 * wanted[i] + 1e-7)) return false;
  return true;
}

inline FileLayout layout_of(const Gpt2& model) {
  FileLayout out{"transformer."};
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
    out.computed.push_back({path + ".attn.bias", "the causal mask", is_causal_mask});
    // -10000, which is -9984 in bf16, or lower
    out.computed.push_back(
        {path + ".attn.masked_bias", "a score low enough to hide a key",
         [](const Tensor& t) { return t.numel() == 1 && t.to_vector<double>()[0] <= -9984; }});
  }
  norm("ln_f", model.final_norm);
  add_head(out, model.own_head, "wte");
  return out;
}

// A Llama or a Decoder. The names of the norms depend on whether there is one after each branch, and Phi-3
// has packed matrices as we do.
template <class Model>
class DecoderLayout {
 public:
  DecoderLayout(const Model& model, bool packed) : model_(model), packed_(packed) {}

  FileLayout run() {
    add_pair(out_, "embed_tokens", model_.token_embedding.weight, {});
    for (int64_t i = 0; i < model_.blocks.size(); ++i) {
      const std::string path = "layers." + std::to_string(i);
      add_block(path, model_.blocks[i]);
      add_frequencies(path + ".self_attn.", model_.blocks[i].attention.options.rotary);
      if (i == 0) add_frequencies("", model_.blocks[i].attention.options.rotary);  // older files: one for all
    }
    add_pair(out_, "norm", model_.final_norm.weight, {});
    add_head(out_, model_.own_head, "embed_tokens");
    return std::move(out_);
  }

 private:
  template <class Block>
  void add_block(const std::string& path, const Block& block) {
    add_pair(out_, path + ".input_layernorm", block.attention_norm.weight, {});
    add_attention(path + ".self_attn.", block.attention);
    const int64_t F = block.mlp.hidden;
    if (packed_) {
      add_pair(out_, path + ".mlp.gate_up_proj", block.mlp.gate_up.weight, block.mlp.gate_up.bias);
    } else {
      add_rows(out_, path + ".mlp.gate_proj", block.mlp.gate_up, 0, F);
      add_rows(out_, path + ".mlp.up_proj", block.mlp.gate_up, F, F);
    }
    add_pair(out_, path + ".mlp.down_proj", block.mlp.down.weight, block.mlp.down.bias);
    if constexpr (requires { block.mlp_post_norm; }) {
      if (block.mlp_post_norm) {
        add_pair(out_, path + ".post_attention_layernorm", block.attention_post_norm->weight, {});
        add_pair(out_, path + ".pre_feedforward_layernorm", block.mlp_norm.weight, {});
        add_pair(out_, path + ".post_feedforward_layernorm", block.mlp_post_norm->weight, {});
        return;
      }
    }
    add_pair(out_, path + ".post_attention_layernorm", block.mlp_norm.weight, {});
  }
  template <class Attention>
  void add_attention(const std::string& path, const Attention& attention) {
    const auto& o = attention.options;
    const int64_t q = o.heads * o.head_size, kv = o.groups * o.head_size;
    if (packed_) {
      add_pair(out_, path + "qkv_proj", attention.qkv.weight, attention.qkv.bias);
    } else {
      add_rows(out_, path + "q_proj", attention.qkv, 0, q);
      add_rows(out_, path + "k_proj", attention.qkv, q, kv);
      add_rows(out_, path + "v_proj", attention.qkv, q + kv, kv);
    }
    add_pair(out_, path + "o_proj", attention.projection.weight, attention.projection.bias);
    if constexpr (requires { attention.query_norm; }) {
      if (!attention.query_norm) return;
      add_pair(out_, path + "q_norm", attention.query_norm->weight, {});
      add_pair(out_, path + "k_norm", attention.key_norm->weight, {});
    }
  }
  void add_frequencies(const std::string& path, const std::shared_ptr<Rotary>& rotary) {
    out_.computed.push_back({path + "rotary_emb.inv_freq", "the rotary frequencies of its config.json",
                             [rotary](const Tensor& t) { return are_frequencies(t, *rotary); }});
  }

  const Model& model_;
  bool packed_;  // the file has qkv_proj and gate_up_proj
  FileLayout out_{"model."};
};

inline FileLayout layout_of(const Llama& model) { return DecoderLayout(model, false).run(); }
inline FileLayout layout_of(const Decoder& model) {
  return DecoderLayout(model, model.config.family == "phi3").run();
}

// The names that transformers writes: with the prefix, except for the head.
inline std::string saved_name(const FileLayout& layout, const std::string& name) {
  return name.starts_with("lm_head.") ? name : layout.prefix + name;
}

// True if both tensors have the same dtype, shape and bytes. They must be contiguous and on the CPU, as they
// were read.
inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (a.numel() == 0 || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0);
}

// True if a file contains a head that differs from its token embedding.
inline bool has_own_head(const TensorMap& file) {
  const auto head = file.find(kHead);
  if (head == file.end()) return false;
  for (const char* name :
       {"wte.weight", "transformer.wte.weight", "embed_tokens.weight", "model.embed_tokens.weight"})
    if (const auto found = file.find(name); found != file.end())
      return !hugging_face::same_bits(head->second, found->second);
  return false;
}

// The tensors of a file by name without the prefix.
inline TensorMap without_prefix(const FileLayout& layout, const TensorMap& file) {
  TensorMap out;
  for (const auto& [name, tensor] : file) {
    const std::string bare = name.starts_with(layout.prefix) ? name.substr(layout.prefix.size()) : name;
    // If a name occurs with and without the prefix, one of them is reported as unexpected.
    if (!out.emplace(bare, tensor).second) out.emplace(layout.prefix + bare, tensor);
  }
  return out;
}

// Removes the tensors that the model computes or ties. Throws TT-NN-04 if their values differ from the
// model's.
inline void take_out_computed(const FileLayout& layout, StateDict& given, const std::string& path, Loc loc) {
  const auto require = [&](bool holds, const std::string& name, const std::string& what) {
    if (holds) return;
    fail("TT-NN-04",
         "loading " + io::in_quotes(path) + ": " + name + " is not " + what +
             ", which this model has in its place\n  hint: the file and config.json belong to different "
             "models",
         loc);
  };
  for (const ComputedTensor& c : layout.computed)
    if (const auto found = given.extract(c.name)) require(c.is_same(found.mapped()), c.name, c.what);
  auto head = layout.tied_to.empty() ? StateDict::node_type() : given.extract(kHead);
  if (!head) return;
  const auto embedding = given.find(layout.tied_to);
  if (embedding != given.end())
    return require(hugging_face::same_bits(head.mapped(), embedding->second), kHead,
                   "the token embedding, to which it is tied");
  head.key() = layout.tied_to;  // some writers save a tied tensor under only one of its names
  given.insert(std::move(head));
}

// Copies `from` into `to` some millions of elements at a time and calls used(part) after each part, so that a
// conversion needs little memory.
inline void copy_by_rows(const Tensor& to, const Tensor& from, const std::function<void(const Tensor&)>& used,
                         Loc loc) {
  constexpr int64_t kElements = int64_t{1} << 22;
  const int64_t rows = from.rank() == 0 ? 1 : from.size(0);
  const int64_t width = std::max<int64_t>(1, from.numel() / std::max<int64_t>(1, rows));
  const int64_t step = std::max<int64_t>(1, kElements / width);
  const auto part = [&](const Tensor& t, int64_t at) {
    return t.rank() == 0 ? t : slice(t, 0, at, std::min(rows, at + step), 1, loc);
  };
  for (int64_t at = 0; at < rows; at += step) {
    Tensor place = part(to, at);
    const Tensor source = part(from, at);
    place.copy_(source.to(to.device(), loc).to(to.dtype(), loc), loc);
    if (used) used(source);
  }
}

// Copies the tensors of the file into the model, converting dtype and device, and calls used(part) when a
// part of a tensor of the file is not needed any more. Throws TT-NN-04 with a list of all missing, unexpected
// and misshapen tensors, before anything is changed.
inline void copy_in(const FileLayout& layout, const TensorMap& file, const std::string& path,
                    const std::function<void(const Tensor&)>& used = {}, TT_LOC) {
  const NoGrad no_grad;
  StateDict own, given = without_prefix(layout, file);
  take_out_computed(layout, given, path, loc);
  for (const FileTensor& t : layout.tensors) own.emplace(t.name, t.view);
  require_same_entries("loading " + io::in_quotes(path), "the model of its config.json", own, given, loc);
  for (auto& [name, tensor] : own) {
    copy_by_rows(tensor, given.at(name), used, loc);
  }
}

inline TensorMap copy_out(const FileLayout& layout) {
  TensorMap out;
  for (const FileTensor& t : layout.tensors)
    out.emplace(saved_name(layout, t.name), t.view.to(cpu).contiguous());
  return out;
}

}  // namespace tinytorch::inline TT_BUILD::hugging_face
