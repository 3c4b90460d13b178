// Loads and saves GPT-2 and Llama models as GGUF, the files of llama.cpp.
//
//   auto model = tt::load_gguf("model.gguf");
//   tt::save_gguf(*model, "copy.gguf");         // llama.cpp reads it
//
// Tensors are read one after the other, so that memory holds the model and one tensor. Values of the plain
// types F32, F16, BF16 and F64 are converted to the requested dtype; other types are decoded by the function
// `values` of the options, or stay packed with load_packed_gguf (quantization/gguf.hpp). A vocabulary in the
// file is not read: a tokenizer is loaded from its own file.
#pragma once

#include <tinytorch/transformer/gguf_weights.hpp>
#include <tinytorch/transformer/kept_heads.hpp>

namespace tinytorch::inline TT_BUILD {

struct GgufLoadOptions {
  DType dtype = DType::f32;
  Device device = default_device();
  // Returns the values of a tensor of the file with its shape, in any floating-point dtype. Without it, types
  // of blocks are refused before anything is read.
  std::function<Tensor(const GgufFile&, const GgufTensorInfo&)> values{};
};

struct GgufSaveOptions {
  // Returns what is written for the tensor of that name. Without it, matrices are written in their own dtype,
  // and vectors and positions of a 16-bit model as F32, as llama.cpp requires.
  std::function<GgufTensorData(const std::string& name, const Tensor& t)> tensor{};
  GgufMetadata metadata{};  // further entries, or other values for the keys of the model
};

namespace gguf {

// Throws TT-IO-04 for types that tensor_from_ggml does not decode to floating-point values.
inline void require_plain(const GgufFile& file, Loc loc) {
  for (const GgufTensorInfo& t : file.tensors) {
    const std::optional<DType> dtype = plain_dtype(*t.type);
    if (dtype && is_floating(*dtype)) continue;
    const io::Source source{file.name, "a model", loc};
    source.reject("weights of the types F32 F16 BF16 F64", t.describe(), "TT-IO-04",
                  "keep packed types with load_packed_gguf (quantization/gguf.hpp), or decode them with "
                  "GgufLoadOptions::values");
  }
}

template <class Model, class Config>
std::unique_ptr<LanguageModel> build(const GgufFile& file, const Config& config,
                                     const GgufLoadOptions& options, Loc loc) {
  auto model = std::make_unique<Model>(config);
  require_same_table(file, layout_of(*model), loc);
  model->to(options.dtype, loc);
  model->to(options.device, loc);
  for (const Place& place : layout_of(*model)) {
    const GgufTensorInfo& info = *file.find(place.name);
    copy_in(place, options.values ? options.values(file, info) : file.tensor(info, loc), loc);
  }
  model->eval();
  return model;
}

// The dtype in which a tensor is written: vectors and positions are F32 also in a 16-bit model.
inline DType written_dtype(const Place& place) {
  const bool widen = is_16_bit(place.ours.dtype()) && (place.ours.rank() == 1 || place.name == kPositions);
  return widen ? DType::f32 : place.ours.dtype();
}

// The number that llama.cpp gives files most of whose values have this type.
inline std::optional<uint32_t> file_type_of(DType dtype) {
  if (dtype == DType::f32) return 0;
  if (dtype == DType::f16) return 1;
  if (dtype == DType::bf16) return 32;
  return std::nullopt;
}

template <class Model>
void save(const Model& model, GgufContent content, const std::string& path, const GgufSaveOptions& options,
          Loc loc) {
  bool has_blocks = false;
  for (const Place& place : layout_of(model)) {
    if (!place.ours.defined()) {
      fail("TT-IO-02",
           "save_gguf: another module stands in the place of the layer of " + io::in_quotes(place.name) +
               "\n  hint: models with packed weights are saved by save_packed_gguf (quantization/gguf.hpp)",
           loc);
    }
    if (options.tensor) {
      content.tensors.push_back(options.tensor(place.name, copy_out(place)));
      has_blocks = has_blocks || content.tensors.back().type->block > 1;
      continue;
    }
    const DType dtype = written_dtype(place);
    const auto bytes = [place, dtype, loc] {
      return io::bytes_of_tensor(copy_out(place).to(dtype, loc), loc);
    };
    content.tensors.push_back(GgufTensorData{place.name, ggml_type_of(dtype), place.ours.shape(), bytes});
  }
  const auto type = file_type_of(model.token_embedding.weight.dtype());
  if (type && !options.tensor) content.metadata.set("general.file_type", *type);
  if (has_blocks) content.metadata.set("general.quantization_version", uint32_t{2});
  for (const auto& [key, value] : options.metadata) content.metadata.set(key, value);
  write_gguf(path, content, loc);
}

}  // namespace gguf

namespace gguf {

// Opens the file of a model, and returns its architecture, "gpt2" or "llama", too.
inline std::pair<GgufFile, std::string> open_model(const std::string& path, Loc loc) {
  GgufFile file = open_gguf(path, loc);
  const io::Source source{path, "a model", loc};
  const GgufValue* parts = file.metadata.find("split.count");
  if (parts && parts->integer().value_or(2) > 1) {
    source.reject("a whole model", "one of " + std::to_string(parts->integer().value_or(0)) + " parts",
                  "TT-IO-04", "join the parts first: llama-gguf-split --merge");
  }
  const GgufValue* architecture = file.metadata.find("general.architecture");
  const std::string name = architecture && architecture->text() ? *architecture->text() : "";
  if (name != "gpt2" && name != "llama") {
    source.reject("general.architecture gpt2 or llama", name.empty() ? "none" : io::in_quotes(name),
                  "TT-IO-04");
  }
  return {std::move(file), name};
}

// Makes the metadata of the file, which stands before the weights.
inline GgufContent content_of(const Gpt2& model, Loc loc) {
  require_configured_sizes("save_gguf", model, loc);
  return {write_gpt2(model.config, loc), {}};
}
inline GgufContent content_of(const Llama& model, Loc loc) {
  require_configured_sizes("save_gguf", model, loc);
  GgufContent content{write_llama(model.config, loc), {}};
  if (model.config.rotary.scaling) {
    const std::vector<float> factors = rope_factors(model.kv_shape().head_size, model.config.rotary);
    content.tensors.push_back(
        gguf_tensor(kRopeFactors, from_data(factors, {static_cast<int64_t>(factors.size())}, cpu)));
  }
  return content;
}

}  // namespace gguf

// Loads the model in the file, a Gpt2 or a Llama, in evaluation mode. Throws TT-IO-01 for a file that cannot
// be read, TT-IO-03 for a malformed one, TT-IO-04 for models, settings and types that are not supported, and
// TT-NN-04 for tensors that do not fit the metadata.
inline std::unique_ptr<LanguageModel> load_gguf(const std::string& path, const GgufLoadOptions& options = {},
                                                TT_LOC) {
  const auto [file, architecture] = gguf::open_model(path, loc);
  if (!options.values) gguf::require_plain(file, loc);
  if (architecture == "gpt2") return gguf::build<Gpt2>(file, gguf::read_gpt2(file, loc), options, loc);
  return gguf::build<Llama>(file, gguf::read_llama(file, loc), options, loc);
}

// Writes the model in its dtype. An existing file is replaced only when the new one is complete. Throws
// TT-IO-02 if it cannot be written or if GGUF cannot express a setting, and TT-NN-24 for models other than
// Gpt2 and Llama, and for pruned ones.
inline void save_gguf(const Gpt2& model, const std::string& path, const GgufSaveOptions& options = {},
                      TT_LOC) {
  gguf::save(model, gguf::content_of(model, loc), path, options, loc);
}
inline void save_gguf(const Llama& model, const std::string& path, const GgufSaveOptions& options = {},
                      TT_LOC) {
  gguf::save(model, gguf::content_of(model, loc), path, options, loc);
}
inline void save_gguf(const LanguageModel& model, const std::string& path,
                      const GgufSaveOptions& options = {}, TT_LOC) {
  if (const auto* gpt2 = dynamic_cast<const Gpt2*>(&model)) return save_gguf(*gpt2, path, options, loc);
  if (const auto* llama = dynamic_cast<const Llama*>(&model)) return save_gguf(*llama, path, options, loc);
  fail("TT-NN-24", "save_gguf: only Gpt2 and Llama models can be saved in this format", loc);
}

}  // namespace tinytorch::inline TT_BUILD
