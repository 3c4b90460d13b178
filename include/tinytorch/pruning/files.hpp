// Files of models with sparse weights: safetensors, with the format of each weight and a checksum.
//
//   store_sparse(model, "bitmap");
//   save_sparse(model, "model.safetensors");
//   ...
//   Gpt2 fresh(config);                          // dense; loading makes its layers sparse
//   load_sparse(fresh, "model.safetensors");
//
// The tensors are those of state_dict(). What they mean is in the metadata, one entry for each sparse layer,
//
//   "sparse.blocks.0.mlp.up": {"format": "bitmap", "rows": 3072, "columns": 768}
//
// besides "format": "tinytorch.sparse", "version": "1" and "sha256", the checksum of everything else. A
// loader refuses what it does not know: places of another format would decode to numbers, too.
#pragma once

#include <tinytorch/pruning/sparse_linear.hpp>
#include <tinytorch/quantization/files.hpp>

namespace tinytorch::inline TT_BUILD {

namespace pruning {

inline constexpr const char* kSparseFormat = "tinytorch.sparse";
inline constexpr std::string_view kSparseEntry = "sparse.";  // before the path of a layer

struct SparseEntry {
  std::string path, format;
  int64_t rows = 0, columns = 0;
  DType dtype = DType::bf16;  // of strips, whose bytes do not tell it
};

class SparseReader {
 public:
  SparseReader(const TensorMap& tensors, const Metadata& metadata, const io::Source& source)
      : tensors_(tensors), metadata_(metadata), source_(source) {}

  std::vector<SparseEntry> run() const {
    require("format", kSparseFormat, "TT-IO-04", "this file is no model with sparse weights of this library");
    require("version", "1", "TT-IO-04", "the file was written by another version of this library");
    require("sha256", quantization::packed_checksum(tensors_, metadata_, source_.loc), "TT-IO-03",
            "the file was changed or damaged after it was written; copy it again");
    std::vector<SparseEntry> out;
    for (const auto& [key, value] : metadata_)
      if (key.starts_with(kSparseEntry)) out.push_back(entry(key.substr(kSparseEntry.size()), value));
    return out;
  }
  // Throws TT-PRUNE-05 if the parts of the layer do not fit together, and TT-IO-04 for an unknown format.
  SparseWeight weight(const SparseEntry& e) const {
    const auto part = [&](const char* name) {
      const auto found = tensors_.find(quantization::below(e.path, name));
      return found == tensors_.end() ? Tensor() : found->second;
    };
    const auto made = [&]() -> SparseWeight {
      if (e.format == "bitmap")
        return SparseWeight(
            BitmapMatrix(part("values"), part("bits"), part("offsets"), e.columns, source_.loc));
      if (e.format == "gaps")
        return SparseWeight(GapMatrix(part("values"), part("gaps"), part("offsets"), e.columns, source_.loc));
      if (e.format == "csr")
        return SparseWeight(
            CsrMatrix(part("values"), part("indices"), part("offsets"), e.columns, source_.loc));
      if (e.format == "2:4") return SparseWeight(TwoFourMatrix(part("values"), part("places"), source_.loc));
      if (e.format == "strips")
        return SparseWeight(StripsMatrix(part("strips"), e.dtype, e.rows, e.columns, source_.loc));
      if (block_of_format(e.format) == 0)
        source_.reject("a known format for " + io::in_quotes(e.path), io::in_quotes(e.format), "TT-IO-04");
      const BsrMatrix blocks(part("values"), part("indices"), part("offsets"), e.rows, e.columns,
                             source_.loc);
      if (is_int8_format(e.format)) return SparseWeight(BsrInt8Matrix(blocks, part("scales"), source_.loc));
      return SparseWeight(blocks);
    };
    const SparseWeight w = made();
    if (!(w.shape() == Shape{e.rows, e.columns}) || w.format() != e.format)
      source_.reject(
          "parts of " + Shape{e.rows, e.columns}.str() + " in " + e.format + " for " + io::in_quotes(e.path),
          w.shape().str() + " in " + w.format());
    return w;
  }

