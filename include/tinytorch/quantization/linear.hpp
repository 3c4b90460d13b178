// QuantizedLinear: a linear layer whose weight is packed. It takes the place of a Linear in a module tree.
//
//   linear.replace(std::make_shared<QuantizedLinear>(quantize(linear.weight, "Q8_0"), linear.bias));
//
// Its packed weight is a u8 buffer, so that the tree moves it to devices and writes it to files, and its bias
// is a buffer, too: neither is trained. A method that scales or rotates channels gives it an InputTransform,
// which is part of each call unless the layer before takes the scales over.
#pragma once

#include <optional>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/quantization/hadamard.hpp>
#include <tinytorch/quantization/tensor.hpp>

namespace tinytorch::inline TT_BUILD {

// What happens to inputs x [..., K] before the product: x / s, then a Hadamard rotation. The weight becomes
// W s, rotated, so the product stays the same. The cost of a call: a division of each input, which is 1 / N
// of the product's work; a rotation on the CPU with log2 K additions for each input.
struct InputTransform {
  Tensor scale{};                      // s, f32 [K]; undefined: none
  std::optional<uint64_t> rotation{};  // the seed of its signs

  bool empty() const { return !scale.defined() && !rotation; }
  Tensor inputs(const Tensor& x) const {
    if (empty()) return x;
    const NoGrad no_grad;
    Tensor y = scale.defined() ? x / scale.to(x.device()).to(x.dtype()) : x;
    return rotation ? hadamard_rotate(y, *rotation) : y;
  }
  // Of a weight [N, K], which is not changed: f32 on the CPU.
  Tensor weight(const Tensor& w) const {
    const NoGrad no_grad;
    Tensor y = calibration_values("InputTransform", w, Loc::current());
    if (scale.defined()) y = y * scale;
    return rotation ? hadamard_rotate(y, *rotation) : y;
  }
};

class QuantizedLinear : public Module {
 public:
  // weight [N, K], bias [N] or undefined.
  QuantizedLinear(const QuantizedTensor& weight, const Tensor& given_bias,
                  Activations rounding = Activations::int8, const InputTransform& before = {})
      : activations(rounding),
        format_(&weight.format()),
        K_(weight.shape().back()),
        rotation_(before.rotation) {
    blocks_ = add_buffer("weight", weight.blocks());
    if (given_bias.defined()) bias_ = add_buffer("bias", given_bias.detach());
    if (before.scale.defined()) scale_ = add_buffer("input_scale", before.scale.to(weight.device()));
  }
  Tensor forward(const Tensor& x) override {
    return linear(transform().inputs(x), weight(), bias_, activations);
  }

  QuantizedTensor weight() const { return {*format_, K_, blocks_}; }
  const Tensor& bias() const { return bias_; }
  InputTransform transform() const { return {scale_, rotation_}; }

  Activations activations;

 private:
  const BlockFormat* format_;
  int64_t K_;
  std::optional<uint64_t> rotation_;
  Tensor blocks_, bias_, scale_;
};

// Puts a layer of packed rows in the place of `layer`, which forgets its own.
inline std::shared_ptr<QuantizedLinear> replace_packed(Linear& layer, const QuantizedTensor& weight,
                                                       Activations activations = Activations::int8,
                                                       const InputTransform& before = {}) {
  auto packed = std::make_shared<QuantizedLinear>(weight, layer.bias, activations, before);
  layer.replace(packed);
  layer.forget_own_tensors();
  layer.weight = Tensor(), layer.bias = Tensor();
  return packed;
}
// Packs the weight of a linear layer by rounding to nearest. TT-QUANT-03, TT-QUANT-04.
inline std::shared_ptr<QuantizedLinear> pack_linear(Linear& layer, const BlockFormat& format,
                                                    Activations activations = Activations::int8, TT_LOC) {
  return replace_packed(layer, quantize(layer.weight, format, loc), activations);
}

}  // namespace tinytorch::inline TT_BUILD
