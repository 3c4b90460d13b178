// LoRA: fine-tuning by a small sum on frozen weights, W + s B A with A [r, K], B [N, r] and s = alpha / r.
//
//   attach_lora(model, {.rank = 8, .alpha = 16, .targets = {"q_proj", "v_proj"}});
//   AdamW optimizer(lora_parameters(model), {.lr = 1e-4});       // r (N + K) numbers instead of N K
//   ... train ...
//   save_lora(model, "adapter");                                 // a folder as PEFT writes (lora_files.hpp)
//   merge_lora(model);                                           // W += s B A: no time is added to a call
//
// B begins as zeros, so that training starts at the model itself, and A as Linear's own values do (uniform on
// [-1/sqrt(K), 1/sqrt(K)]). Layers of language models have the names of transformers: q_proj, k_proj and
// v_proj are adapters of their own, although we store one packed matrix. Layers of other models have their
// paths. Source: Hu et al., "LoRA: low-rank adaptation of large language models", 2021.
#pragma once

#include <cmath>
#include <tinytorch/layers/dropout.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/quantization/separate_mlp.hpp>
#include <tinytorch/transformer/decoder.hpp>
#include <tinytorch/transformer/gpt2.hpp>

namespace tinytorch::inline TT_BUILD {

struct LoraOptions {
  int64_t rank = 8;                    // r
  double alpha = 16;                   // the sum is multiplied by alpha / r
  bool root_scaled = false;            // alpha / sqrt(r) instead ("rsLoRA")
  double dropout = 0;                  // of the inputs of A, in training
  std::vector<std::string> targets{};  // names, or the last parts of names; empty: all but the head

  double scale() const {
    const auto r = static_cast<double>(rank);
    return alpha / (root_scaled ? std::sqrt(r) : r);
  }
};

// A linear layer, or some rows of a packed one, under the name that it has in files.
struct LoraPlace {
  std::string name;
  Linear* layer = nullptr;
  int64_t first = 0, rows = 0;

  // True if `target` is the name, or its end after a dot.
  bool is(const std::string& target) const { return name == target || name.ends_with("." + target); }
};

// The adapter of the rows from `first` on.
struct LoraPart {
  std::string name;
  int64_t first = 0, rows = 0;
  Tensor A, B;  // [r, K], [rows, r]
  double scale = 1;
};

// A linear layer with adapters. Its parameters are the frozen "weight" and "bias", which are those of the
// layer that it stands for, and "A0", "B0", "A1", ... That layer keeps its place in memory meanwhile.
class LoraLinear : public Module {
 public:
  LoraLinear(Linear& base, double dropout_probability)
      : weight(base.weight), bias(base.bias), drop(dropout_probability), base_(base) {
    add_parameter("weight", weight).requires_grad_(false);
    if (bias.defined()) add_parameter("bias", bias).requires_grad_(false);
    add("drop", drop);
  }
  // Adds an adapter of rows that no other has. Parts are kept in the order of their rows.
  void add_part(LoraPart part) {
    const std::string n = std::to_string(parts_.size());
    part.A = add_parameter("A" + n, part.A), part.B = add_parameter("B" + n, part.B);
    const auto later =
        std::find_if(parts_.begin(), parts_.end(), [&](const LoraPart& p) { return p.first > part.first; });
    parts_.insert(later, std::move(part));
  }
  // x [..., K] -> [..., N]
  Tensor forward(const Tensor& x) override {
    const Tensor y = linear(x, weight, bias), dropped = drop(x);
    Tensors columns;
    int64_t at = 0;
    const auto fill_to = [&](int64_t row) {  // rows without an adapter
      if (row == at) return;
      Shape shape = x.shape();
      shape.back() = row - at;
      columns.push_back(zeros(shape, x.dtype(), x.device()));
    };
    for (const LoraPart& p : parts_) {
      fill_to(p.first);
      columns.push_back(linear(linear(dropped, p.A), p.B) * p.scale);
      at = p.first + p.rows;
    }
    fill_to(weight.size(0));
    return y + (columns.size() == 1 ? columns[0] : cat(columns, -1));
  }
  const std::vector<LoraPart>& parts() const { return parts_; }
  Linear& base() const { return base_; }

  // Adds s B A to the weight, in f32 or wider.
  void add_to_weight() const {
    const NoGrad no_grad;
    for (const LoraPart& p : parts_) {
      Tensor rows = slice(weight.detach(), 0, p.first, p.first + p.rows);
      const DType wide = rows.dtype() == DType::f64 ? DType::f64 : DType::f32;
      const Tensor sum = rows.to(wide) + matmul(p.B.detach().to(wide), p.A.detach().to(wide)) * p.scale;
      rows.copy_(sum.to(rows.dtype()));
    }
  }

