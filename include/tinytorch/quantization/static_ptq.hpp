// Static post-training quantization: weights and activations in 8 bits, with scales that are frozen.
//
//   const StaticScales scales = calibrate(model, batches);     // observes the inputs of each linear layer
//   convert(model, scales);                                    // from here on, no scale changes
//
// A dynamic layer finds the largest input in each call, which costs a pass over x and makes a token's codes
// depend on the token. With a frozen scale the codes are one product and one rounding, and the integer sums
// need one factor for each column:
//
//   y = (codes(x) codes(W)^T) * (s_x s_W[n]) + bias[n]        sums are exact integers
//
// The price: inputs beyond what was seen in calibration are clipped. Norms, embeddings, softmax and the head
// of a language model stay in floats.
// Source: Jacob et al., "Quantization and training of neural networks for efficient integer-arithmetic-only
// inference", 2018.
#pragma once

#include <tinytorch/backend/cpu/linear_int8.hpp>
#include <tinytorch/quantization/calibration.hpp>
#include <tinytorch/quantization/folding.hpp>
#include <tinytorch/quantization/granularity.hpp>
#include <tinytorch/tensor/apply.hpp>

namespace tinytorch::inline TT_BUILD {

// How the range of a layer's inputs follows from what was observed (observers.hpp).
enum class Ranges : uint8_t { minmax, moving_average, percentile, mse, divergence };

// The scale of the inputs of each linear layer by its path: symmetric, 8 bits.
using StaticScales = std::map<std::string, AffineScale>;

inline std::unique_ptr<Observer> observer_of(Ranges ranges) {
  if (ranges == Ranges::moving_average) return std::make_unique<MovingAverageObserver>();
  if (ranges == Ranges::percentile) return std::make_unique<PercentileObserver>();
  if (ranges == Ranges::mse) return std::make_unique<MseObserver>();
  if (ranges == Ranges::divergence) return std::make_unique<KlObserver>();
  return std::make_unique<MinMaxObserver>();
}

// Products of codes: {codes of x i8 [M, K], codes of W i8 [N, K], s_x f32 [1], s_W f32 [N], bias} -> [M, N].
struct LinearInt8Op final : Primitive<LinearInt8Op> {
  static constexpr const char* kName = "linear_int8";
  DType result;
  explicit LinearInt8Op(DType dtype) : result(dtype) {}

  Specs infer(const Tensors& in, Loc loc) const override {
    if (in[0].size(-1) != in[1].size(1)) {
      fail("TT-SHAPE-02",
           "linear_int8: x " + in[0].describe() + " and weight " + in[1].describe() +
               "\n  rule: x [..., K], weight [N, K]",
           loc);
    }
    return {{{in[0].size(0), in[1].size(0)}, result}};
  }
  double flops(const Tensors& in, const Tensors& out) const override {
    return 2.0 * static_cast<double>(out[0].numel()) * static_cast<double>(in[0].size(1));
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], linear_int8(out[0].view_of(), in[0].view_of(), in[1].view_of(), in[2].view_of(),
                                  in[3].view_of(), view_or_none(in[4]), Activation::none));
  }
  Save saves() const override { return Save::nothing; }
  Tensors vjp(const Saved&, const Tensors&) const override {
    fail("TT-GRAD-05",
         "linear_int8 has no derivative\n  hint: train with floats and fake quantization, and convert the "
         "result");
  }
};

