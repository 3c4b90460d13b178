// An entry that runs: the layers of a model.json applied to a batch, with the weights of its safetensors
// file.
//
// Scoring goes through the library's public operations only, so a faster or slower header shows in the race.
// Dropout is the identity and batch norm uses its stored statistics, as after training.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <tinymlperf/entry.hpp>
#include <tinytorch/tensor/functions.hpp>
#include <tinytorch/tensor/graph.hpp>
#include <utility>
#include <vector>

namespace tinymlperf {

namespace tt = tinytorch;

using Weights = std::map<std::string, tt::Tensor>;  // "0.weight" ..., as EntrySpec::tensors names them

inline tt::Shape to_shape(const Shape& sizes) {
  tt::Shape shape;
  for (const int64_t s : sizes) shape.push_back(s);
  return shape;
}

class Network {
 public:
  Network(EntrySpec spec, Weights weights) : spec_(std::move(spec)), weights_(std::move(weights)) {}

  const EntrySpec& spec() const { return spec_; }
  const Weights& weights() const { return weights_; }

  // x [N, C, H, W] -> scores [N, classes]
  tt::Tensor forward(tt::Tensor x) const {
    for (size_t i = 0; i < spec_.layers.size(); ++i) x = apply(spec_.layers[i], std::to_string(i), x);
    return x;
  }

 private:
  tt::Tensor weight(const std::string& name) const {
    const auto found = weights_.find(name);
    return found == weights_.end() ? tt::Tensor{} : found->second;
  }

  tt::Tensor apply(const LayerSpec& layer, const std::string& index, const tt::Tensor& x) const {
    const std::string& type = layer.type;
    if (type == "linear") return tt::linear(x, weight(index + ".weight"), weight(index + ".bias"));
    if (type == "conv2d")
      return tt::conv2d(x, weight(index + ".weight"), weight(index + ".bias"),
                        {.stride = layer.stride, .padding = layer.padding});
    if (type == "max_pool2d") return tt::max_pool2d(x, {.kernel = layer.kernel, .stride = layer.stride});
    if (type == "avg_pool2d") return tt::avg_pool2d(x, {.kernel = layer.kernel, .stride = layer.stride});
    if (type == "batch_norm2d")
      return tt::batch_norm_infer(x, weight(index + ".running_mean"), weight(index + ".running_var"),
                                  weight(index + ".weight"), weight(index + ".bias"));
    if (type == "flatten") return tt::flatten(x, 1);
    if (type == "relu") return tt::relu(x);
    if (type == "gelu") return tt::gelu(x);
    if (type == "silu") return tt::silu(x);
    if (type == "tanh") return tt::tanh(x);
    if (type == "sigmoid") return tt::sigmoid(x);
    if (type == "dropout") return x;
    throw std::logic_error("layer \"" + type + "\" passed the reader but cannot be run");
  }

  EntrySpec spec_;
  Weights weights_;
};

// Exactly the tensors the layers need, converted to f32; anything missing, extra, misshapen or not finite is
// refused.
inline Weights check_weights(const EntrySpec& spec, const std::string& file, Weights found) {
  Weights kept;
  for (const TensorSpec& wanted : spec.tensors) {
    const auto at = found.find(wanted.name);
    if (at == found.end())
      throw Refusal(file, wanted.name, "a tensor of shape " + to_text(wanted.shape), "no such tensor");
    const tt::Tensor& t = at->second;
    if (t.shape() != to_shape(wanted.shape))
      throw Refusal(file, wanted.name, "shape " + to_text(wanted.shape), "shape " + t.shape().str());
    if (t.dtype() != tt::DType::f32 && t.dtype() != tt::DType::f16 && t.dtype() != tt::DType::bf16)
      throw Refusal(file, wanted.name, "dtype f32, f16 or bf16", tt::name_of(t.dtype()));
    // A copy of its own, so that the measured memory does not include the file's buffer.
    tt::Tensor own = t.dtype() == tt::DType::f32 ? t.clone() : t.to(tt::DType::f32);
    const float* values = own.data<float>();
    for (int64_t i = 0; i < own.numel(); ++i)
      if (!std::isfinite(values[i]))
        throw Refusal(file, wanted.name, "finite values",
                      "a NaN or infinity at element " + std::to_string(i));
    kept.emplace(wanted.name, std::move(own));
    found.erase(at);
  }
  for (const auto& [name, tensor] : found) {
    // PyTorch's batch norm saves a step counter that no forward pass reads.
    if (name.ends_with(".num_batches_tracked")) continue;
    throw Refusal(file, "", "only the tensors of model.json's layers",
                  "an extra tensor " + detail::show(Json(name)));
  }
  return kept;
}

}  // namespace tinymlperf
