// GGUF files whose weights stay packed: linear layers keep the blocks of the file and read them packed.
//
//   auto model = load_packed_gguf("model-Q4_K_M.gguf");      // as llama.cpp has it in memory
//   quantize(*other, {.format = "Q4_0", .head = "Q8_0"});
//   save_packed_gguf(*other, "other.gguf");                  // llama.cpp reads it
//
// Q, k and v of a Llama are one layer here and three tensors in the file, which may have different formats:
// then the layer is a JoinedLinear of its parts. A whole row is moved where llama.cpp has another order of
// rows, so that no block is decoded. Embeddings, norms and biases are floats, decoded if the file has packed
// them.
#pragma once

#include <tinytorch/quantization/model.hpp>
#include <tinytorch/transformer/gguf.hpp>

namespace tinytorch::inline TT_BUILD {

struct PackedGgufOptions {
  DType dtype = DType::f32;  // of everything that is not packed
  Device device = default_device();
  Activations activations = Activations::int8;
  // If true, the head stays packed. A tied head of a packed embedding then gets a copy of its blocks, because
  // the embedding itself is looked up in floats. If false, the head has float weights.
  bool head = true;
};

namespace gguf {

// The format of packed weights in this type of ggml; null for plain types, and for formats that this library
// does not read.
inline const BlockFormat* format_of(const GgmlType& type) {
  for (const BlockFormat& f : block_formats())
    if (f.gguf_type >= 0 && static_cast<uint32_t>(f.gguf_type) == type.id) return &f;
  return nullptr;
}

// Throws TT-IO-04 unless every tensor is plain floats or in a format of this library.
inline void require_known_types(const GgufFile& file, Loc loc) {
  for (const GgufTensorInfo& t : file.tensors) {
    const std::optional<DType> dtype = plain_dtype(*t.type);
    if ((dtype && is_floating(*dtype)) || format_of(*t.type)) continue;
    std::string names = "F32 F16 BF16 F64";
    for (const BlockFormat& f : block_formats())
      if (f.gguf_type >= 0) names += std::string(" ") + f.name;
    const io::Source source{file.name, "a model", loc};
    source.reject("weights of the types " + names, t.describe(), "TT-IO-04",
                  "convert the file with llama-quantize --allow-requantize");
  }
}

// The blocks of the tensor at `place`, [rows, row_bytes], with its rows in our order.
inline QuantizedTensor read_packed(const GgufFile& file, const GgufTensorInfo& info, const Place& place,
                                   Loc loc) {
  const BlockFormat& format = *format_of(*info.type);
  const int64_t K = info.shape.back(), rows = info.shape.numel() / std::max<int64_t>(K, 1),
                row_bytes = format.row_bytes(K);
  Tensor blocks = empty({rows, row_bytes}, DType::u8, cpu);
  auto* const to = reinterpret_cast<std::byte*>(blocks.view_of().as<uint8_t>());
  if (place.head_size == 0) {
    file.read(info, 0, {to, static_cast<size_t>(info.bytes)}, loc);
  } else {
    const std::vector<std::byte> from = file.bytes(info, loc);
    for (int64_t row = 0; row < rows; ++row)
      std::memcpy(to + place.our_row(row) * row_bytes, from.data() + row * row_bytes,
                  static_cast<size_t>(row_bytes));
  }
  return {format, K, blocks, {}, {}, loc};
}
// The values of a tensor in the order of the file.
inline Tensor decoded(const GgufFile& file, const GgufTensorInfo& info, Loc loc) {
  if (!format_of(*info.type)) return file.tensor(info, loc);
  return read_packed(file, info, {info.name, {}}, loc).dequantize().reshape(info.shape);
}

// Fills the model of a file: first what stays floats, then one layer after the other is packed.
template <class Model>
class PackedFiller {
 public:
  PackedFiller(Model& model, const GgufFile& file, const PackedGgufOptions& options, Loc loc)
      : model_(model), file_(file), options_(options), loc_(loc) {
    model.for_each_module([&](const std::string&, Module& m) {
      if (auto* const layer = dynamic_cast<Linear*>(&m)) layers_[layer] = layer;
    });
  }
  void run() {
    const NoGrad no_grad;
    std::map<const Linear*, std::vector<Place>> packed;
    std::vector<const Linear*> order;
    for (const Place& place : layout_of(model_)) {
      const GgufTensorInfo& info = *file_.find(place.name);
      const bool is_head = model_.own_head && place.layer == model_.own_head.get();
      const bool keeps_blocks = place.layer && !place.is_bias && format_of(*info.type);
      if (!keeps_blocks || (is_head && !options_.head)) {
        copy_in(place, decoded(file_, info, loc_), loc_);
        continue;
      }
      if (!packed.count(place.layer)) order.push_back(place.layer);
      packed[place.layer].push_back(place);
    }
    if (!order.empty()) quantization::separate_mlps(model_);
    for (const Linear* layer : order) pack(*layers_.at(layer), packed[layer]);
    const GgufTensorInfo& embedding = *file_.find(kEmbedding);
    if (!model_.own_head && options_.head && format_of(*embedding.type))
      replace_packed(quantization::head_of(model_, loc_), weight_of({kEmbedding, {}}), options_.activations);
  }

