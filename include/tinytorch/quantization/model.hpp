// quantize(model, config): packs the linear layers of a module tree, and reports what it did.
//
//   QuantizationReport r = quantize(gpt2, {.format = "Q4_0", .head = "Q8_0"});
//   std::cout << r.text();
//
//   quantize(gpt2, {.format = "Q4_0", .method = "gptq", .calibration = {ids}});      // ids i64 [B, T]
//   quantize(net, {.format = "Q8_0", .method = "smooth", .calibration = batches});   // x [B, K]
//   quantize(net, {.format = "Q4_0", .method = "awq+gptq", .calibration = batches, .measure = true});
//
// Norms and embeddings stay as they are, and so does the head unless a format is given for it; "awq" and
// "smooth" divide the weight of a norm by the scales of the layer after it. A layer whose row is no multiple
// of the block stays, too, and the report says so. Methods: quantization/methods.hpp. A byte budget instead
// of one format: quantization/search.hpp. Activations with frozen scales: quantization/static_ptq.hpp.
#pragma once

#include <functional>
#include <tinytorch/quantization/calibration.hpp>
#include <tinytorch/quantization/folding.hpp>
#include <tinytorch/quantization/methods.hpp>
#include <tinytorch/quantization/report.hpp>
#include <tinytorch/quantization/sensitivity.hpp>