// A linear layer whose weight has a scale for each row, and whose inputs have one frozen scale. A NaN in x
// has the code 0, as in affine.hpp.
class StaticLinear : public Module {
 public:
  // The scale of inputs is positive and its codes are [-127, 127]. TT-CALIB-01 if a weight is not finite.
  StaticLinear(const Linear& layer, const AffineScale& inputs, TT_LOC) : input_scale(inputs) {
    const NoGrad no_grad;
    const ScaledCodes codes = scaled_codes(layer.weight, {}, loc);
    const Device device = layer.weight.device();
    weight = add_buffer("weight", codes.codes.to(device));
    weight_scale = add_buffer("weight_scale", codes.scales.reshape({-1}).to(device));
    scale_ = add_buffer("input_scale", full({1}, static_cast<double>(inputs.scale), DType::f32, device));
    if (layer.bias.defined()) bias = add_buffer("bias", layer.bias.detach());
  }
  // x [..., K] of f32, bf16 or f16 -> [..., N] of the same dtype. Another K is TT-SHAPE-02.
  Tensor forward(const Tensor& x) override {
    const NoGrad no_grad;
    const int64_t K = x.rank() > 0 ? x.size(-1) : 1, M = K == 0 ? 0 : x.numel() / K;
    const Tensor rounded = round(x.to(DType::f32) / scale_);
    const Tensor codes = clamp(rounded, input_scale.low, input_scale.high).to(DType::i8);
    Shape shape = x.shape();
    shape.back() = weight.size(0);
    const Tensors operands{codes.reshape({M, K}), weight, scale_, weight_scale, bias};
    return apply(LinearInt8Op(x.dtype()), operands).reshape(shape);
  }

  const AffineScale input_scale;
  Tensor weight, weight_scale, bias;  // i8 [N, K], f32 [N], [N] or undefined

 private:
  Tensor scale_;  // of the inputs, f32 [1]
};

// The scales of the inputs of all linear layers but the head, from calibration data alone: the model is not
// changed, and later inputs change no scale. TT-CALIB-02 if there is no batch or a layer is never called,
// TT-CALIB-01 if an input is not finite.
inline StaticScales calibrate(Module& model, const Calibration& batches, Ranges ranges = Ranges::minmax,
                              TT_LOC) {
  quantization::separate_mlps(model);
  std::vector<quantization::LayerPlace> layers;
  model.for_each_module([&](const std::string& path, Module& m) {
    if (auto* const layer = dynamic_cast<Linear*>(&m); layer && path != "head")
      layers.push_back({path, layer});
  });
  std::vector<std::unique_ptr<Observer>> observers;
  quantization::CallHooks hooks;
  for (const quantization::LayerPlace& l : layers) {
    observers.push_back(observer_of(ranges));
    hooks.add(*l.layer, [o = observers.back().get(), loc](const Tensor& x) { o->observe(x, loc); });
  }
  quantization::run_batches(
      model, batches, [](const Tensor&) {}, loc);
  StaticScales out;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (observers[i]->count() == 0) quantization::fail_never_called(layers[i].path, loc);
    const Range r = observers[i]->range(loc);
    out[layers[i].path] = choose_scale(r.min, r.max, 8, true, loc);
  }
  return out;
}

// Puts a StaticLinear in the place of each layer that has a scale. TT-CALIB-03 if the tree has no linear
// layer with one of the paths; then nothing is changed. Layers without a scale stay.
inline void convert(Module& model, const StaticScales& scales, TT_LOC) {
  const NoGrad no_grad;
  std::map<std::string, Linear*> layers;
  model.for_each_module([&](const std::string& path, Module& m) {
    if (auto* const layer = dynamic_cast<Linear*>(&m); layer && scales.count(path) > 0) layers[path] = layer;
  });
  for (const auto& [path, scale] : scales) {
    if (layers.count(path) > 0) continue;
    fail(
        "TT-CALIB-03",
        "convert: there is no linear layer '" + path + "'\n  hint: calibrate this model, and convert it once",
        loc);
  }
  std::vector<std::shared_ptr<StaticLinear>> converted;
  for (const auto& [path, layer] : layers)
    converted.push_back(std::make_shared<StaticLinear>(*layer, scales.at(path), loc));
  size_t i = 0;
  for (const auto& [path, layer] : layers) {
    layer->replace(converted[i++]), layer->forget_own_tensors();
    layer->weight = layer->bias = Tensor();
  }
}

}  // namespace tinytorch::inline TT_BUILD
