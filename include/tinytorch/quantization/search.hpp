// search_formats: the format of each layer under a budget of bytes for the whole model.
//
//   const FormatSearch found =
//       search_formats(gpt2, {.formats = {"Q4_0", "Q6_K", "Q8_0"}, .bytes = 1 << 20, .calibration = {ids}});
//   fmt::print("{}", found.text());
//   quantize(gpt2, found.config);
//
// The search measures, for each layer and format, the divergence KL(softmax(y0) || softmax(y)) of the model's
// outputs when only this layer has this format. Layers begin with their smallest format. Then the step with
// the largest fall of KL for each byte that it adds is taken, until no step fits (the greedy answer to a
// knapsack). It adds up effects that were measured one at a time, so the result is checked: its real KL and
// that of each format alone that fits are measured, and the least wins. The search is deterministic, and the
// model stays as it is; only its MLPs become separate calls, and with `head` a tied head becomes a layer that
// shares the embedding.
#pragma once

#include <tinytorch/quantization/model.hpp>

namespace tinytorch::inline TT_BUILD {

struct SearchOptions {
  std::vector<std::string> formats = {"Q4_0", "Q8_0"};  // "" keeps a layer in floats
  int64_t bytes = 0;                                    // budget for all parameters and buffers of the model
  Calibration calibration{};
  bool head = false;               // whether the head of a language model takes part, else it stays
  std::string method = "nearest";  // or mse, gptq
  Activations activations = Activations::int8;
};

// A format of a layer: the bytes that it adds to the float model, and the divergence if only this layer has
// it.
struct FormatTrial {
  std::string path, format;
  int64_t bytes_added = 0;
  double divergence = 0;
};
// A whole model, measured.
struct MixTrial {
  std::string name;  // "mixed", or the one format
  int64_t bytes = 0;
  double divergence = 0;
};

struct FormatSearch {
  QuantizationConfig config;                   // for quantize()
  std::map<std::string, std::string> formats;  // by path; "" keeps
  std::vector<FormatTrial> layers;             // all trials, by layer
  std::vector<MixTrial> mixes;                 // those that fit; the first is the chosen one
  int64_t bytes() const { return mixes.front().bytes; }
  double divergence() const { return mixes.front().divergence; }

  std::string text() const {
    std::string out = "model       bytes    KL nats\n";
    char line[200];
    for (const MixTrial& m : mixes) {
      std::snprintf(line, sizeof line, "%-7s %9lld  %9.3e\n", m.name.c_str(), static_cast<long long>(m.bytes),
                    m.divergence);
      out += line;
    }
    out += "\nlayer                                    format   added bytes  KL alone\n";
    for (const FormatTrial& t : layers) {
      const char* const name = t.format.empty() ? "kept" : t.format.c_str();
      std::snprintf(line, sizeof line, "%-40s %-7s %12lld %9.3e%s\n", t.path.c_str(), name,
                    static_cast<long long>(t.bytes_added), t.divergence,
                    formats.at(t.path) == t.format ? "  chosen" : "");
      out += line;
    }
    return out;
  }
};

namespace quantization {

// A format that a layer can have. `module` is null if it is kept.
struct FormatOption {
  std::shared_ptr<QuantizedLinear> module;
  FormatTrial trial;
};
struct LayerOptions {
  LayerPlace place;
  std::vector<FormatOption>
      options;  // in the order of the formats; those whose block does not fit are missing
};

// Puts modules in the places of layers, and takes all of them back at the end of the C++ scope.
class Replacements {
 public:
  explicit Replacements(const std::vector<LayerOptions>& layers) : layers_(layers) {}
  ~Replacements() { clear(); }
  Replacements(const Replacements&) = delete;
  Replacements& operator=(const Replacements&) = delete;
  void clear() {
    for (const LayerOptions& l : layers_) l.place.layer->replace(nullptr);
  }
  void set(size_t layer, size_t option) {
    layers_[layer].place.layer->replace(layers_[layer].options[option].module);
  }

