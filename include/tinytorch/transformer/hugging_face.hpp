// Loads and saves models in the format of Hugging Face's transformers: a folder with config.json and
// safetensors.
//
//   auto model = tt::load_language_model("gpt2");      // or load_gpt2_model, load_llama_model
//   tt::save_hugging_face(*model, "my_gpt2");          // from_pretrained("my_gpt2") reads it
//
// The weights are one model.safetensors, or shards listed in model.safetensors.index.json. bf16, f16, f32 or
// f64 values are converted to the requested dtype. The files are mapped, and the memory of each tensor is
// released when it was copied, so that loading needs little more than the model. The end tokens in
// generation_config.json, if it exists, override those in config.json. If config.json ties the head but the
// file has a head that differs from the embedding, the head is loaded untied, as in transformers 5, and the
// model's config.tied is false.
#pragma once

#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <tinytorch/io/mapped_file.hpp>
#include <tinytorch/layers/init.hpp>
#include <tinytorch/transformer/hugging_face_config.hpp>
#include <tinytorch/transformer/hugging_face_weights.hpp>
#include <tinytorch/transformer/kept_heads.hpp>
#include <type_traits>

namespace tinytorch::inline TT_BUILD {

struct LoadOptions {
  DType dtype = DType::f32;
  Device device = default_device();
};

namespace hugging_face {

inline std::string in_folder(const std::string& folder, const std::string& file) {
  return (std::filesystem::path(folder) / file).string();
}

// False also if the path cannot be examined; reading it will then throw an error with its name.
inline bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// Parses {"weight_map": {tensor: file}} and returns the tensors by file. The files must be in the folder of
// the index.
inline std::map<std::string, std::vector<std::string>> parse_shard_index(Bytes text, const std::string& name,
                                                                         TT_LOC) {
  const io::Source source{name, "an index of shards", loc};
  const Json json = parse_object(text, source);
  const Json* map = json.find("weight_map");
  if (!map || !map->object()) source.reject("an object weight_map", map ? map->kind() : "none");
  std::map<std::string, std::vector<std::string>> tensors;  // names by file
  for (const auto& [tensor, file] : *map->object()) {
    if (!file.string()) source.reject("file names in weight_map", file.kind());
    if (file.string()->empty() || file.string()->find_first_of("/\\") != std::string::npos)
      source.reject("names of files beside the index", io::in_quotes(*file.string()));
    tensors[*file.string()].push_back(tensor);
  }
  return tensors;
}

// The tensors of a model's files, which lie in the mapped files.
struct WeightFiles {
  TensorMap tensors{};
  std::vector<std::shared_ptr<const io::MappedFile>> files{};

