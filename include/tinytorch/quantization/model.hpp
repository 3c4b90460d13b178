// quantize(model, config): packs the linear layers of a module tree, and reports what it did.
//
//   QuantizationReport r = quantize(gpt2, {.format = "Q4_0", .head = "Q8_0"});
//   fmt::print("{}", r.text());
//
// Norms and embeddings stay as they are, and so does the head unless a format is given for it. A layer whose
// row is no multiple of the block stays, too, and the report says so.
#pragma once

#include <functional>
#include <tinytorch/quantization/linear.hpp>
#include <tinytorch/quantization/separate_mlp.hpp>
#include <tinytorch/transformer/gpt2.hpp>
#include <tinytorch/transformer/llama.hpp>

namespace tinytorch::inline TT_BUILD {

struct QuantizationConfig {
  std::string format = "Q8_0";
  std::string head{};  // of the head of a language model; empty: it stays
  Activations activations = Activations::int8;
  // The format of one layer by its path, "" to keep it; without a function, every layer has `format`.
  std::function<std::string(const std::string& path)> choose{};
};

struct QuantizedLayer {
  std::string path, format;  // format is empty if the layer was kept
  std::string why{};         // why it was kept
  Shape shape;
  int64_t bytes_before = 0, bytes = 0;
  double sqnr = 0;  // dB, of the weight
};

struct QuantizationReport {
  std::vector<QuantizedLayer> layers;
  int64_t bytes_before = 0, bytes = 0;  // of all parameters and buffers of the model

  // Bits of a number in the packed layers, biases excluded.
  double bits_per_weight() const {
    double bits = 0, numbers = 0;
    for (const QuantizedLayer& l : layers) {
      if (l.format.empty()) continue;
      bits += 8.0 * static_cast<double>(l.bytes), numbers += static_cast<double>(l.shape.numel());
    }
    return numbers > 0 ? bits / numbers : 0;
  }
  std::string text() const {
    std::string out =
        "layer                                    format  shape            SQNR dB       bytes\n";
    char line[200];
    for (const QuantizedLayer& l : layers) {
      std::snprintf(line, sizeof line, "%-40s %-7s %-16s %7.1f %11lld %s\n", l.path.c_str(),
                    l.format.empty() ? "kept" : l.format.c_str(), l.shape.str().c_str(), l.sqnr,
                    static_cast<long long>(l.bytes), l.why.c_str());
      out += line;
    }
    std::snprintf(line, sizeof line,
                  "model: %lld bytes, %.3f of the %lld before; %.2f bits a packed number\n",
                  static_cast<long long>(bytes),
                  static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(1, bytes_before)),
                  static_cast<long long>(bytes_before), bits_per_weight());
    return out + line;
  }
};

namespace quantization {

inline int64_t bytes_of(const Module& model) {
  int64_t bytes = 0;
  for (const NamedTensors& group : {model.named_parameters(), model.named_buffers()})
    for (const NamedTensor& t : group)
      bytes += t.tensor.numel() * static_cast<int64_t>(size_of(t.tensor.dtype()));
  return bytes;
}

inline QuantizedLayer pack(Linear& layer, const std::string& path, const std::string& name,
                           Activations activations, Loc loc) {
  const Tensor weight = layer.weight;
  const int64_t before = weight.numel() * static_cast<int64_t>(size_of(weight.dtype()));
  QuantizedLayer row{path, name, {}, weight.shape(), before, before, 0};
  if (name.empty()) return row.why = "the configuration keeps it", row;
  const BlockFormat& format = block_format(name, loc);
  if (weight.size(1) % format.block != 0) {
    row.format = "", row.why = "its rows are no multiple of " + std::to_string(format.block);
    return row;
  }
  const std::shared_ptr<QuantizedLinear> packed = pack_linear(layer, format, activations, loc);
  row.bytes = packed->weight().bytes();
  row.sqnr = sqnr_db(weight, packed->weight(), loc);
  return row;
}

// The head of a language model as a layer of its own, with a copy of the embedding's rows if it is tied.
template <class Model>
Linear& own_head_of(Model& model) {
  if (!model.own_head) {
    const Tensor shared = model.token_embedding.weight;
    model.own_head = std::make_shared<Linear>(1, 1, false);
    model.own_head->forget_own_tensors();
    model.own_head->weight = model.own_head->add_parameter("weight", shared.detach().clone());
    model.add("head", model.own_head);
  }
  return *model.own_head;
}
inline bool has_head(const Module& model) {
  return dynamic_cast<const Gpt2*>(&model) || dynamic_cast<const Llama*>(&model);
}
inline Linear* head_of(Module& model) {
  if (auto* const gpt2 = dynamic_cast<Gpt2*>(&model)) return &own_head_of(*gpt2);
  if (auto* const llama = dynamic_cast<Llama*>(&model)) return &own_head_of(*llama);
  return nullptr;
}

}  // namespace quantization

// Packs the linear layers of `model`, on its device. TT-QUANT-01 for an unknown format, TT-QUANT-06 if a head
// is asked for and the model has none. A layer that is packed already is left alone.
inline QuantizationReport quantize(Module& model, const QuantizationConfig& config, TT_LOC) {
  const NoGrad no_grad;
  QuantizationReport report;
  report.bytes_before = quantization::bytes_of(model);
  (void)block_format(config.format, loc);
  if (!config.head.empty()) (void)block_format(config.head, loc);
  std::vector<std::pair<std::string, Linear*>> layers;
  model.for_each_module([&](const std::string& path, Module& m) {
    if (auto* const layer = dynamic_cast<Linear*>(&m); layer && path != "head")
      layers.emplace_back(path, layer);
  });
  quantization::separate_mlps(model);
  for (const auto& [path, layer] : layers) {
    const std::string name = config.choose ? config.choose(path) : config.format;
    report.layers.push_back(quantization::pack(*layer, path, name, config.activations, loc));
  }
  if (!config.head.empty()) {
    Linear* const head = quantization::head_of(model);
    if (!head) {
      fail(
          "TT-QUANT-06",
          "quantize: this model has no head that is known\n  hint: leave `head` empty; its linear layers are "
          "packed by `format`",
          loc);
    }
    report.layers.push_back(quantization::pack(*head, "head", config.head, config.activations, loc));
  }
  report.bytes = quantization::bytes_of(model);
  return report;
}

}  // namespace tinytorch::inline TT_BUILD
