// Entries with packed weights: model.json and packed.safetensors, without float weights. They are packed by
// quantizer.json (quantizer_spec.hpp) from the weights of another entry.
#pragma once

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <tinymlperf/entries/quantizer_spec.hpp>
#include <tinymlperf/entries/text_model.hpp>
#include <tinytorch/quantization/files.hpp>
#include <vector>

namespace tinymlperf {

namespace detail {

// The samples of these numbers, as the model takes them: together, in batches of 32.
inline std::vector<tt::Tensor> calibration_batches(const tt::Tensor& inputs,
                                                   const std::vector<int64_t>& ids) {
  constexpr size_t kTogether = 32;
  std::vector<tt::Tensor> out;
  for (size_t i = 0; i < ids.size(); i += kTogether) {
    const std::vector<int64_t> some(
        ids.begin() + static_cast<std::ptrdiff_t>(i),
        ids.begin() + static_cast<std::ptrdiff_t>(std::min(ids.size(), i + kTogether)));
    out.push_back(tt::index_select(inputs, 0, tt::from_data(some, {static_cast<int64_t>(some.size())})));
  }
  return out;
}

// The declared format must be what most weights are in: floats behind its name are refused.
inline void require_packed(const tt::QuantizationReport& report, const std::string& format) {
  int64_t all = 0, packed = 0;
  for (const tt::QuantizedLayer& layer : report.layers) {
    all += layer.shape.numel();
    if (!layer.format.empty()) packed += layer.shape.numel();
  }
  if (2 * packed < all || all == 0)
    throw Refusal(kQuantizerFile, "format",
                  "at least half of the weights of linear layers in " + format + " or another packed format",
                  std::to_string(packed) + " of " + std::to_string(all) + " weights");
}

}  // namespace detail

// Packs the weights of the entry in `baseline` as `q` says, and writes them to the file `out`. Throws Refusal
// for other layers than the baseline's, and tinytorch::Error where the library refuses.
inline tt::QuantizationReport pack_weights(const std::filesystem::path& baseline, const EntrySpec& spec,
                                           const QuantizerSpec& q, const std::filesystem::path& out) {
  const Task& task = task_of(spec.benchmark);
  auto [from, weights] = detail::read_entry(baseline, task);
  if (layers_of_spec(from) != layers_of_spec(spec))
    throw Refusal(kModelFile, "layers", "those of the baseline, whose weights are packed", "others");
  const std::shared_ptr<tt::Module> model = build_float_model(from);
  tt::StateDict state = model->state_dict();
  for (const auto& [name, tensor] : weights) state[name] = tensor;
  model->load_state_dict(state);
  model->eval();
  tt::QuantizationConfig config;
  config.format = q.format, config.head = q.head, config.method = q.method;
  config.activations = q.activations == "int8" ? tt::Activations::int8 : tt::Activations::floats;
  config.seed = static_cast<uint64_t>(q.seed);
  config.choose = [&](const std::string& path) {
    const auto found = q.layers.find(path);
    return found == q.layers.end() ? q.format : found->second;
  };
  if (!q.calibration.empty()) {
    const TrainingData data = training_data(spec.benchmark, training_size(spec.benchmark));
    config.calibration = detail::calibration_batches(data.inputs, q.calibration);
  }
  const tt::QuantizationReport report = tt::quantize(*model, config);
  detail::require_packed(report, q.format);
  tt::save_packed(*model, out.string());
  return report;
}

// The quantizer of an entry's folder. Throws Refusal.
inline QuantizerSpec read_quantizer(const std::filesystem::path& entry, const std::string& benchmark) {
  const std::string text = detail::read_limited(entry / kQuantizerFile, limits::kQuantizerBytes);
  require_short_description(static_cast<int64_t>(text.size()),
                            detail::require_size(entry / kPackedFile, limits::kWeightBytes));
  return parse_quantizer(text, training_size(benchmark).training);
}

// Packs again for the judge, to the file `out`: the baseline's weights by the entry's quantizer, or, without
// a baseline, the entry's own packed weights, so that whatever the file holds besides them is lost.
inline void pack_again(const std::filesystem::path& entry, const std::filesystem::path& baseline,
                       const std::filesystem::path& out) {
  const std::string text = detail::read_limited(entry / kModelFile, limits::kJsonBytes);
  const EntrySpec spec = parse_entry(text, task_of(benchmark_of(text)));
  if (!baseline.empty()) {
    (void)pack_weights(baseline, spec, read_quantizer(entry, spec.benchmark), out);
  } else {
    tt::save_packed(*load_packed_model(entry, spec), out.string());
  }
}

}  // namespace tinymlperf
