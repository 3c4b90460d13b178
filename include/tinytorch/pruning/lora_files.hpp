// Files of LoRA adapters as the library PEFT writes and reads them: a folder with adapter_config.json and
// adapter_model.safetensors.
//
//   save_lora(model, "adapter");            // of a model with attach_lora()
//   load_lora(other, "adapter");            // PeftModel.from_pretrained(base, "adapter") reads it, too
//
// The tensors are base_model.model.NAME.lora_A.weight [r, K] and ....lora_B.weight [N, r]; the config has r,
// lora_alpha, the names of the layers, and options. What would change the sum and is not built here (DoRA,
// trained biases, saved whole layers, ranks that are scaled by name) is refused.
#pragma once

#include <map>
#include <tinytorch/io/json.hpp>
#include <tinytorch/io/safetensors.hpp>
#include <tinytorch/pruning/lora.hpp>
#include <tinytorch/quantization/model.hpp>
#include <tinytorch/transformer/hugging_face.hpp>

namespace tinytorch::inline TT_BUILD {

namespace pruning {

inline constexpr const char* kLoraPrefix = "base_model.model.";

// The options of an adapter_config.json.
class LoraConfigReader {
 public:
  LoraConfigReader(const Json& json, const io::Source& source) : json_(json), source_(source) {}

  LoraOptions run() const {
    const Json* const type = json_.find("peft_type");
    if (!type || !type->string() || *type->string() != "LORA")
      source_.reject("\"peft_type\": \"LORA\"", type && type->string() ? *type->string() : "none",
                     "TT-IO-04");
    for (const char* key :
         {"use_dora", "use_qalora", "lora_bias", "alora_invocation_tokens", "modules_to_save",
          "layer_replication", "trainable_token_indices", "target_parameters", "megatron_config"})
      require_unused(key);
    const Json* const bias = json_.find("bias");
    if (bias && (!bias->string() || *bias->string() != "none"))
      source_.reject("\"bias\": \"none\"", bias->string() ? *bias->string() : bias->kind(), "TT-IO-04");
    LoraOptions o;
    o.rank = static_cast<int64_t>(number("r", 1));
    o.alpha = number("lora_alpha", 0);
    o.dropout = json_.find("lora_dropout") ? number("lora_dropout", 0) : 0;
    const Json* const root = json_.find("use_rslora");
    o.root_scaled = root && root->boolean() && *root->boolean();
    if (!(o.dropout < 1)) source_.reject("a lora_dropout below 1", std::to_string(o.dropout));
    return o;
  }

