// The network of an entry: a Sequential built from its list of layers, with the weights of its file.
//
// It consists of the library's layers, so a header that a student replaces is trained and timed with it.
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <tinymlperf/entries/entry.hpp>
#include <tinymlperf/entries/windows.hpp>
#include <tinytorch/layers/activation.hpp>
#include <tinytorch/layers/batch_norm.hpp>
#include <tinytorch/layers/dropout.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <utility>
#include <vector>

namespace tinymlperf {

inline tt::Shape to_shape(const Shape& sizes) {
  tt::Shape shape;
  for (const int64_t s : sizes) shape.push_back(s);
  return shape;
}

namespace detail {

inline std::shared_ptr<tt::Module> build_activation(const std::string& type) {
  if (type == "relu") return std::make_shared<tt::ReLU>();
  if (type == "gelu") return std::make_shared<tt::GELU>();
  if (type == "silu") return std::make_shared<tt::SiLU>();
  if (type == "tanh") return std::make_shared<tt::Tanh>();
  if (type == "sigmoid") return std::make_shared<tt::Sigmoid>();
  throw std::logic_error("layer \"" + type + "\" passed the reader but cannot be built");
}

inline std::shared_ptr<tt::Module> build_conv2d(const LayerSpec& l, tt::Generator& random) {
  const tt::KernelSize kernel(l.kernel.h, l.kernel.w);
  if (l.padding.square())
    return std::make_shared<tt::Conv2d>(
        l.in, l.out, kernel,
        tt::Conv2dOptions{.stride = l.stride.h, .padding = l.padding.h, .groups = l.groups}, l.bias, random);
  return std::make_shared<PaddedConv2d>(l.in, l.out, kernel, l.padding,
                                        tt::Conv2dOptions{.stride = l.stride.h, .groups = l.groups}, l.bias,
                                        random);
}

inline std::shared_ptr<tt::Module> build_pool(const LayerSpec& l) {
  const bool max = l.type == "max_pool2d";
  if (!l.kernel.square()) return std::make_shared<TilePool2d>(l.kernel, max);
  if (max) return std::make_shared<tt::MaxPool2d>(l.kernel.h, l.stride.h, l.padding.h);
  return std::make_shared<tt::AvgPool2d>(l.kernel.h, l.stride.h, l.padding.h);
}

inline std::shared_ptr<tt::Module> build_layer(const LayerSpec& l, tt::Generator& random) {
  if (l.type == "linear") return std::make_shared<tt::Linear>(l.in, l.out, l.bias, random);
  if (l.type == "conv2d") return build_conv2d(l, random);
  if (l.type == "max_pool2d" || l.type == "avg_pool2d") return build_pool(l);
  if (l.type == "adaptive_avg_pool2d") return std::make_shared<tt::AdaptiveAvgPool2d>(l.output.h, l.output.w);
  if (l.type == "batch_norm1d") return std::make_shared<tt::BatchNorm1d>(l.in);
  if (l.type == "batch_norm2d") return std::make_shared<tt::BatchNorm2d>(l.in);
  if (l.type == "dropout") return std::make_shared<tt::Dropout>(l.p, random);
  if (l.type == "flatten") return std::make_shared<tt::Flatten>();
  return build_activation(l.type);
}

}  // namespace detail

// Builds the layers with initial weights from `random`, in training mode. Each layer keeps its index in the
// list, so the names in the state are those of EntrySpec::tensors.
inline std::shared_ptr<tt::Sequential> build_layers(const EntrySpec& spec, tt::Generator& random) {
  auto net = std::make_shared<tt::Sequential>();
  for (const LayerSpec& l : spec.layers) net->append(detail::build_layer(l, random));
  return net;
}

// Checks the tensors of a weights file: they must be those of the layers and no others, with their shapes,
// and with finite floating-point values. Returns them as f32. Otherwise throws a Refusal that names `file`.
inline tt::StateDict check_weights(const EntrySpec& spec, const std::string& file, tt::StateDict found) {
  tt::StateDict kept;
  for (const TensorSpec& wanted : spec.tensors) {
    const auto at = found.find(wanted.name);
    if (at == found.end())
      throw Refusal(file, wanted.name, "a tensor of shape " + to_text(wanted.shape), "no such tensor");
    const tt::Tensor& t = at->second;
    if (t.shape() != to_shape(wanted.shape))
      throw Refusal(file, wanted.name, "shape " + to_text(wanted.shape), "shape " + t.shape().str());
    if (t.dtype() != tt::DType::f32 && t.dtype() != tt::DType::f16 && t.dtype() != tt::DType::bf16)
      throw Refusal(file, wanted.name, "dtype f32, f16 or bf16", tt::name_of(t.dtype()));
    const tt::Tensor values = t.to(tt::DType::f32).contiguous();
    const float* first = values.data<float>();
    for (int64_t i = 0; i < values.numel(); ++i)
      if (!std::isfinite(first[i]))
        throw Refusal(file, wanted.name, "finite values",
                      "a NaN or infinity at element " + std::to_string(i));
    kept.emplace(wanted.name, values);
    found.erase(at);
  }
  for (const auto& [name, tensor] : found) {
    // PyTorch's batch norm also saves a step counter, which the forward pass does not use.
    if (name.ends_with(".num_batches_tracked")) continue;
    throw Refusal(file, "", "only the tensors of model.json's layers",
                  "an extra tensor " + detail::show(Json(name)));
  }
  return kept;
}

class Network {
 public:
  // Takes trained layers and puts them into evaluation mode.
  Network(EntrySpec spec, std::shared_ptr<tt::Sequential> layers)
      : spec_(std::move(spec)), layers_(std::move(layers)) {
    layers_->eval();
  }
  // Builds new layers and loads `weights`, which check_weights() returned.
  Network(EntrySpec spec, const tt::StateDict& weights) : spec_(std::move(spec)) {
    tt::Generator unused(0);  // every value is overwritten below
    layers_ = build_layers(spec_, unused);
    tt::StateDict state = layers_->state_dict();
    for (const auto& [name, tensor] : weights) state[name] = tensor;
    layers_->load_state_dict(state);
    layers_->eval();
  }

  const EntrySpec& spec() const { return spec_; }
  // x [N, input...] -> [N, outputs]
  tt::Tensor forward(const tt::Tensor& x) const { return layers_->forward(x); }
  int64_t weight_bytes() const {
    size_t bytes = 0;
    for (const auto& [name, tensor] : layers_->state_dict()) bytes += tensor.bytes();
    return static_cast<int64_t>(bytes);
  }

 private:
  EntrySpec spec_;
  std::shared_ptr<tt::Sequential> layers_;
};

}  // namespace tinymlperf