  TensorMap add(const std::string& path, Loc loc) {
    files.push_back(std::make_shared<const io::MappedFile>(path, loc));
    return map_safetensors(files.back(), path, nullptr, loc);
  }
  // The memory of a tensor that was copied may be used for something else.
  void release(const Tensor& t) const {
    if (t.is_contiguous() && t.device().is_cpu() && t.numel() > 0)
      for (const auto& file : files) file->release({static_cast<const std::byte*>(t.raw()), t.bytes()});
  }
};

inline WeightFiles read_shards(const std::string& folder, const std::string& index, Loc loc) {
  const auto tensors = parse_shard_index(read_file(index, uint64_t{1} << 30, loc), index, loc);
  std::string missing;
  for (const auto& [file, names] : tensors)
    if (!exists(in_folder(folder, file))) missing += (missing.empty() ? "" : ", ") + file;
  if (!missing.empty()) {
    fail("TT-IO-01",
         "'" + index + "' names shards that are not in its folder: " + missing + "\n  hint: fetch all " +
             std::to_string(tensors.size()) + " of them",
         loc);
  }
  WeightFiles all;
  for (const auto& [file, names] : tensors) {
    const io::Source source{in_folder(folder, file), "a shard", loc};
    TensorMap shard = all.add(source.name, loc);
    for (const std::string& name : names) {
      if (shard.contains(name)) continue;
      source.reject(io::in_quotes(name) + ", which the index says is here", "none", "TT-IO-03",
                    "index and shards are of different versions: fetch all of them again");
    }
    for (const auto& [name, tensor] : shard)
      if (!all.tensors.emplace(name, tensor).second)
        source.reject("each tensor in one shard", io::in_quotes(name) + " a second time");
  }
  return all;
}

// Throws if the folder has weights, but in other files than those that are read. Returns if it has none.
inline void refuse_other_weights(const std::string& folder, Loc loc) {
  std::set<std::string> names;
  std::error_code ignored;  // a folder that cannot be read counts as empty
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string(), ending = entry.path().extension().string();
    const bool is_model = name.find("model") != std::string::npos || name.starts_with("consolidated");
    for (const char* known : {".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".gguf"})
      if (ending == known && (is_model || ending == ".gguf")) names.insert(name);
  }
  if (names.empty()) return;
  const io::Source source{in_folder(folder, *names.begin()), "safetensors", loc};
  std::array<char, 512> start{};
  std::ifstream file(source.name, std::ios::binary);
  file.read(start.data(), start.size());
  io::refuse_other_kind(as_bytes({start.data(), static_cast<size_t>(file.gcount())}), source);
  source.reject(
      "model.safetensors, or model.safetensors.index.json with its shards",
      io::in_quotes(*names.begin()) + " without them", "TT-IO-04",
      "rename a single file of the whole model to model.safetensors; of shards, fetch the index too");
}

inline WeightFiles read_weights(const std::string& folder, Loc loc) {
  const std::string index = in_folder(folder, "model.safetensors.index.json");
  const std::string single = in_folder(folder, "model.safetensors");
  if (!exists(single)) {
    if (exists(index)) return read_shards(folder, index, loc);
    refuse_other_weights(folder, loc);
  }
  WeightFiles all;
  all.tensors = all.add(single, loc);
  return all;
}

// Makes the model of `config` and calls fill(model, weights) with the files of the folder.
template <class Model, class Config, class Fill>
std::unique_ptr<Model> build_with(Config config, const std::string& folder, const LoadOptions& options,
                                  const Fill& fill, Loc loc) {
  const std::string generation = in_folder(folder, "generation_config.json");
  if (exists(generation))
    read_generation_config(read_file(generation, uint64_t{1} << 24, loc), config, generation, loc);
  const WeightFiles weights = read_weights(folder, loc);
  config.tied = config.tied && !has_own_head(weights.tensors);
  const init::WithoutInitialization values_come_from_the_file;
  auto model = std::make_unique<Model>(config);
  model->to(options.dtype, loc);
  model->to(options.device, loc);
  fill(*model, weights);
  model->eval();
  return model;
}

template <class Model, class Config>
std::unique_ptr<Model> build(const Config& config, const std::string& folder, const LoadOptions& options,
                             Loc loc) {
  const auto fill = [&](Model& model, const WeightFiles& weights) {
    for (const auto& [name, tensor] : weights.tensors) {
      if (!name.ends_with(".qweight")) continue;
      io::Source{folder, "a model", loc}.reject("weights of floats", io::in_quotes(name), "TT-IO-04",
                                                "load_int4_model() loads files of GPTQ and AWQ");
    }
    for (const Tensor& p : model.parameters())
      if (p.device().is_cpu()) io::use_large_pages(p.raw(), p.bytes());
    copy_in(
        layout_of(model), weights.tensors, folder, [&](const Tensor& t) { weights.release(t); }, loc);
  };
  return build_with<Model>(config, folder, options, fill, loc);
}

inline std::variant<Gpt2Config, LlamaConfig, DecoderConfig> read_config(const std::string& folder, Loc loc) {
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

// Calls f(config, std::type_identity<Model>()) for the class of model that config.json describes: a Gpt2, a
// Llama, or a Decoder for the other families (families.hpp).
template <class F>
auto for_model_class(const std::string& folder, F&& f, Loc loc) {
  const auto config = read_config(folder, loc);
  if (const auto* gpt2 = std::get_if<Gpt2Config>(&config)) return f(*gpt2, std::type_identity<Gpt2>());
  if (const auto* decoder = std::get_if<DecoderConfig>(&config))
    return f(*decoder, std::type_identity<Decoder>());
  return f(std::get<LlamaConfig>(config), std::type_identity<Llama>());
}

template <class Model>
void save(const std::string& folder, const Model& model, const std::string& config, Loc loc) {
  require_configured_sizes("save_hugging_face", model, loc);
  std::error_code ignored;  // a problem with the folder is reported when a file in it is written
  std::filesystem::create_directories(folder, ignored);
  save_safetensors(in_folder(folder, "model.safetensors"), copy_out(layout_of(model)), {{"format", "pt"}},
                   loc);
  write_file(in_folder(folder, "config.json"), config, loc);
  write_file(in_folder(folder, "generation_config.json"), write_generation_config(model.config), loc);
}

}  // namespace hugging_face

// Loads the model in `folder`, in evaluation mode. Throws TT-IO-01 for files that cannot be read, TT-IO-03
// for malformed files, TT-IO-04 for models and formats that this library does not support, and TT-NN-04 for
// weights that do not match config.json.
inline std::unique_ptr<Gpt2> load_gpt2_model(const std::string& folder, const LoadOptions& options = {},
                                             TT_LOC) {
  return hugging_face::build<Gpt2>(hugging_face::config_of<Gpt2Config>(folder, "gpt2", loc), folder, options,
                                   loc);
}
inline std::unique_ptr<Llama> load_llama_model(const std::string& folder, const LoadOptions& options = {},
                                               TT_LOC) {
  return hugging_face::build<Llama>(hugging_face::config_of<LlamaConfig>(folder, "llama", loc), folder,
                                    options, loc);
}
[[deprecated(
    "since 0.1.0: call load_gpt2_model(folder); load_gpt2 ends with 0.2.0")]] inline std::unique_ptr<Gpt2>
load_gpt2(const std::string& folder, const LoadOptions& options = {}, TT_LOC) {
  return load_gpt2_model(folder, options, loc);
}
[[deprecated("since 0.1.0: call load_llama_model; load_llama ends with 0.2.0")]] inline std::unique_ptr<Llama>
load_llama(const std::string& folder, const LoadOptions& options = {}, TT_LOC) {
  return load_llama_model(folder, options, loc);
}
// The model that config.json describes, of any family (families.hpp).
inline std::unique_ptr<LanguageModel> load_language_model(const std::string& folder,
                                                          const LoadOptions& options = {}, TT_LOC) {
  const auto build = [&]<class Model>(const auto& config, std::type_identity<Model>) {
    return std::unique_ptr<LanguageModel>(hugging_face::build<Model>(config, folder, options, loc));
  };
  return hugging_face::for_model_class(folder, build, loc);
}

// Writes model.safetensors in the model's dtype, config.json and generation_config.json, and creates the
// folder. Throws TT-IO-02 if they cannot be written, and TT-NN-24 for models other than Gpt2, Llama and
// Decoder, and for pruned ones.
inline void save_hugging_face(const Gpt2& model, const std::string& folder, TT_LOC) {
  const DType dtype = model.token_embedding.weight.dtype();
  hugging_face::save(folder, model, hugging_face::write_gpt2(model.config, dtype), loc);
}
inline void save_hugging_face(const Llama& model, const std::string& folder, TT_LOC) {
  const DType dtype = model.token_embedding.weight.dtype();
  hugging_face::save(folder, model, hugging_face::write_llama(model.config, dtype), loc);
}
inline void save_hugging_face(const Decoder& model, const std::string& folder, TT_LOC) {
  const DType dtype = model.token_embedding.weight.dtype();
  hugging_face::save(folder, model, hugging_face::write_family(model.config, dtype, loc), loc);
}
inline void save_hugging_face(const LanguageModel& model, const std::string& folder, TT_LOC) {
  if (const auto* gpt2 = dynamic_cast<const Gpt2*>(&model)) return save_hugging_face(*gpt2, folder, loc);
  if (const auto* llama = dynamic_cast<const Llama*>(&model)) return save_hugging_face(*llama, folder, loc);
  if (const auto* decoder = dynamic_cast<const Decoder*>(&model))
    return save_hugging_face(*decoder, folder, loc);
  fail("TT-NN-24", "save_hugging_face: only Gpt2, Llama and Decoder models can be saved in this format", loc);
}

}  // namespace tinytorch::inline TT_BUILD