 private:
  void require_unused(const char* key) const {
    const Json* const found = json_.find(key);
    if (!found || found->is_null() || (found->boolean() && !*found->boolean()) ||
        (found->object() && found->object()->empty()) || (found->array() && found->array()->empty()))
      return;
    source_.reject(std::string("no ") + key, found->kind(), "TT-IO-04",
                   "this kind of adapter is not built here; merge it by PEFT and load the whole model");
  }
  double number(const char* key, double least) const {
    const Json* const found = json_.find(key);
    if (!found || !found->number() || !(found->number()->real >= least) || found->number()->real > 1e6)
      source_.reject(std::string("a number ") + key + " of at least " + std::to_string(least),
                     found ? found->kind() : "none");
    return found->number()->real;
  }
  const Json& json_;
  const io::Source& source_;
};

// The alpha of an adapter without rsLoRA.
inline double alpha_of(const LoraPart& p) { return p.scale * static_cast<double>(p.A.size(0)); }

inline std::string lora_config_text(const Module& model, const std::vector<const LoraPart*>& parts,
                                    double dropout) {
  const auto number = [](double x) {
    char text[32];
    std::snprintf(text, sizeof text, "%.17g", x);
    return std::string(text);
  };
  const int64_t rank = parts[0]->A.size(0);
  const double alpha = alpha_of(*parts[0]);
  std::string names, ranks, alphas;
  const auto list = [](std::string& all, const std::string& one) { all += (all.empty() ? "" : ", ") + one; };
  for (const LoraPart* const p : parts) {
    const std::string name = to_json_string(p->name);
    list(names, name);
    if (p->A.size(0) != rank) list(ranks, name + ": " + std::to_string(p->A.size(0)));
    if (std::abs(alpha_of(*p) - alpha) > 1e-12 * std::abs(alpha))
      list(alphas, name + ": " + number(alpha_of(*p)));
  }
  const bool language = quantization::has_head(model), gpt2 = dynamic_cast<const Gpt2*>(&model) != nullptr;
  return "{\n  \"peft_type\": \"LORA\",\n  \"task_type\": " +
         std::string(language ? "\"CAUSAL_LM\"" : "null") + ",\n  \"base_model_name_or_path\": null,\n" +
         "  \"r\": " + std::to_string(rank) + ",\n  \"lora_alpha\": " + number(alpha) +
         ",\n  \"lora_dropout\": " + number(dropout) + ",\n  \"target_modules\": [" + names +
         "],\n  \"rank_pattern\": {" + ranks + "},\n  \"alpha_pattern\": {" + alphas +
         "},\n  \"bias\": \"none\",\n  \"fan_in_fan_out\": " + (gpt2 ? "true" : "false") +
         ",\n  \"use_rslora\": false,\n  \"inference_mode\": true\n}\n";
}

// The alpha of each place: that of the config, or of the entry of alpha_pattern that names it.
inline std::map<std::string, double> lora_alphas(const Json& json, const std::vector<LoraPlace>& places,
                                                 double alpha, const io::Source& source) {
  std::map<std::string, double> out;
  for (const LoraPlace& p : places) out[p.name] = alpha;
  const Json* const pattern = json.find("alpha_pattern");
  if (!pattern || !pattern->object()) return out;
  for (const auto& [key, value] : *pattern->object()) {
    bool used = false;
    for (const LoraPlace& p : places)
      if (p.is(key) && value.number()) out[p.name] = value.number()->real, used = true;
    if (!used)
      source.reject("names of layers with numbers in alpha_pattern", io::in_quotes(key), "TT-IO-04",
                    "patterns that are regular expressions are not built here");
  }
  return out;
}

}  // namespace pruning

// Writes the adapters into `folder`, which is created. lora_alpha is the scale times r, so that the file has
// the same meaning without rsLoRA. Throws TT-PRUNE-09 if there are none, and TT-IO-02 if a file cannot be
// written.
inline void save_lora(Module& model, const std::string& folder, TT_LOC) {
  StateDict tensors;
  std::vector<const LoraPart*> parts;
  double dropout = 0;
  for (const LoraLinear* const layer : pruning::lora_layers(model)) {
    dropout = layer->drop.p;
    for (const LoraPart& p : layer->parts()) {
      parts.push_back(&p);
      const std::string name = pruning::kLoraPrefix + p.name;
      tensors.emplace(name + ".lora_A.weight", p.A.detach());
      tensors.emplace(name + ".lora_B.weight", p.B.detach());
    }
  }
  if (parts.empty()) pruning::refuse_lora("save_lora: the model has no adapters", loc);
  std::error_code ignored;  // a problem with the folder is reported when a file in it is written
  std::filesystem::create_directories(folder, ignored);
  write_file(hugging_face::in_folder(folder, "adapter_config.json"),
             pruning::lora_config_text(model, parts, dropout), loc);
  save_safetensors(hugging_face::in_folder(folder, "adapter_model.safetensors"), tensors, {{"format", "pt"}},
                   loc);
}

// Attaches the adapters of a folder to a model without any, in the dtype of its weights. Nothing is changed
// if something does not fit. Returns how many. Throws TT-IO-01 and TT-IO-03 for files that cannot be read,
// TT-IO-04 for kinds of adapters that are not built here, TT-NN-04 if names or shapes do not fit the model,
// and TT-PRUNE-09 if it has adapters.
inline int64_t load_lora(Module& model, const std::string& folder, TT_LOC) {
  const NoGrad no_grad;
  if (!pruning::lora_layers(model).empty())
    pruning::refuse_lora("load_lora: the model has adapters\n  hint: merge_lora() or drop_lora() first", loc);
  const std::string config_path = hugging_face::in_folder(folder, "adapter_config.json"),
                    path = hugging_face::in_folder(folder, "adapter_model.safetensors");
  const auto text = read_file(config_path, uint64_t{1} << 24, loc);
  const io::Source source{config_path, "the config of a LoRA adapter", loc};
  const Json json = hugging_face::parse_object(text, source);
  LoraOptions o = pruning::LoraConfigReader(json, source).run();
  TensorMap given = load_safetensors(path, nullptr, loc);
  std::vector<LoraPlace> chosen;
  std::map<std::string, std::pair<Tensor, Tensor>> parts;
  const auto refuse = [&](const std::string& what) {
    fail("TT-NN-04", "load_lora: " + io::in_quotes(path) + " " + what, loc);
  };
  for (const LoraPlace& place : lora_places(model)) {
    const std::string name = pruning::kLoraPrefix + place.name;
    auto A = given.extract(name + ".lora_A.weight"), B = given.extract(name + ".lora_B.weight");
    if (!A && !B) continue;
    const int64_t K = place.layer->weight.size(1);
    if (!A || !B) refuse("has only one factor for " + io::in_quotes(place.name));
    const Tensor &a = A.mapped(), &b = B.mapped();
    if (a.rank() != 2 || !is_floating(a.dtype()) || !is_floating(b.dtype()) || a.size(1) != K ||
        !(b.shape() == Shape{place.rows, a.size(0)}) || a.size(0) < 1)
      refuse("has " + a.describe() + " and " + b.describe() + " for " + io::in_quotes(place.name) +
             "\n  rule: lora_A [r, " + std::to_string(K) + "], lora_B [" + std::to_string(place.rows) +
             ", r]");
    chosen.push_back(place), parts[place.name] = {a, b};
  }
  if (!given.empty())
    refuse("has " + io::in_quotes(given.begin()->first) +
           ", for which the model has no linear layer\n  hint: build the base model of this adapter");
  if (chosen.empty()) refuse("has no adapters");
  const std::map<std::string, double> alphas = pruning::lora_alphas(json, chosen, o.alpha, source);
  pruning::attach_parts(model, chosen, o.dropout, [&](const LoraPlace& place) {
    const auto& [a, b] = parts.at(place.name);
    o.rank = a.size(0), o.alpha = alphas.at(place.name);
    const Tensor& w = place.layer->weight;
    const auto like = [&](const Tensor& t) { return t.to(w.dtype()).to(w.device()); };
    return LoraPart{place.name, place.first, place.rows, like(a), like(b), o.scale()};
  });
  return static_cast<int64_t>(chosen.size());
}

}  // namespace tinytorch::inline TT_BUILD