  Tensor weight, bias;
  Dropout drop;

 private:
  Linear& base_;
  std::vector<LoraPart> parts_;
};

namespace pruning {

inline void add_lora_place(std::vector<LoraPlace>& out, const std::string& name, Linear& layer,
                           int64_t first = 0, int64_t rows = -1) {
  if (!layer.weight.defined()) return;  // it is packed or sparse
  out.push_back({name, &layer, first, rows < 0 ? layer.weight.size(0) : rows});
}
inline std::vector<LoraPlace> lora_places_of(Gpt2& model) {
  std::vector<LoraPlace> out;
  for (int64_t i = 0; i < model.blocks.size(); ++i) {
    auto& block = model.blocks[i];
    const std::string path = "transformer.h." + std::to_string(i);
    add_lora_place(out, path + ".attn.c_attn", block.attention.qkv);
    add_lora_place(out, path + ".attn.c_proj", block.attention.projection);
    add_lora_place(out, path + ".mlp.c_fc", block.mlp.up);
    add_lora_place(out, path + ".mlp.c_proj", block.mlp.down);
  }
  if (model.own_head) add_lora_place(out, "lm_head", *model.own_head);
  return out;
}
// A Llama or a Decoder; `packed`: qkv and gate_up are one matrix in files, too.
template <class Model>
std::vector<LoraPlace> lora_places_of(Model& model, bool packed) {
  std::vector<LoraPlace> out;
  for (int64_t i = 0; i < model.blocks.size(); ++i) {
    auto& block = model.blocks[i];
    const std::string path = "model.layers." + std::to_string(i) + ".";
    const auto& o = block.attention.options;
    // Sizes come from the weights, because structured pruning shrinks them. A packed layer gets no adapter.
    const auto rows = [](const Linear& layer) { return layer.weight.defined() ? layer.weight.size(0) : 0; };
    const HeadCounts heads = head_counts(o, rows(block.attention.qkv));
    const int64_t q = heads.heads * o.head_size, kv = heads.groups * o.head_size;
    const int64_t F = rows(block.mlp.gate_up) / 2;
    if (packed) {
      add_lora_place(out, path + "self_attn.qkv_proj", block.attention.qkv);
    } else {
      add_lora_place(out, path + "self_attn.q_proj", block.attention.qkv, 0, q);
      add_lora_place(out, path + "self_attn.k_proj", block.attention.qkv, q, kv);
      add_lora_place(out, path + "self_attn.v_proj", block.attention.qkv, q + kv, kv);
    }
    add_lora_place(out, path + "self_attn.o_proj", block.attention.projection);
    if (packed) {
      add_lora_place(out, path + "mlp.gate_up_proj", block.mlp.gate_up);
    } else {
      add_lora_place(out, path + "mlp.gate_proj", block.mlp.gate_up, 0, F);
      add_lora_place(out, path + "mlp.up_proj", block.mlp.gate_up, F, F);
    }
    add_lora_place(out, path + "mlp.down_proj", block.mlp.down);
  }
  if (model.own_head) add_lora_place(out, "lm_head", *model.own_head);
  return out;
}

inline std::vector<LoraLinear*> lora_layers(Module& model) {
  std::vector<LoraLinear*> out;
  model.for_each_module([&](const std::string&, Module& m) {
    if (auto* const layer = dynamic_cast<LoraLinear*>(&m)) out.push_back(layer);
  });
  return out;
}
// Throws TT-PRUNE-09.
[[noreturn]] inline void refuse_lora(const std::string& what, Loc loc) { fail("TT-PRUNE-09", what, loc); }

// Freezes all parameters and puts a LoraLinear in the place of each layer that has none. `made(place)` gives
// the adapter of a place.
template <class Make>
void attach_parts(Module& model, const std::vector<LoraPlace>& places, double dropout, Make&& made) {
  for (const NamedTensor& p : model.named_parameters()) Tensor(p.tensor).requires_grad_(false);
  quantization::separate_mlps(model);
  for (const LoraPlace& place : places) {
    if (!place.layer->replacement())
      place.layer->replace(std::make_shared<LoraLinear>(*place.layer, dropout));
    static_cast<LoraLinear&>(*place.layer->replacement()).add_part(made(place));
  }
}

}  // namespace pruning

// Lists the linear layers that can have adapters: those of a Gpt2, Llama or Decoder by their names in
// transformers, and those of any other model by their paths.
inline std::vector<LoraPlace> lora_places(Module& model) {
  if (auto* const gpt2 = dynamic_cast<Gpt2*>(&model)) return pruning::lora_places_of(*gpt2);
  if (auto* const llama = dynamic_cast<Llama*>(&model)) return pruning::lora_places_of(*llama, false);
  if (auto* const decoder = dynamic_cast<Decoder*>(&model))
    return pruning::lora_places_of(*decoder, decoder->config.family == "phi3");
  std::vector<LoraPlace> out;
  model.for_each_module([&](const std::string& path, Module& m) {
    if (auto* const layer = dynamic_cast<Linear*>(&m)) pruning::add_lora_place(out, path, *layer);
  });
  return out;
}

// Freezes the model and adds adapters to the chosen layers. Returns how many. Throws TT-PRUNE-07 for a rank
// below 1 or above that of a layer, and TT-PRUNE-09 if a target names no layer, or if the model has adapters.
inline int64_t attach_lora(Module& model, const LoraOptions& o = {},
                           Generator& generator = default_generator(), TT_LOC) {
  const NoGrad no_grad;
  if (!pruning::lora_layers(model).empty())
    pruning::refuse_lora("attach_lora: the model has adapters\n  hint: merge_lora() or drop_lora() first",
                         loc);
  std::vector<LoraPlace> chosen;
  std::vector<bool> used(o.targets.size(), false);
  for (const LoraPlace& place : lora_places(model)) {
    bool wanted = o.targets.empty() && !place.is("lm_head");
    for (size_t i = 0; i < o.targets.size(); ++i)
      if (place.is(o.targets[i])) wanted = used[i] = true;
    if (!wanted) continue;
    const int64_t limit = std::min(place.rows, place.layer->weight.size(1));
    if (o.rank < 1 || o.rank > limit) {
      fail("TT-PRUNE-07",
           "attach_lora: rank " + std::to_string(o.rank) + " of '" + place.name + "'\n  rule: from 1 to " +
               std::to_string(limit) + ", the smaller of the numbers of rows and columns",
           loc);
    }
    chosen.push_back(place);
  }
  for (size_t i = 0; i < o.targets.size(); ++i)
    if (!used[i])
      pruning::refuse_lora("attach_lora: no linear layer is called '" + o.targets[i] +
                               "'\n  hint: lora_places(model) lists the names",
                           loc);
  if (chosen.empty()) pruning::refuse_lora("attach_lora: the model has no linear layer", loc);
  pruning::attach_parts(model, chosen, o.dropout, [&](const LoraPlace& place) {
    const Tensor& w = place.layer->weight;
    const Tensor A = empty({o.rank, w.size(1)});
    const double bound = 1 / std::sqrt(static_cast<double>(w.size(1)));
    init::uniform(A, -bound, bound, generator);
    return LoraPart{place.name,
                    place.first,
                    place.rows,
                    A.to(w.dtype()).to(w.device()),
                    zeros({place.rows, o.rank}, w.dtype(), w.device()),
                    o.scale()};
  });
  return static_cast<int64_t>(chosen.size());
}

// The parameters of all adapters, for an optimizer.
inline NamedTensors lora_parameters(Module& model) {
  NamedTensors out;
  for (const NamedTensor& p : model.named_parameters())
    if (p.tensor.requires_grad()) out.push_back(p);
  return out;
}

// Takes the adapters away, so that the model is what it was; its parameters can be trained again.
inline void drop_lora(Module& model) {
  std::vector<quantization::SeparateMlp*> mlps;
  for (LoraLinear* const layer : pruning::lora_layers(model)) layer->base().replace(nullptr);
  for (const NamedTensor& p : model.named_parameters()) Tensor(p.tensor).requires_grad_(true);
  model.for_each_module([&](const std::string&, Module& m) {
    if (auto* const mlp = dynamic_cast<quantization::SeparateMlp*>(&m)) mlps.push_back(mlp);
  });
  for (quantization::SeparateMlp* const separate : mlps) {  // fused again, if no other layer is replaced
    Mlp& mlp = const_cast<Mlp&>(separate->mlp());
    if (!mlp.up.replacement() && !mlp.down.replacement()) mlp.replace(nullptr);
  }
}

// Adds the adapters to the weights and takes them away. The outputs are those of the model with adapters in
// eval mode, up to rounding. Returns how many there were. Throws TT-PRUNE-09 if there were none.
inline int64_t merge_lora(Module& model, TT_LOC) {
  int64_t count = 0;
  for (const LoraLinear* const layer : pruning::lora_layers(model)) {
    layer->add_to_weight();
    count += static_cast<int64_t>(layer->parts().size());
  }
  if (count == 0) pruning::refuse_lora("merge_lora: the model has no adapters", loc);
  drop_lora(model);
  return count;
}

}  // namespace tinytorch::inline TT_BUILD