 private:
  void require(const char* key, const std::string& expected, const char* code, const char* hint) const {
    const auto found = metadata_.find(key);
    if (found != metadata_.end() && found->second == expected) return;
    source_.reject(std::string("the metadata \"") + key + "\": " + io::in_quotes(expected),
                   found == metadata_.end() ? "none" : io::in_quotes(found->second), code, hint);
  }
  SparseEntry entry(const std::string& path, const std::string& value) const {
    const Json tree = parse_json(as_bytes(value), source_);
    const Json* const format = tree.find("format");
    if (!format || !format->string())
      source_.reject("a text 'format' for " + io::in_quotes(path), io::in_quotes(value));
    const auto number = [&](const char* key) {
      const Json* const found = tree.find(key);
      const std::optional<int64_t> n = found ? found->integer() : std::nullopt;
      if (!n || *n < 0 || *n > INT32_MAX)
        source_.reject(std::string("a size '") + key + "' for " + io::in_quotes(path), io::in_quotes(value));
      return *n;
    };
    SparseEntry e{path, *format->string(), number("rows"), number("columns")};
    if (e.format != "strips") return e;
    const Json* const dtype = tree.find("dtype");
    const std::string name = dtype && dtype->string() ? *dtype->string() : "";
    if (name != "bf16" && name != "f16")
      source_.reject("\"dtype\": \"bf16\" or \"f16\" for " + io::in_quotes(path), io::in_quotes(value));
    e.dtype = name == "f16" ? DType::f16 : DType::bf16;
    return e;
  }

  const TensorMap& tensors_;
  const Metadata& metadata_;
  const io::Source& source_;
};

inline constexpr const char* kSparseParts[] = {"weight",  "values", "bits",   "gaps",  "indices",
                                               "offsets", "places", "strips", "scales"};

}  // namespace pruning

// Writes all parameters and buffers of a model, some of whose linear layers are sparse. Throws TT-IO-02 if it
// cannot be written.
inline void save_sparse(const Module& model, const std::string& path, TT_LOC) {
  Metadata metadata{{"format", pruning::kSparseFormat}, {"version", "1"}};
  const_cast<Module&>(model).for_each_module([&](const std::string& at, Module& m) {
    const auto* const sparse = dynamic_cast<const SparseLinear*>(&m);
    if (!sparse) return;
    const SparseWeight& w = sparse->weight();
    metadata[std::string(pruning::kSparseEntry) + at] =
        "{\"format\": " + to_json_string(w.format()) + ", \"rows\": " + std::to_string(w.shape()[0]) +
        ", \"columns\": " + std::to_string(w.shape()[1]) +
        (w.format() == "strips" ? std::string(", \"dtype\": \"") + name_of(w.dtype()) + "\"}" : "}");
  });
  const StateDict state = model.state_dict();
  metadata["sha256"] = quantization::packed_checksum(state, metadata, loc);
  save_safetensors(path, state, metadata, loc);
}

// Fills `model`, whose linear layers become sparse as they are in the file. Nothing is changed before
// everything was compared. Throws TT-IO-01 if the file cannot be read, TT-IO-03 if it is damaged, TT-IO-04
// for an unknown format or version, TT-NN-04 if it does not fit the model, and TT-PRUNE-05 if parts
// contradict.
inline void load_sparse(Module& model, const std::string& path, TT_LOC) {
  const NoGrad no_grad;
  Metadata metadata;
  const TensorMap tensors = load_safetensors(path, &metadata, loc);
  const io::Source source{path, "a model with sparse weights", loc};
  const pruning::SparseReader reader(tensors, metadata, source);
  std::map<std::string, Module*> modules;
  model.for_each_module([&](const std::string& at, Module& m) { modules[at] = &m; });
  StateDict rest = model.state_dict(), given = tensors;
  std::vector<std::pair<Linear*, SparseWeight>> planned;
  for (const pruning::SparseEntry& e : reader.run()) {
    const auto found = modules.find(e.path);
    auto* const layer = found == modules.end() ? nullptr : dynamic_cast<Linear*>(found->second);
    if (!layer || !layer->weight.defined() || !(layer->weight.shape() == Shape{e.rows, e.columns})) {
      fail("TT-NN-04",
           "load_sparse: " + io::in_quotes(path) + " has a sparse weight " + Shape{e.rows, e.columns}.str() +
               " for " + io::in_quotes(e.path) +
               ", where the model has no dense linear layer of this shape\n  hint: build the model with the "
               "sizes that were saved, and do not prune it",
           loc);
    }
    planned.emplace_back(layer, reader.weight(e).to(layer->weight.device(), loc));
    for (const char* part : pruning::kSparseParts)
      rest.erase(quantization::below(e.path, part)), given.erase(quantization::below(e.path, part));
  }
  require_same_entries("load_sparse", "the model", rest, given, loc);
  copy_entries(rest, given, loc);
  for (auto& [layer, weight] : planned) replace_sparse(*layer, weight);
}

}  // namespace tinytorch::inline TT_BUILD
