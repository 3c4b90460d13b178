// Models as Hugging Face's transformers keeps them: a folder with config.json and safetensors.
//
//   auto model = tt::load_language_model("gpt2");      // or load_gpt2, load_llama
//   tt::save_hugging_face(*model, "my_gpt2");          // from_pretrained("my_gpt2") reads it
//
// The weights are one model.safetensors, or shards named by model.safetensors.index.json; bf16, f16, f32 or
// f64 are converted to the dtype that was asked for. While loading, the file's tensors and the model are both
// in memory.
#pragma once

#include <filesystem>
#include <tinytorch/transformer/hugging_face_config.hpp>
#include <tinytorch/transformer/hugging_face_weights.hpp>

namespace tinytorch::inline TT_BUILD {

struct LoadOptions {
  DType dtype = DType::f32;
  Device device = default_device();
};

namespace hugging_face {

inline std::string in_folder(const std::string& folder, const std::string& file) {
  return (std::filesystem::path(folder) / file).string();
}

// The distinct files of {"weight_map": {tensor: file}}. They must lie in the index's own folder.
inline std::set<std::string> parse_shard_index(Bytes text, const std::string& name, TT_LOC) {
  const Json json = parse_json(text, name, {}, loc);
  const io::Source source{name, "an index of shards", loc};
  const Json* map = json.find("weight_map");
  if (!map || !map->object()) source.reject("an object weight_map", map ? map->kind() : "none");
  std::set<std::string> files;
  for (const auto& [tensor, file] : *map->object()) {
    if (!file.string()) source.reject("file names in weight_map", file.kind());
    if (file.string()->empty() || file.string()->find_first_of("/\\") != std::string::npos)
      source.reject("names of files beside the index", io::in_quotes(*file.string()));
    files.insert(*file.string());
  }
  return files;
}

inline TensorMap read_weights(const std::string& folder, Loc loc) {
  const std::string index = in_folder(folder, "model.safetensors.index.json");
  const std::string single = in_folder(folder, "model.safetensors");
  std::error_code ignored;  // what cannot be looked at cannot be read either, and reading names it
  if (std::filesystem::exists(single, ignored) || !std::filesystem::exists(index, ignored)) {
    return load_safetensors(single, nullptr, loc);
  }
  TensorMap all;
  for (const std::string& file : parse_shard_index(read_file(index, uint64_t{1} << 30, loc), index, loc)) {
    const std::string path = in_folder(folder, file);
    for (const auto& [name, tensor] : load_safetensors(path, nullptr, loc)) {
      if (all.emplace(name, tensor).second) continue;
      io::Source{path, "a shard", loc}.reject("each tensor in one shard",
                                              io::in_quotes(name) + " a second time");
    }
  }
  return all;
}

template <class Model, class Config>
std::unique_ptr<Model> build(const Config& config, const std::string& folder, const LoadOptions& options,
                             Loc loc) {
  auto model = std::make_unique<Model>(config);
  model->to(options.dtype, loc);
  model->to(options.device, loc);
  copy_in(layout_of(*model), read_weights(folder, loc), folder, loc);
  model->eval();
  return model;
}

inline std::variant<Gpt2Config, LlamaConfig> read_config(const std::string& folder, Loc loc) {
  const std::string path = in_folder(folder, "config.json");
  return parse_hugging_face_config(read_file(path, uint64_t{1} << 24, loc), path, loc);
}

template <class Config>
Config config_of(const std::string& folder, const char* expected, Loc loc) {
  const auto config = read_config(folder, loc);
  if (const Config* found = std::get_if<Config>(&config)) return *found;
  fail("TT-IO-04",
       "the model in '" + folder + "' is not of model_type " + expected +
           "\n  hint: load_language_model() builds what the folder holds",
       loc);
}

template <class Model>
void save(const std::string& folder, const Model& model, const std::string& config, Loc loc) {
  std::error_code ignored;  // what is wrong with the folder, writing into it will say
  std::filesystem::create_directories(folder, ignored);
  save_safetensors(in_folder(folder, "model.safetensors"), copy_out(layout_of(model)), {{"format", "pt"}},
                   loc);
  write_file(in_folder(folder, "config.json"), config, loc);
}

}  // namespace hugging_face

// The model in `folder`, in evaluation mode.
inline std::unique_ptr<Gpt2> load_gpt2(const std::string& folder, const LoadOptions& options = {}, TT_LOC) {
  return hugging_face::build<Gpt2>(hugging_face::config_of<Gpt2Config>(folder, "gpt2", loc), folder, options,
                                   loc);
}
inline std::unique_ptr<Llama> load_llama(const std::string& folder, const LoadOptions& options = {}, TT_LOC) {
  return hugging_face::build<Llama>(hugging_face::config_of<LlamaConfig>(folder, "llama", loc), folder,
                                    options, loc);
}
// Whichever of them config.json describes.
inline std::unique_ptr<LanguageModel> load_language_model(const std::string& folder,
                                                          const LoadOptions& options = {}, TT_LOC) {
  const auto config = hugging_face::read_config(folder, loc);
  if (const auto* gpt2 = std::get_if<Gpt2Config>(&config))
    return hugging_face::build<Gpt2>(*gpt2, folder, options, loc);
  return hugging_face::build<Llama>(std::get<LlamaConfig>(config), folder, options, loc);
}

// Writes config.json and model.safetensors in the model's dtype; makes the folder.
inline void save_hugging_face(const Gpt2& model, const std::string& folder, TT_LOC) {
  const DType dtype = model.token_embedding.weight.dtype();
  hugging_face::save(folder, model, hugging_face::write_gpt2(model.config, dtype), loc);
}
inline void save_hugging_face(const Llama& model, const std::string& folder, TT_LOC) {
  const DType dtype = model.token_embedding.weight.dtype();
  hugging_face::save(folder, model, hugging_face::write_llama(model.config, dtype), loc);
}
inline void save_hugging_face(const LanguageModel& model, const std::string& folder, TT_LOC) {
  if (const auto* gpt2 = dynamic_cast<const Gpt2*>(&model)) return save_hugging_face(*gpt2, folder, loc);
  if (const auto* llama = dynamic_cast<const Llama*>(&model)) return save_hugging_face(*llama, folder, loc);
  fail("TT-NN-24", "save_hugging_face: only Gpt2 and Llama have a form at Hugging Face", loc);
}

}  // namespace tinytorch::inline TT_BUILD