 private:
  QuantizedTensor weight_of(const Place& place) const {
    return read_packed(file_, *file_.find(place.name), place, loc_).to(options_.device, loc_);
  }
  // `places` are the packed ranges of rows of the layer; other rows have floats in it by now.
  void pack(Linear& layer, const std::vector<Place>& places) {
    std::vector<PackedRows> ranges;
    for (const Place& place : places) ranges.push_back({place.first, weight_of(place)});
    replace_rows(layer, ranges, options_.activations);
  }

  Model& model_;
  const GgufFile& file_;
  const PackedGgufOptions& options_;
  Loc loc_;
  std::map<const Linear*, Linear*> layers_;
};

template <class Model, class Config>
std::unique_ptr<LanguageModel> build_packed(const GgufFile& file, const Config& config,
                                            const PackedGgufOptions& options, Loc loc) {
  auto model = std::make_unique<Model>(config);
  require_same_table(file, layout_of(*model), loc);
  model->to(options.dtype, loc);
  model->to(options.device, loc);
  PackedFiller<Model>(*model, file, options, loc).run();
  model->eval();
  return model;
}

// The module that has the rows of a place of a replaced layer, and the first of them in it.
inline std::pair<const Module*, int64_t> rows_of(const Place& place) {
  const Module* found = place.layer->replacement().get();
  const auto* const joined = dynamic_cast<const JoinedLinear*>(found);
  int64_t at = place.first;
  if (!joined) return {found, at};
  for (const std::shared_ptr<Module>& part : joined->parts()) {
    const int64_t rows = JoinedLinear::rows_of(*part);
    if (at < rows) return {part.get(), at};
    at -= rows;
  }
  return {nullptr, 0};
}
[[noreturn]] inline void refuse_layer(const Place& place, const std::string& why, Loc loc) {
  fail("TT-IO-02", "save_packed_gguf: the layer of " + io::in_quotes(place.name) + " " + why, loc);
}
// Our rows in the order of the file, on the CPU. t [rows, ...].
inline Tensor rows_for_file(const Place& place, const Tensor& t) {
  return copy_out({place.name, t.contiguous(), place.head_size});
}

// The entry of a place of a model whose layers may be packed; none for the bias that a layer does not have.
inline std::optional<GgufTensorData> entry_of(const Place& place, Loc loc) {
  const auto floats = [&](const Tensor& t) -> GgufTensorData {
    const DType dtype = written_dtype({place.name, t});
    const auto bytes = [place, t, dtype, loc] {
      return io::bytes_of_tensor(rows_for_file(place, t).to(dtype, loc), loc);
    };
    return {place.name, ggml_type_of(dtype), t.shape(), bytes};
  };
  if (place.ours.defined()) return floats(place.ours);
  const auto found = rows_of(place);
  const auto* const module = found.first;
  const int64_t first = found.second;
  const auto* const packed = dynamic_cast<const QuantizedLinear*>(module);
  const auto* const linear = dynamic_cast<const Linear*>(module);
  if (packed && !packed->transform().empty())
    refuse_layer(place, "scales or rotates its inputs before the product, which GGUF does not have", loc);
  if (packed && packed->input_order().defined())
    refuse_layer(place, "takes its inputs in another order, which GGUF does not have", loc);
  if (!packed && !linear) refuse_layer(place, "was replaced by a module without packed weights", loc);
  const int64_t all = JoinedLinear::rows_of(*module), count = place.rows == 0 ? all : place.rows;
  if (first + count > all) refuse_layer(place, "is joined of parts that are not those of the file", loc);
  const auto part = [&](const Tensor& t) { return slice(t.detach(), 0, first, first + count); };
  if (place.is_bias) {
    const Tensor& bias = packed ? packed->bias() : linear->bias;
    if (!bias.defined()) return std::nullopt;
    return floats(part(bias));
  }
  if (linear) return floats(part(linear->weight));
  const QuantizedTensor w = packed->weight().rows(first, first + count, loc);
  const int32_t type = w.format().gguf_type;
  if (type < 0 || !find_ggml_type(static_cast<uint32_t>(type))) {
    refuse_layer(place,
                 std::string("is in ") + w.format().name +
                     ", which GGUF does not have\n  hint: pack it in a format of ggml, such as Q8_0, "
                     "or use save_packed",
                 loc);
  }
  const Tensor blocks = w.blocks();
  return GgufTensorData{
      place.name, find_ggml_type(static_cast<uint32_t>(type)), w.shape(),
      [place, blocks, loc] { return io::bytes_of_tensor(rows_for_file(place, blocks), loc); }};
}

// The number that llama.cpp gives files most of whose values have this type.
inline std::optional<uint32_t> packed_file_type(std::string_view type) {
  constexpr std::pair<const char*, uint32_t> kTypes[] = {{"F32", 0},   {"F16", 1},   {"Q4_0", 2},
                                                         {"Q4_1", 3},  {"Q8_0", 7},  {"Q4_K", 15},
                                                         {"Q6_K", 18}, {"BF16", 32}, {"MXFP4", 38}};
  for (const auto& [name, number] : kTypes)
    if (name == type) return number;
  return std::nullopt;
}

template <class Model>
void save_packed(const Model& model, const std::string& path, const GgufMetadata& metadata, Loc loc) {
  GgufContent content = content_of(model, loc);
  std::map<std::string, int64_t> numbers;  // of each type
  for (const Place& place : layout_of(model)) {
    std::optional<GgufTensorData> entry = entry_of(place, loc);
    if (!entry) continue;
    numbers[entry->type->name] += entry->shape.numel();
    content.tensors.push_back(std::move(*entry));
  }
  const auto most = std::max_element(numbers.begin(), numbers.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  if (const auto type = packed_file_type(most->first)) content.metadata.set("general.file_type", *type);
  content.metadata.set("general.quantization_version", uint32_t{2});
  for (const auto& [key, value] : metadata) content.metadata.set(key, value);
  write_gguf(path, content, loc);
}

}  // namespace gguf

// Loads the model in the file, as load_gguf does; linear layers keep the blocks of the file. Throws as
// load_gguf does, and TT-IO-04 for types of blocks that this library does not read.
inline std::unique_ptr<LanguageModel> load_packed_gguf(const std::string& path,
                                                       const PackedGgufOptions& options = {}, TT_LOC) {
  const auto [file, architecture] = gguf::open_model(path, loc);
  gguf::require_known_types(file, loc);
  if (architecture == "gpt2") return gguf::build_packed<Gpt2>(file, gguf::read_gpt2(file, loc), options, loc);
  return gguf::build_packed<Llama>(file, gguf::read_llama(file, loc), options, loc);
}

// Writes a model, some of whose layers are packed: their blocks, and floats in their own dtype. `metadata`
// has further entries, or other values for the keys of the model. An existing file is replaced only when the
// new one is complete. Throws as save_gguf does, and TT-IO-02 for a format that GGUF does not have.
inline void save_packed_gguf(const LanguageModel& model, const std::string& path,
                             const GgufMetadata& metadata = {}, TT_LOC) {
  if (const auto* gpt2 = dynamic_cast<const Gpt2*>(&model))
    return gguf::save_packed(*gpt2, path, metadata, loc);
  if (const auto* llama = dynamic_cast<const Llama*>(&model))
    return gguf::save_packed(*llama, path, metadata, loc);
  fail("TT-NN-24", "save_packed_gguf: only Gpt2 and Llama models can be saved in this format", loc);
}

}  // namespace tinytorch::inline TT_BUILD
