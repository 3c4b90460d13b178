// Static post-training quantization: linear layers that multiply 8-bit integers, with scales that are all
// chosen before the model is used.
//
//   const InputRanges seen = calibrate(model, batches);  // runs the model, which stays as it is
//   convert(model, seen);                                // its linear layers now multiply integers
//
//   y = s_x s_w[n] (sum over k of code_x[k] code_w[n][k]) + bias[n]
//
// Weights have a scale for each row, s_w. Dynamic quantization looks for the largest input first, in each
// call. Here an input has one scale, s_x, from the range that calibration has seen, and it never changes: an
// element is read once, and its code depends on nothing else. The price is that inputs beyond this range
// saturate. So the calibration data must resemble what the model will see, and must not be what it is
// tested on. Norms, activation functions and softmax stay in floats, because they have no large sums of
// products to save, and the head of a language model does, because its errors are those of the result.
// Source: Jacob et al., "Quantization and training of neural networks for efficient integer-arithmetic-only
// inference", 2018.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tinytorch/autograd/grad_mode.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/quantization/calibration_scope.hpp>
#include <tinytorch/quantization/int8_linear.hpp>
#include <tinytorch/quantization/separate_mlp.hpp>

namespace tinytorch::inline TT_BUILD {

// Takes the place of a Linear. Its codes and scales are buffers, which are saved with the model and move to
// devices with it, and which are not trained.
class StaticLinear : public Module {
 public:
  // inputs: the range that calibration has seen. Throws TT-CALIB-01 if it, or a weight, is not finite.
  StaticLinear(const Linear& trained, Range inputs, TT_LOC) {
    const Device device = trained.weight.device();
    const ScaledCodes rows = scaled_codes(trained.weight, {.bits = 8, .granularity = Granularity::row}, loc);
    const double scale = static_cast<double>(choose_scale(inputs.min, inputs.max, 8, true, loc).scale);
    weight = add_buffer("weight", rows.codes.to(device));
    weight_scale = add_buffer("weight_scale", rows.scales.reshape({-1}).to(device));
    input_scale = add_buffer("input_scale", full({1}, scale, DType::f32, device));
    if (trained.bias.defined()) bias = add_buffer("bias", trained.bias.detach().clone());
  }
  // x [..., K], f32, bf16 or f16 -> [..., N] of the dtype of x. An input beyond the calibrated range has the
  // largest code or its negative, and a NaN has code 0. Throws TT-DTYPE-02 for other dtypes, and TT-SHAPE-02
  // for another K.
  Tensor forward(const Tensor& x) override {
    const NoGrad no_grad;
    const Tensor scale = input_scale.to(DType::f32), rows = x.reshape({-1, x.size(-1)}).to(DType::f32);
    const Tensor codes = clamp(round(rows / scale), -127, 127).to(DType::i8);
    const Tensor y =
        apply(Int8LinearOp(x.dtype()), {codes, weight, scale, weight_scale.to(DType::f32), bias});
    Shape shape = x.shape();
    shape.back() = y.size(1);
    return y.reshape(shape);
  }

  Tensor weight;        // i8 [N, K]
  Tensor weight_scale;  // f32 [N]
  Tensor input_scale;   // f32 [1]
  Tensor bias;          // [N]; undefined without a bias
};

// The range of the inputs of each layer, by its path.
using InputRanges = std::map<std::string, Range>;

struct StaticOptions {
  // Makes the observer of a layer's inputs.
  std::function<std::unique_ptr<Observer>()> observer = [] { return std::make_unique<MinMaxObserver>(); };
  // Returns true for the path of a layer that keeps its float weights.
  std::function<bool(const std::string& path)> keep = [](const std::string& path) { return path == "head"; };
};

// The linear layers of a model that are not kept, with their paths.
inline std::vector<quantization::LayerPlace> layers_to_convert(Module& model, const StaticOptions& options) {
  std::vector<quantization::LayerPlace> layers;
  model.for_each_module([&](const std::string& path, Module& m) {
    auto* const layer = dynamic_cast<Linear*>(&m);
    if (layer && !options.keep(path)) layers.push_back({path, layer});
  });
  return layers;
}

// Runs the model on each batch, in eval mode and without gradients, and returns the range of the inputs of
// each linear layer that is not kept. The model is as before, and no observer stays in it, nor what on_call()
// had put into these layers. Throws TT-CALIB-01 if an input is not finite, and TT-CALIB-02 if a layer had no
// input: there are no batches, or the model does not call it.
inline InputRanges calibrate(Module& model, const std::vector<Tensor>& batches,
                             const StaticOptions& options = {}, TT_LOC) {
  const NoGrad no_grad;
  const quantization::SeparateMlps separate(model);
  const quantization::EvalMode eval(model);
  const std::vector<quantization::LayerPlace> layers = layers_to_convert(model, options);
  std::vector<std::unique_ptr<Observer>> observers;
  quantization::CallHooks hooks;
  for (const quantization::LayerPlace& l : layers) {
    observers.push_back(options.observer());
    hooks.add(*l.layer, [sees = observers.back().get()](const Tensor& x) { sees->observe(x); });
  }
  for (const Tensor& batch : batches) (void)model(batch);
  InputRanges ranges;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (observers[i]->count() == 0) {
      fail("TT-CALIB-02",
           "calibrate: the layer '" + layers[i].path +
               "' had no input\n  hint: give batches on which the model calls it, or keep it in floats",
           loc);
    }
    ranges.emplace(layers[i].path, observers[i]->range(loc));
  }
  return ranges;
}

// Replaces the linear layers that are not kept by layers with 8-bit codes, which have the scales of these
// ranges for ever, and frees their float weights. Returns their number. Throws TT-CALIB-02 if a layer has no
// range, before anything is changed.
inline int64_t convert(Module& model, const InputRanges& ranges, const StaticOptions& options = {}, TT_LOC) {
  quantization::SeparateMlps separate(model);
  const std::vector<quantization::LayerPlace> layers = layers_to_convert(model, options);
  std::vector<std::shared_ptr<StaticLinear>> converted;
  for (const auto& [path, layer] : layers) {
    const auto range = ranges.find(path);
    if (range == ranges.end()) {
      fail("TT-CALIB-02",
           "convert: the layer '" + path +
               "' has no range\n  hint: calibrate with the same options, or keep it in floats",
           loc);
    }
    converted.push_back(std::make_shared<StaticLinear>(*layer, range->second, loc));
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    Linear& layer = *layers[i].layer;
    layer.replace(converted[i]);
    layer.forget_own_tensors();
    layer.weight = Tensor(), layer.bias = Tensor();
  }
  separate.stay();
  return std::ssize(converted);
}

}  // namespace tinytorch::inline TT_BUILD
