// A report of a pruned model: its zeros, and whether its stored bytes fell. A layer that has zeros in dense
// storage is "mask only": neither its size nor its time changed.
//
//   std::puts(pruning_report(model).text().c_str());
#pragma once

#include <cstdio>
#include <tinytorch/layers/json_lines.hpp>
#include <tinytorch/pruning/sparse_linear.hpp>
#include <tinytorch/pruning/sparsity.hpp>

namespace tinytorch::inline TT_BUILD {

struct PrunedLayer {
  std::string path, storage;  // storage: "dense", "mask only", or the name of a sparse format
  Shape shape;
  double sparsity = 0;                 // the share of zeros
  int64_t dense_bytes = 0, bytes = 0;  // of the weight
};

struct PruningReport {
  std::vector<PrunedLayer> layers;     // weights of rank 2 and more
  int64_t dense_bytes = 0, bytes = 0;  // of all parameters and buffers

  // True if weights are 0 and no stored byte was saved by it.
  bool mask_only() const {
    bool zeros = false, smaller = false;
    for (const PrunedLayer& l : layers)
      zeros = zeros || l.sparsity > 0, smaller = smaller || l.bytes < l.dense_bytes;
    return zeros && !smaller;
  }
  std::string text() const {
    std::string out =
        "layer                                    storage    shape            sparsity       bytes  of "
        "dense\n";
    char line[240];
    for (const PrunedLayer& l : layers) {
      std::snprintf(line, sizeof line, "%-40s %-10s %-16s %7.1f%% %11lld %9.3f\n", l.path.c_str(),
                    l.storage.c_str(), l.shape.str().c_str(), 100 * l.sparsity,
                    static_cast<long long>(l.bytes),
                    static_cast<double>(l.bytes) / static_cast<double>(std::max<int64_t>(1, l.dense_bytes)));
      out += line;
    }
    std::snprintf(line, sizeof line, "model: %lld bytes, %.3f of the %lld of dense storage%s\n",
                  static_cast<long long>(bytes),
                  static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(1, dense_bytes)),
                  static_cast<long long>(dense_bytes),
                  mask_only() ? "; mask only: neither size nor time changed" : "");
    return out + line;
  }
  std::string json() const {
    std::string rows;
    for (const PrunedLayer& l : layers) {
      JsonObject row;
      row.add("path", l.path)
          .add("storage", l.storage)
          .add("shape", l.shape.str())
          .add("sparsity", l.sparsity);
      row.add("dense_bytes", l.dense_bytes).add("bytes", l.bytes);
      rows += (rows.empty() ? "" : ", ") + row.str();
    }
    JsonObject whole;
    whole.add("verdict", std::string(mask_only() ? "mask only" : bytes < dense_bytes ? "smaller" : "dense"));
    std::string out = whole.add("dense_bytes", dense_bytes).add("bytes", bytes).str();
    out.insert(out.rfind('}'), ", \"layers\": [" + rows + "]");
    return out;
  }
};

inline PruningReport pruning_report(const Module& model) {
  const NoGrad no_grad;
  PruningReport report;
  const auto size = [](const Tensor& t) { return t.numel() * static_cast<int64_t>(size_of(t.dtype())); };
  int64_t saved = 0;
  // The walk changes nothing; for_each_module also serves walks that do.
  const_cast<Module&>(model).for_each_module([&](const std::string& path, Module& m) {
    const auto* const sparse = dynamic_cast<const SparseLinear*>(&m);
    if (!sparse) return;
    const SparseWeight& w = sparse->weight();
    PrunedLayer row{path.empty() ? "weight" : path + ".weight", w.format(), w.shape()};
    row.dense_bytes = w.shape().numel() * static_cast<int64_t>(size_of(w.dtype()));
    row.bytes = w.bytes();
    row.sparsity = sparsity_of(w.dense());
    saved += row.dense_bytes - row.bytes;
    report.layers.push_back(row);
  });
  for (const NamedTensor& p : model.named_parameters()) {
    if (p.tensor.rank() < 2) continue;
    const double zeros = sparsity_of(p.tensor);
    report.layers.push_back(
        {p.name, zeros > 0 ? "mask only" : "dense", p.tensor.shape(), zeros, size(p.tensor), size(p.tensor)});
  }
  for (const auto& [name, tensor] : model.state_dict()) report.bytes += size(tensor);
  report.dense_bytes = report.bytes + saved;
  return report;
}

}  // namespace tinytorch::inline TT_BUILD