namespace tinytorch::inline TT_BUILD {

struct QuantizationConfig {
  std::string format = "Q8_0";
  std::string head{};  // of the head of a language model; empty: it stays
  Activations activations = Activations::int8;
  // The format of one layer by its path, "" to keep it; without a function, every layer has `format`.
  std::function<std::string(const std::string& path)> choose{};
  std::string method = "nearest";  // or mse, gptq, awq, smooth, hadamard, "awq+gptq", ...
  Calibration calibration{};       // inputs of the model, for all methods but nearest, mse and hadamard
  uint64_t seed = 0;               // of the signs of a rotation
  double alpha = 0.5;              // of smooth
  double damping = 0.01;           // of gptq
  bool measure = false;  // the report has the sensitivity and the time of each layer, on calibration data
};

namespace quantization {

inline int64_t bytes_of(const Module& model) {
  int64_t bytes = 0;
  for (const NamedTensors& group : {model.named_parameters(), model.named_buffers()})
    for (const NamedTensor& t : group)
      bytes += t.tensor.numel() * static_cast<int64_t>(size_of(t.tensor.dtype()));
  return bytes;
}

// The head of a language model as a layer of its own, which shares the embedding's rows if it is tied.
template <class Model>
Linear& own_head_of(Model& model) {
  if (!model.own_head) {
    model.own_head = std::make_shared<Linear>(1, 1, false);
    model.own_head->forget_own_tensors();
    model.own_head->weight = model.own_head->add_parameter("weight", model.token_embedding.weight);
    model.add("head", model.own_head);
  }
  return *model.own_head;
}
inline bool has_head(const Module& model) {
  return dynamic_cast<const Gpt2*>(&model) || dynamic_cast<const Llama*>(&model) ||
         dynamic_cast<const Decoder*>(&model);
}
inline Linear& head_of(Module& model, Loc loc) {
  if (auto* const gpt2 = dynamic_cast<Gpt2*>(&model)) return own_head_of(*gpt2);
  if (auto* const llama = dynamic_cast<Llama*>(&model)) return own_head_of(*llama);
  if (auto* const decoder = dynamic_cast<Decoder*>(&model)) return own_head_of(*decoder);
  fail("TT-QUANT-06",
       "quantize: this model has no head that is known\n  hint: leave `head` empty; its linear layers are "
       "packed by `format`",
       loc);
}

// A layer while it is quantized. `place.layer` holds the float weight until the end.
struct Work {
  LayerPlace place;
  const BlockFormat* format = nullptr;  // null: it is kept
  QuantizedLayer row{};
  InputTransform transform{};
  std::shared_ptr<QuantizedLinear> packed{};
};

inline Work plan(const std::string& path, Linear& layer, const std::string& name, Loc loc) {
  const int64_t bytes = layer.weight.numel() * static_cast<int64_t>(size_of(layer.weight.dtype()));
  Work w{{path, &layer}};
  w.row = {
      .path = path, .format = name, .shape = layer.weight.shape(), .bytes_before = bytes, .bytes = bytes};
  if (name.empty()) return w.row.why = "the configuration keeps it", w;
  const BlockFormat& format = block_format(name, loc);
  if (layer.weight.size(1) % format.block == 0) return w.format = &format, w;
  w.row.format = "", w.row.why = "its rows are no multiple of " + std::to_string(format.block);
  return w;
}

// All layers of the tree in its order, and the head if it has a format. MLPs get separate calls.
inline std::vector<Work> plan_layers(Module& model, const QuantizationConfig& config, Loc loc) {
  std::vector<Work> work;
  Linear* const head = config.head.empty() ? nullptr : &head_of(model, loc);
  model.for_each_module([&](const std::string& path, Module& m) {
    auto* const layer = dynamic_cast<Linear*>(&m);
    if (!layer || layer == head || path == "head") return;
    work.push_back(plan(path, *layer, config.choose ? config.choose(path) : config.format, loc));
  });
  if (head && head->weight.defined()) work.push_back(plan("head", *head, config.head, loc));
  separate_mlps(model);
  return work;
}

inline std::vector<Work*> chosen(std::vector<Work>& work) {
  std::vector<Work*> out;
  for (Work& w : work)
    if (w.format) out.push_back(&w);
  return out;
}
inline LayerInputs observe(Module& model, const std::vector<Work*>& work, const Calibration& calibration,
                           Loc loc) {
  std::vector<LayerPlace> places;
  for (const Work* const w : work) places.push_back(w->place);
  const auto transformed = [&](size_t i, const Tensor& x) { return work[i]->transform.inputs(x); };
  return observe_inputs(model, places, calibration, transformed, loc);
}

// Scales of the channels, and their way into the layers before. Later layers first, because the scales of a
// layer change the rows of the layer that makes its inputs. A weight with scales is a new tensor: the given
// one may be shared with an embedding.
inline void scale_channels(const std::vector<Work*>& work, const LayerInputs& inputs,
                           const InputMakers& makers, const Method& method, const QuantizationConfig& config,
                           Loc loc) {
  for (size_t i = work.size(); i-- > 0;) {
    Linear& layer = *work[i]->place.layer;
    const Tensor s =
        channel_scales(method, layer.weight, inputs.statistics[i], *work[i]->format, config.alpha, loc);
    const auto known = makers.find(&layer);
    if (known == makers.end() || known->second.empty()) {
      work[i]->transform.scale = s, work[i]->row.inputs = "scaled";
      continue;
    }
    fold_scales_(known->second, {}, s, loc);
    const Tensor scaled = InputTransform{s}.weight(layer.weight);
    layer.weight = scaled.to(layer.weight.dtype()).to(layer.weight.device());
    work[i]->row.inputs = "folded";
  }
}

// Packs one layer. `inputs` are its inputs after its transform, or null.
inline void pack(Work& w, Rounding rounding, const InputStatistics* inputs, const QuantizationConfig& config,
                 Loc loc) {
  Linear& layer = *w.place.layer;
  const Tensor weight = w.transform.weight(layer.weight);
  const QuantizedTensor packed =
      round_weight(rounding, weight, inputs, *w.format, layer.weight.device(), config.damping, loc);
  w.row.bytes = packed.bytes();
  if (w.transform.scale.defined()) w.row.bytes += w.transform.scale.numel() * 4;
  w.row.sqnr = sqnr_db(weight, packed, loc);
  w.row.clipped = clipped_share(weight, packed, loc);
  if (config.measure) {  // the float layer is still needed
    w.packed = std::make_shared<QuantizedLinear>(packed, layer.bias, config.activations, w.transform);
    layer.replace(w.packed);
  } else {
    w.packed = replace_packed(layer, packed, config.activations, w.transform);
  }
}

inline void pack_all(Module& model, const std::vector<Work*>& work, const Method& method,
                     const QuantizationConfig& config, Loc loc) {
  if (work.empty()) return;
  const bool calibrated = !config.calibration.empty();
  std::optional<LayerInputs> inputs;
  if (calibrated) {
    const InputMakers makers = input_makers(model);
    inputs = observe(model, work, config.calibration, loc);
    if (method.scales()) scale_channels(work, *inputs, makers, method, config, loc);
  }
  if (method.channels == Channels::hadamard)
    for (Work* const w : work) w->transform.rotation = config.seed, w->row.inputs = "rotated";
  if (method.rounding != Rounding::gptq) {
    // Statistics of the inputs as they are after the scales.
    const bool again = calibrated && method.rounding == Rounding::mse && method.channels != Channels::plain;
    if (again) inputs = observe(model, work, config.calibration, loc);
    for (size_t i = 0; i < work.size(); ++i)
      pack(*work[i], method.rounding, inputs ? &inputs->statistics[i] : nullptr, config, loc);
    return;
  }
  const std::vector<size_t> order = inputs->order;
  inputs.reset();
  for (const size_t i : order) {
    const LayerInputs own = observe(model, {work[i]}, config.calibration, loc);
    pack(*work[i], method.rounding, &own.statistics[0], config, loc);
  }
}

// Fills the measured fields of the report, and lets the layers forget their float weights.
inline void measure_layers(Module& model, const std::vector<Work*>& work, const QuantizationConfig& config,
                           QuantizationReport& report, Loc loc) {
  std::vector<Tensor> exact, outputs;
  for (Work* const w : work) w->place.layer->replace(nullptr);
  exact = outputs_of(model, config.calibration, loc);
  for (Work* const w : work) {
    LayerTimer timer(*w->place.layer, *w->packed);
    outputs = outputs_of(model, config.calibration, loc);
    timer.measure(w->row.seconds_before, w->row.seconds);
    w->place.layer->replace(w->packed);
    outputs = outputs_of(model, config.calibration, loc);
    w->row.output_error = relative_error(exact, outputs), w->row.divergence = divergence(exact, outputs);
    w->place.layer->replace(nullptr);
  }
  for (Work* const w : work) {
    w->place.layer->replace(w->packed), w->place.layer->forget_own_tensors();
    w->place.layer->weight = w->place.layer->bias = Tensor();
  }
  outputs = outputs_of(model, config.calibration, loc);
  report.output_error = relative_error(exact, outputs), report.divergence = divergence(exact, outputs);
}

}  // namespace quantization

// Packs the linear layers of `model`, on its device. Throws TT-QUANT-01 for an unknown format, TT-QUANT-08
// for an unknown method, and TT-QUANT-06 if a head is asked for and the model has none. Throws TT-CALIB-02 if
// the method needs calibration data and there is none, or if a layer is never called with it, and TT-CALIB-01
// if it is not finite. These are found before a weight is changed. A layer that is packed already is left
// alone. Calls set by on_call() on linear layers are dropped if there is calibration data.
inline QuantizationReport quantize(Module& model, const QuantizationConfig& config, TT_LOC) {
  namespace q = quantization;
  const NoGrad no_grad;
  QuantizationReport report;
  report.method = config.method, report.bytes_before = q::bytes_of(model);
  (void)block_format(config.format, loc);
  if (!config.head.empty()) (void)block_format(config.head, loc);
  const q::Method method = q::method_of(config.method, loc);
  if ((method.needs_calibration() || config.measure) && config.calibration.empty()) {
    fail("TT-CALIB-02",
         "quantize: the method '" + config.method + "'" + (config.measure ? " with `measure`" : "") +
             " needs inputs of the model\n  hint: set `calibration` to a list of batches",
         loc);
  }
  std::vector<q::Work> work = q::plan_layers(model, config, loc);
  const std::vector<q::Work*> packed = q::chosen(work);
  q::pack_all(model, packed, method, config, loc);
  if (config.measure) q::measure_layers(model, packed, config, report, loc);
  for (q::Work& w : work) report.layers.push_back(std::move(w.row));
  report.bytes = q::bytes_of(model);
  return report;
}

}  // namespace tinytorch::inline TT_BUILD
