// An entry that runs: a Sequential built from its layer list, holding the weights of its safetensors file.
//
// It is made of the library's own layers, so a header that a student replaced is what gets trained and timed.
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <tinymlperf/entry.hpp>
#include <tinytorch/layers/activation.hpp>
#include <tinytorch/layers/batch_norm.hpp>
#include <tinytorch/layers/conv2d.hpp>
#include <tinytorch/layers/dropout.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/pooling.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <utility>
#include <vector>

namespace tinymlperf {

namespace tt = tinytorch;

inline tt::Shape to_shape(const Shape& sizes) {
  tt::Shape shape;
  for (const int64_t s : sizes) shape.push_back(s);
  return shape;
}

// The layers with fresh weights from `random`, in training mode. Every layer keeps its place in the list, so
// the names of the state are those of EntrySpec::tensors.
inline std::shared_ptr<tt::Sequential> build_layers(const EntrySpec& spec, tt::Generator& random) {
  auto net = std::make_shared<tt::Sequential>();
  for (const LayerSpec& l : spec.layers) {
    if (l.type == "linear") {
      net->append(tt::Linear(l.in, l.out, l.bias, random));
    } else if (l.type == "conv2d") {
      net->append(
          tt::Conv2d(l.in, l.out, l.kernel, {.stride = l.stride, .padding = l.padding}, l.bias, random));
    } else if (l.type == "max_pool2d") {
      net->append(tt::MaxPool2d(l.kernel, l.stride));
    } else if (l.type == "avg_pool2d") {
      net->append(tt::AvgPool2d(l.kernel, l.stride));
    } else if (l.type == "batch_norm2d") {
      net->append(tt::BatchNorm2d(l.in));
    } else if (l.type == "dropout") {
      net->append(tt::Dropout(l.p, random));
    } else if (l.type == "flatten") {
      net->append(tt::Flatten());
    } else if (l.type == "relu") {
      net->append(tt::ReLU());
    } else if (l.type == "gelu") {
      net->append(tt::GELU());
    } else if (l.type == "silu") {
      net->append(tt::SiLU());
    } else if (l.type == "tanh") {
      net->append(tt::Tanh());
    } else if (l.type == "sigmoid") {
      net->append(tt::Sigmoid());
    } else {
      throw std::logic_error("layer \"" + l.type + "\" passed the reader but cannot be built");
    }
  }
  return net;
}

// What a weights file must hold: exactly the tensors of the layers, of their shapes, floating and finite.
// Returns them as f32; anything else is a Refusal that names `file`.
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
    // Batch norm also saves a step counter, which no forward pass reads.
    if (name.ends_with(".num_batches_tracked")) continue;
    throw Refusal(file, "", "only the tensors of model.json's layers",
                  "an extra tensor " + detail::show(Json(name)));
  }
  return kept;
}

class Network {
 public:
  // Takes trained layers; from here on they only answer.
  Network(EntrySpec spec, std::shared_ptr<tt::Sequential> layers)
      : spec_(std::move(spec)), layers_(std::move(layers)) {
    layers_->eval();
  }
  // Fresh layers filled with checked weights.
  Network(EntrySpec spec, const tt::StateDict& weights) : spec_(std::move(spec)) {
    tt::Generator unused(0);  // every value is overwritten below
    layers_ = build_layers(spec_, unused);
    tt::StateDict state = layers_->state_dict();
    for (const auto& [name, tensor] : weights) state[name] = tensor;
    layers_->load_state_dict(state);
    layers_->eval();
  }

  const EntrySpec& spec() const { return spec_; }
  // x [N, C, H, W] -> scores [N, classes]
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
