// Language models whose linear layers GPTQ or AWQ quantized to 4 bits, from a folder in Hugging Face's
// format.
//
//   auto model = load_int4_model("Llama-3.2-1B-GPTQ");       // int4_import.hpp describes the files
//   auto text = generate(*model, ...);
//
// A layer whose file has `qweight` stays packed; all other tensors are loaded as load_language_model does.
// The settings are "quantization_config" in config.json, quantize_config.json of AutoGPTQ, or
// quant_config.json of AutoAWQ. Q, k and v of a Llama are one layer here: parts of one format and one order
// of inputs become one packed weight, others stay apart.
#pragma once

#include <algorithm>
#include <map>
#include <tinytorch/quantization/int4_import.hpp>
#include <tinytorch/quantization/separate_mlp.hpp>
#include <tinytorch/transformer/hugging_face.hpp>

namespace tinytorch::inline TT_BUILD {

struct Int4ModelOptions {
  DType dtype = DType::f32;  // of everything that is not packed
  Device device = default_device();
  Activations activations = Activations::floats;  // as these methods assume
};

namespace quantization {

// The settings of the folder. Throws TT-IO-04 if no file has any.
inline Int4Config int4_config_of(const std::string& folder, Loc loc) {
  const auto text_of = [&](const std::string& path) { return read_file(path, uint64_t{1} << 24, loc); };
  const std::string config = hugging_face::in_folder(folder, "config.json");
  const std::vector<std::byte> text = text_of(config);
  const io::Source source{config, "the configuration of a model", loc};
  if (hugging_face::parse_object(text, source).find("quantization_config"))
    return parse_int4_config(text, config, loc);
  for (const char* name : {"quantize_config.json", "quant_config.json"}) {
    const std::string path = hugging_face::in_folder(folder, name);
    if (hugging_face::exists(path)) return parse_int4_config(text_of(path), path, loc);
  }
  source.reject("quantization_config, or quantize_config.json or quant_config.json beside it", "none",
                "TT-IO-04", "load_language_model() loads models whose weights are floats");
}

// Fills a model from files in which some linear layers are packed.
template <class Model>
class Int4Filler {
 public:
  Int4Filler(Model& model, const std::string& folder, const Int4Config& config,
             const Int4ModelOptions& options, Loc loc)
      : model_(model), folder_(folder), config_(config), options_(options), loc_(loc) {
    model.for_each_module([&](const std::string&, Module& m) {
      if (auto* const layer = dynamic_cast<Linear*>(&m)) layers_[layer->weight.storage().get()] = layer;
    });
  }

  void run(const hugging_face::WeightFiles& weights) {
    const NoGrad no_grad;
    hugging_face::FileLayout floats = hugging_face::layout_of(model_);
    file_ = hugging_face::without_prefix(floats, weights.tensors);
    std::vector<hugging_face::FileTensor> all;
    std::swap(all, floats.tensors);
    for (const hugging_face::FileTensor& t : all) names_.insert(t.name);
    for (const hugging_face::FileTensor& t : all)
      if (!take_packed(t)) floats.tensors.push_back(t);
    hugging_face::copy_in(
        floats, file_, folder_, [&](const Tensor& t) { weights.release(t); }, loc_);
    if (!ranges_.empty()) separate_mlps(model_);
    for (auto& [layer, ranges] : ranges_) {
      std::sort(ranges.begin(), ranges.end(),
                [](const PackedRows& a, const PackedRows& b) { return a.first < b.first; });
      replace_rows(*layer, ranges, options_.activations);
    }
  }

 private:
  // If the file has packed codes for the weight `t`, reads them, removes their tensors from the file, and
  // returns true.
  bool take_packed(const hugging_face::FileTensor& t) {
    constexpr std::string_view kWeight = ".weight";
    if (!t.name.ends_with(kWeight)) return false;
    const std::string base = t.name.substr(0, t.name.size() - kWeight.size());
    const auto layer = layers_.find(t.view.storage().get());
    if (layer == layers_.end() || !file_.contains(base + ".qweight")) return false;
    const Tensor& whole = layer->second->weight;
    const int64_t K = whole.size(1), rows = t.view.numel() / std::max<int64_t>(K, 1);
    const Int4Weight w = read_int4(file_, base, config_, loc_);
    if (!(w.weight.shape() == Shape{rows, K})) {
      fail("TT-NN-04",
           "loading " + io::in_quotes(folder_) + ": " + base + ".qweight has codes of a weight " +
               w.weight.shape().str() + ", the model of config.json has " + Shape{rows, K}.str(),
           loc_);
    }
    const int64_t first = (t.view.offset() - whole.offset()) / std::max<int64_t>(K, 1);
    const Tensor order = w.input_order.defined() ? w.input_order.to(options_.device, loc_) : Tensor();
    ranges_[layer->second].push_back({first, w.weight.to(options_.device, loc_), order});
    for (const char* part : {".qweight", ".qzeros", ".scales", ".g_idx"}) file_.erase(base + part);
    // Older files have a bias of zeros where the model has none.
    const auto bias = file_.find(base + ".bias");
    if (bias != file_.end() && !names_.contains(bias->first) && all(bias->second == 0).template item<bool>())
      file_.erase(bias);
    return true;
  }

  Model& model_;
  const std::string& folder_;
  const Int4Config& config_;
  const Int4ModelOptions& options_;
  Loc loc_;
  TensorMap file_;
  std::set<std::string> names_;
  std::map<const Storage*, Linear*> layers_;
  std::map<Linear*, std::vector<PackedRows>> ranges_;
};

}  // namespace quantization

// Loads the model in `folder`, in evaluation mode. Throws as load_language_model and read_int4 do, TT-IO-04
// if the folder has no settings of GPTQ or AWQ, and TT-NN-04 for codes of another shape.
inline std::unique_ptr<LanguageModel> load_int4_model(const std::string& folder,
                                                      const Int4ModelOptions& options = {}, TT_LOC) {
  const Int4Config settings = quantization::int4_config_of(folder, loc);
  const auto build = [&]<class Model>(const auto& config, std::type_identity<Model>) {
    const auto fill = [&](Model& model, const hugging_face::WeightFiles& weights) {
      quantization::Int4Filler<Model>(model, folder, settings, options, loc).run(weights);
    };
    const LoadOptions load{options.dtype, options.device};
    return std::unique_ptr<LanguageModel>(hugging_face::build_with<Model>(config, folder, load, fill, loc));
  };
  return hugging_face::for_model_class(folder, build, loc);
}

}  // namespace tinytorch::inline TT_BUILD