 private:
  const std::vector<LayerOptions>& layers_;
};

inline std::vector<LayerOptions> pack_options(Module& model, const SearchOptions& o, Loc loc) {
  const Method method = method_of(o.method, loc);
  if (method.channels != Channels::plain) {
    fail("TT-QUANT-08",
         "search_formats: '" + o.method +
             "' changes channels\n  rule: nearest, mse or gptq; set `method` of the "
             "found configuration to combine them",
         loc);
  }
  const QuantizationConfig all{.format = "Q8_0", .head = o.head ? "Q8_0" : ""};
  std::vector<LayerOptions> out;
  std::vector<LayerPlace> places;
  for (const Work& w : plan_layers(model, all, loc)) out.push_back({w.place, {}}), places.push_back(w.place);
  const auto as_they_are = [](size_t, const Tensor& x) { return x; };
  LayerInputs inputs;
  if (method.rounding != Rounding::nearest)
    inputs = observe_inputs(model, places, o.calibration, as_they_are, loc);
  for (size_t i = 0; i < out.size(); ++i) {
    Linear& layer = *out[i].place.layer;
    for (const std::string& name : o.formats) {
      FormatOption option{nullptr, {out[i].place.path, name}};
      if (!name.empty()) {
        const BlockFormat& format = block_format(name, loc);
        if (layer.weight.size(1) % format.block != 0) continue;
        const InputStatistics* const own = inputs.statistics.empty() ? nullptr : &inputs.statistics[i];
        const QuantizedTensor packed =
            round_weight(method.rounding, layer.weight, own, format, layer.weight.device(), 0.01, loc);
        option.module = std::make_shared<QuantizedLinear>(packed, layer.bias, o.activations);
      }
      out[i].options.push_back(std::move(option));
    }
    if (out[i].options.empty()) out[i].options.push_back({nullptr, {out[i].place.path, ""}});
  }
  return out;
}

inline void measure_options(Module& model, std::vector<LayerOptions>& layers,
                            const std::vector<Tensor>& exact, const SearchOptions& o, Loc loc) {
  Replacements replaced(layers);
  const int64_t before = bytes_of(model);
  for (size_t i = 0; i < layers.size(); ++i) {
    for (size_t k = 0; k < layers[i].options.size(); ++k) {
      FormatOption& option = layers[i].options[k];
      if (!option.module) continue;
      replaced.set(i, k);
      option.trial.bytes_added = bytes_of(model) - before;
      option.trial.divergence = divergence(exact, outputs_of(model, o.calibration, loc));
      replaced.clear();
    }
  }
}

// The chosen option of each layer, or an empty list if the smallest ones exceed `room` added bytes.
inline std::vector<size_t> greedy_mix(const std::vector<LayerOptions>& layers, int64_t room) {
  std::vector<size_t> chosen(layers.size(), 0);
  const auto trial = [&](size_t i, size_t k) -> const FormatTrial& { return layers[i].options[k].trial; };
  for (size_t i = 0; i < layers.size(); ++i) {
    for (size_t k = 1; k < layers[i].options.size(); ++k)
      if (trial(i, k).bytes_added < trial(i, chosen[i]).bytes_added) chosen[i] = k;
    room -= trial(i, chosen[i]).bytes_added;
  }
  if (room < 0) return {};
  for (;;) {
    double best = -1;
    size_t layer = 0, option = 0;
    for (size_t i = 0; i < layers.size(); ++i) {
      const FormatTrial& now = trial(i, chosen[i]);
      for (size_t k = 0; k < layers[i].options.size(); ++k) {
        const int64_t added = trial(i, k).bytes_added - now.bytes_added;
        const double gained = now.divergence - trial(i, k).divergence;
        if (gained <= 0 || added > room) continue;
        const double rate =
            added <= 0 ? std::numeric_limits<double>::infinity() : gained / static_cast<double>(added);
        if (rate > best) best = rate, layer = i, option = k;
      }
    }
    if (best < 0) return chosen;
    room -= trial(layer, option).bytes_added - trial(layer, chosen[layer]).bytes_added;
    chosen[layer] = option;
  }
}

// The option with this format in each layer; empty if a layer does not have it.
inline std::vector<size_t> uniform_mix(const std::vector<LayerOptions>& layers, const std::string& format) {
  std::vector<size_t> chosen;
  for (const LayerOptions& l : layers) {
    size_t k = 0;
    while (k < l.options.size() && l.options[k].trial.format != format) ++k;
    if (k == l.options.size()) return {};
    chosen.push_back(k);
  }
  return chosen;
}

}  // namespace quantization

// Throws TT-QUANT-09 if not even the smallest formats fit into the budget, TT-QUANT-01 for an unknown format,
// TT-QUANT-08 for a method that changes channels, and TT-CALIB-01 and TT-CALIB-02 as quantize() does. With
// "nearest" and "mse" the model of quantize() is exactly the one that was measured; "gptq" was measured with
// the inputs of the float model.
inline FormatSearch search_formats(Module& model, const SearchOptions& o, TT_LOC) {
  namespace q = quantization;
  const NoGrad no_grad;
  for (const std::string& name : o.formats)
    if (!name.empty()) (void)block_format(name, loc);
  std::vector<q::LayerOptions> layers = q::pack_options(model, o, loc);
  const std::vector<Tensor> exact = q::outputs_of(model, o.calibration, loc);
  q::measure_options(model, layers, exact, o, loc);
  const int64_t before = q::bytes_of(model);
  const std::vector<size_t> mixed = q::greedy_mix(layers, o.bytes - before);
  if (mixed.size() != layers.size() || (layers.empty() && o.bytes < before)) {
    int64_t needed = before;
    for (const q::LayerOptions& l : layers) {
      int64_t smallest = std::numeric_limits<int64_t>::max();
      for (const q::FormatOption& f : l.options) smallest = std::min(smallest, f.trial.bytes_added);
      needed += smallest;
    }
    fail("TT-QUANT-09",
         "search_formats: the smallest formats need " + std::to_string(needed) + " bytes, the budget is " +
             std::to_string(o.bytes) + "\n  hint: give smaller formats, set `head`, or raise the budget",
         loc);
  }
  FormatSearch out;
  std::vector<std::vector<size_t>> mixes{mixed};
  std::vector<std::string> names{"mixed"};
  for (const std::string& name : o.formats)
    mixes.push_back(q::uniform_mix(layers, name)), names.push_back(name.empty() ? "kept" : name);
  std::vector<size_t> best = mixed;
  q::Replacements replaced(layers);
  for (size_t m = 0; m < mixes.size(); ++m) {
    if (mixes[m].size() != layers.size()) continue;
    for (size_t i = 0; i < layers.size(); ++i) replaced.set(i, mixes[m][i]);
    const MixTrial trial{names[m], q::bytes_of(model),
                         q::divergence(exact, q::outputs_of(model, o.calibration, loc))};
    replaced.clear();
    if (trial.bytes > o.bytes) continue;
    const bool first = out.mixes.empty() || trial.divergence < out.mixes.front().divergence;
    if (first) best = mixes[m];
    out.mixes.insert(first ? out.mixes.begin() : out.mixes.end(), trial);
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    for (const q::FormatOption& f : layers[i].options) out.layers.push_back(f.trial);
    out.formats[layers[i].place.path] = layers[i].options[best[i]].trial.format;
  }
  out.config.method = o.method, out.config.activations = o.activations,
  out.config.calibration = o.calibration;
  if (out.formats.count("head") > 0) out.config.head = out.formats.at("head");
  out.config.choose = [formats = out.formats](const std::string& path) {
    const auto found = formats.find(path);
    return found == formats.end() ? std::string() : found->second;
  };
  return out;
}

}  // namespace tinytorch::inline TT_BUILD
