// Files of models with packed weights: safetensors, with the format of each weight and a checksum.
//
//   quantize(model, {.format = "Q4_0"});
//   save_packed(model, "model.safetensors");
//   ...
//   Gpt2 fresh(config);                       // floats; loading packs its layers
//   load_packed(fresh, "model.safetensors");
//
// The tensors are those of state_dict(), so that any reader of safetensors finds them: packed weights are u8.
// What their bytes mean is in the metadata, one entry for each packed layer,
//
//   "packed.blocks.0.mlp.up": {"format": "Q4_0", "layout": "rows", "block": 32, "bytes": 18,
//                              "shape": [3072, 768], "activations": "int8"}
//
// besides "format": "tinytorch.packed", "version": "1" and "sha256", the checksum of the names, dtypes,
// shapes and bytes of all tensors and of all other entries. A loader refuses what it does not know, since the
// bytes of another layout or format would decode to numbers, too, and the model would speak nonsense.
#pragma once

#include <tinytorch/io/json.hpp>
#include <tinytorch/io/safetensors.hpp>
#include <tinytorch/io/sha256.hpp>
#include <tinytorch/quantization/model.hpp>

namespace tinytorch::inline TT_BUILD {

namespace quantization {

inline constexpr const char* kPackedFormat = "tinytorch.packed";
inline constexpr const char* kPackedVersion = "1";
inline constexpr std::string_view kPackedEntry = "packed.";  // before the path of a layer

// The checksum of a file, without its own entry. Lengths stand before texts, so that no two contents give the
// same bytes.
inline std::string packed_checksum(const TensorMap& tensors, const Metadata& metadata, Loc loc) {
  Sha256 sum;
  const auto add = [&](std::string_view text) { sum.add(std::to_string(text.size()) + ":"), sum.add(text); };
  for (const auto& [key, text] : metadata) {
    if (key == "sha256") continue;
    add(key), add(text);
  }
  for (const auto& [name, tensor] : tensors) {
    add(name), add(name_of(tensor.dtype())), add(tensor.shape().str());
    sum.add(Bytes(io::bytes_of_tensor(tensor, loc)));
  }
  return sum.hex();
}

inline std::string describe_packed(const QuantizedLinear& layer) {
  const QuantizedTensor w = layer.weight();
  const BlockFormat& f = w.format();
  return "{\"format\": " + to_json_string(f.name) +
         ", \"layout\": \"rows\", \"block\": " + std::to_string(f.block) +
         ", \"bytes\": " + std::to_string(f.bytes) + ", \"shape\": [" + std::to_string(w.shape()[0]) + ", " +
         std::to_string(w.shape()[1]) + "], \"activations\": \"" +
         (layer.activations == Activations::int8 ? "int8" : "floats") + "\"}";
}

// The name of a tensor of the layer at `path`, which is empty for the model itself.
inline std::string below(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

// A packed layer of a file.
struct PackedEntry {
  std::string path;
  const BlockFormat* format = nullptr;
  int64_t N = 0, K = 0;
  Activations activations = Activations::int8;
};

class PackedReader {
 public:
  PackedReader(const TensorMap& tensors, const Metadata& metadata, const io::Source& source)
      : tensors_(tensors), metadata_(metadata), source_(source) {}

  std::vector<PackedEntry> run() const {
    if (text("format") != kPackedFormat) {
      source_.reject(std::string("the metadata \"format\": \"") + kPackedFormat + "\"",
                     metadata_.count("format") ? io::in_quotes(text("format")) : "none", "TT-IO-04",
                     "files of float weights are loaded with load_safetensors, files of llama.cpp with "
                     "load_gguf, and AWQ and GPTQ files with import_int4");
    }
    if (text("version") != kPackedVersion) {
      source_.reject(std::string("version ") + kPackedVersion, io::in_quotes(text("version")), "TT-IO-04",
                     "the file was written by another version of this library; pack the model again");
    }
    const std::string sum = packed_checksum(tensors_, metadata_, source_.loc);
    if (text("sha256") != sum) {
      source_.reject("the checksum " + io::in_quotes(text("sha256")) + " of the metadata",
                     "tensors and metadata with " + io::in_quotes(sum), "TT-IO-03",
                     "the file was changed or damaged after it was written; copy it again");
    }
    std::vector<PackedEntry> out;
    for (const auto& [key, value] : metadata_)
      if (key.starts_with(kPackedEntry)) out.push_back(entry(key.substr(kPackedEntry.size()), value));
    return out;
  }

  // The weight of a layer, on the CPU, with the memory of the file's tensors. Throws TT-QUANT-02 if the sizes
  // differ.
  QuantizedTensor weight(const PackedEntry& e) const {
    const auto tensor = [&](const char* name) {
      const auto found = tensors_.find(below(e.path, name));
      return found == tensors_.end() ? Tensor() : found->second;
    };
    const Tensor blocks = tensor("weight");
    const bool fits =
        blocks.defined() && blocks.rank() == 2 && blocks.size(0) == e.N && e.K % e.format->block == 0;
    if (!fits) {
      source_.reject("u8 [" + std::to_string(e.N) + ", bytes of " + std::to_string(e.K) + " numbers] for " +
                         io::in_quotes(below(e.path, "weight")) + " in " + e.format->name,
                     blocks.defined() ? name_of(blocks.dtype()) + (" " + blocks.shape().str()) : "none");
    }
    return {*e.format, e.K, blocks, tensor("scales"), tensor("zero_points"), source_.loc};
  }

  // The order of the inputs of a layer, or an undefined tensor.
  Tensor input_order(const PackedEntry& e) const {
    const auto found = tensors_.find(below(e.path, "input_order"));
    if (found == tensors_.end()) return {};
    const Tensor& order = found->second;
    const bool fits = order.dtype() == DType::i64 && order.shape() == Shape{e.K};
    std::vector<int64_t> sorted(fits ? static_cast<size_t>(e.K) : 0);
    if (fits) std::copy_n(order.data<int64_t>(), e.K, sorted.begin());
    std::sort(sorted.begin(), sorted.end());
    bool once = fits;
    for (size_t i = 0; i < sorted.size(); ++i) once = once && sorted[i] == static_cast<int64_t>(i);
    if (!once) {
      source_.reject(
          "each of " + std::to_string(e.K) + " inputs once in " + io::in_quotes(below(e.path, "input_order")),
          name_of(order.dtype()) + (" " + order.shape().str()));
    }
    return order;
  }

 private:
  std::string text(const char* key) const {
    const auto found = metadata_.find(key);
    return found == metadata_.end() ? "" : found->second;
  }
  PackedEntry entry(const std::string& path, const std::string& value) const {
    const Json tree = parse_json(as_bytes(value), source_);
    const auto word = [&](const char* key) -> std::string {
      const Json* found = tree.find(key);
      if (!found || !found->string())
        source_.reject(std::string("a text '") + key + "' for " + io::in_quotes(path), io::in_quotes(value));
      return *found->string();
    };
    const auto number = [&](const Json* found, const char* key) {
      const std::optional<int64_t> n = found ? found->integer() : std::nullopt;
      if (!n || *n < 0 || *n > int64_t{1} << 40)
        source_.reject(std::string("a size '") + key + "' for " + io::in_quotes(path), io::in_quotes(value));
      return *n;
    };
    const std::string name = word("format"), layout = word("layout"), rounding = word("activations");
    PackedEntry e{path};
    e.format = find_block_format(name);
    if (!e.format) e.format = find_code_format(name);
    if (!e.format)
      source_.reject("a known format for " + io::in_quotes(path), io::in_quotes(name), "TT-IO-04");
    if (layout != "rows") {
      source_.reject("the layout 'rows' for " + io::in_quotes(path), io::in_quotes(layout), "TT-IO-04",
                     "pack the original model again; weights of another order cannot be recognized");
    }
    const int64_t block = number(tree.find("block"), "block"), bytes = number(tree.find("bytes"), "bytes");
    if (block != e.format->block || bytes != e.format->bytes) {
      source_.reject("blocks of " + std::to_string(e.format->block) + " numbers in " +
                         std::to_string(e.format->bytes) + " bytes, as " + name + " has here",
                     std::to_string(block) + " in " + std::to_string(bytes), "TT-IO-04");
    }
    if (rounding != "int8" && rounding != "floats")
      source_.reject("activations int8 or floats for " + io::in_quotes(path), io::in_quotes(rounding),
                     "TT-IO-04");
    e.activations = rounding == "int8" ? Activations::int8 : Activations::floats;
    const Json* shape = tree.find("shape");
    if (!shape || !shape->array() || shape->array()->size() != 2)
      source_.reject("a shape of two sizes for " + io::in_quotes(path), io::in_quotes(value));
    e.N = number(&(*shape->array())[0], "shape"), e.K = number(&(*shape->array())[1], "shape");
    return e;
  }

  const TensorMap& tensors_;
  const Metadata& metadata_;
  const io::Source& source_;
};

// Compares the layers of a file with a model, and then packs and fills the model's.
class PackedLoader {
 public:
  PackedLoader(Module& model, const TensorMap& tensors, const PackedReader& reader, const std::string& path,
               Loc loc)
      : model_(model), tensors_(tensors), reader_(reader), path_(path), loc_(loc) {}

  void run(const std::vector<PackedEntry>& entries) {
    const NoGrad no_grad;
    std::map<std::string, Module*> modules;
    model_.for_each_module([&](const std::string& path, Module& m) { modules[path] = &m; });
    StateDict rest = model_.state_dict(), given = tensors_;
    for (const PackedEntry& e : entries) {
      const auto found = modules.find(e.path);
      plan(e, found == modules.end() ? nullptr : found->second);
      const char* const kParts[] = {"weight", "scales", "zero_points", "input_order"};
      for (const char* part : kParts) rest.erase(below(e.path, part)), given.erase(below(e.path, part));
    }
    require_same_entries("load_packed", "the model", rest, given, loc_);
    apply();
    StateDict own = model_.state_dict();
    std::erase_if(own, [&](const auto& item) { return !given.count(item.first); });
    copy_entries(own, given, loc_);
  }

 private:
  struct Step {
    PackedEntry entry;
    Linear* layer = nullptr;            // becomes packed
    QuantizedLinear* packed = nullptr;  // is packed in this format already
    QuantizedTensor weight;
    Tensor input_order;  // undefined: as they come
  };
  [[noreturn]] void refuse(const PackedEntry& e, const std::string& has) const {
    fail("TT-NN-04",
         "load_packed: " + io::in_quotes(path_) + " has packed weights " + e.format->name + " [" +
             std::to_string(e.N) + ", " + std::to_string(e.K) + "] for " + io::in_quotes(e.path) +
             ", and the model has " + has +
             "\n  hint: build the model with the sizes and options that were saved, and do not pack it",
         loc_);
  }
  void plan(const PackedEntry& e, Module* module) {
    Step step{e, dynamic_cast<Linear*>(module), dynamic_cast<QuantizedLinear*>(module), reader_.weight(e),
              reader_.input_order(e)};
    Shape shape;
    if (step.layer) shape = step.layer->weight.shape();
    if (step.packed) {
      shape = step.packed->weight().shape();
      const char* const name = step.packed->weight().format().name;
      if (std::string_view(name) != e.format->name) refuse(e, std::string("weights in ") + name);
      if (step.packed->input_order().defined() && !step.input_order.defined())
        refuse(e, "another order of inputs there");
    }
    if (!module && e.path == "head" && has_head(model_)) shape = head_shape();
    if (shape.empty()) refuse(e, module ? "another kind of layer there" : "no such layer");
    if (!(shape == Shape{e.N, e.K})) refuse(e, shape.str());
    steps_.push_back(std::move(step));
  }
  Shape head_shape() const {
    if (auto* const gpt2 = dynamic_cast<Gpt2*>(&model_)) return gpt2->token_embedding.weight.shape();
    if (auto* const decoder = dynamic_cast<Decoder*>(&model_)) return decoder->token_embedding.weight.shape();
    return dynamic_cast<Llama&>(model_).token_embedding.weight.shape();
  }
  void apply() {
    separate_mlps(model_);
    const Device device = model_.device();
    for (Step& step : steps_) {
      if (step.packed) {
        step.packed->assign(step.weight.to(device, loc_));
        step.packed->activations = step.entry.activations;
      } else {
        Linear& layer = step.layer ? *step.layer : head_of(model_, loc_);
        step.packed = replace_packed(layer, step.weight.to(device, loc_), step.entry.activations).get();
      }
      if (step.input_order.defined()) step.packed->set_input_order(step.input_order.to(device, loc_));
    }
  }

  Module& model_;
  const TensorMap& tensors_;
  const PackedReader& reader_;
  const std::string& path_;
  Loc loc_;
  std::vector<Step> steps_;
};

}  // namespace quantization

// Writes all parameters and buffers of a model, some of whose layers are packed. An existing file is replaced
// only when the new one is complete. Throws TT-IO-02 if it cannot be written, and TT-QUANT-01 if a format is
// the program's own.
inline void save_packed(const Module& model, const std::string& path, TT_LOC) {
  Metadata metadata{{"format", quantization::kPackedFormat}, {"version", quantization::kPackedVersion}};
  // The walk changes nothing; for_each_module also serves walks that do.
  const_cast<Module&>(model).for_each_module([&](const std::string& at, Module& m) {
    if (dynamic_cast<const JoinedLinear*>(&m)) {
      fail("TT-IO-02",
           "save_packed: the rows of " + io::in_quotes(at) +
               " are in several formats, for which these files have no entry\n  hint: use save_packed_gguf",
           loc);
    }
    const auto* const packed = dynamic_cast<const QuantizedLinear*>(&m);
    if (!packed) return;
    if (!packed->transform().empty()) {
      fail("TT-IO-02",
           "save_packed: the inputs of " + io::in_quotes(at) +
               " are scaled or rotated before its product, for which these files have no entry\n  hint: "
               "quantize "
               "with a method that changes only the weights, or that the layers before take over",
           loc);
    }
    (void)block_format(packed->weight().format().name, loc);
    metadata[std::string(quantization::kPackedEntry) + at] = quantization::describe_packed(*packed);
  });
  const StateDict state = model.state_dict();
  metadata["sha256"] = quantization::packed_checksum(state, metadata, loc);
  save_safetensors(path, state, metadata, loc);
}

// Fills `model`, whose layers become packed as they are in the file; others get floats of the model's dtype.
// Nothing is changed before everything was compared. Throws TT-IO-01 if the file cannot be read, TT-IO-03 if
// it is damaged, TT-IO-04 for an unknown format, layout or version, and TT-NN-04 and TT-QUANT-02 if it does
// not fit.
inline void load_packed(Module& model, const std::string& path, TT_LOC) {
  Metadata metadata;
  const TensorMap tensors = load_safetensors(path, &metadata, loc);
  const io::Source source{path, "a model with packed weights", loc};
  const quantization::PackedReader reader(tensors, metadata, source);
  quantization::PackedLoader(model, tensors, reader, path, loc).run(reader.run());
}

}  // namespace tinytorch::inline TT_BUILD
