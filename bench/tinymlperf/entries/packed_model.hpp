// The model of an entry with packed weights (packed.safetensors instead of weights.safetensors), as data that
// is untrusted.
#pragma once

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <tinymlperf/entries/network.hpp>
#include <tinytorch/quantization/files.hpp>
#include <tinytorch/transformer/gpt2.hpp>

namespace tinymlperf {

constexpr const char* kPackedFile = "packed.safetensors";  // of quantization/files.hpp

inline std::shared_ptr<tt::Gpt2> build_gpt(const EntrySpec& spec) {
  const GptSpec& g = spec.gpt.value();
  tt::Gpt2Config c;
  c.vocabulary = spec.outputs, c.context = g.context;
  c.features = g.features, c.layers = g.layers, c.heads = g.heads;
  c.embedding_dropout = c.attention_dropout = c.residual_dropout = 0;
  return std::make_shared<tt::Gpt2>(c);
}

// The layers of a spec with any weights.
inline std::shared_ptr<tt::Module> build_float_model(const EntrySpec& spec) {
  if (spec.gpt) return build_gpt(spec);
  tt::Generator unused(0);  // every value is overwritten
  return build_layers(spec, unused);
}

namespace detail {

inline void require_finite(const std::string& name, const tt::Tensor& t) {
  if (!tt::is_floating(t.dtype())) return;
  const tt::Tensor values = t.to(tt::DType::f32).contiguous();
  const float* const first = values.data<float>();
  for (int64_t i = 0; i < values.numel(); ++i)
    if (!std::isfinite(first[i]))
      throw Refusal(kPackedFile, name, "finite values", "a NaN or infinity at element " + std::to_string(i));
}

}  // namespace detail

// Loads the packed weights into new layers, in evaluation mode. Throws tinytorch::Error for a damaged file
// and for one of other layers, and Refusal for numbers that are not finite.
inline std::shared_ptr<tt::Module> load_packed_model(const std::filesystem::path& folder,
                                                     const EntrySpec& spec) {
  detail::require_size(folder / kPackedFile, limits::kWeightBytes);
  std::shared_ptr<tt::Module> model = build_float_model(spec);
  tt::load_packed(*model, (folder / kPackedFile).string());
  for (const auto& [name, tensor] : model->state_dict()) detail::require_finite(name, tensor);
  model->for_each_module([&](const std::string& path, tt::Module& m) {
    if (const auto* const packed = dynamic_cast<const tt::QuantizedLinear*>(&m))
      detail::require_finite(path, packed->weight().dequantize());
  });
  model->eval();
  return model;
}

}  // namespace tinymlperf
