// Calibration: inputs of a model that show a quantizer what its layers see.
//
//   quantize(model, {.format = "Q4_0", .method = "gptq", .calibration = batches});  // Tensors of inputs
//   quantize(model, {..., .calibration = [&](int64_t i) { return i < 8 ? batch(i) : Tensor(); }});
//
// A batch is what model(batch) takes: token ids i64 [B, T] of a language model, or x [B, K]. It may be on any
// device, and is moved to that of the model. A function is asked for batch 0, 1, ... until it returns an
// undefined tensor, in several passes, so it must return the same batch for the same number. A batch of
// floats with a NaN or an infinity is TT-CALIB-01, no batch TT-CALIB-02.
//
// The model runs in eval mode without gradients, and on the CPU products add each row in one order
// (ProductsByRows). So what a layer sees there does not depend on the number of threads, nor on how the
// inputs are divided into batches. On a GPU, the last bits depend on the number of rows of a batch.
#pragma once

#include <tinytorch/backend/cpu/gemm.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/quantization/calibration_scope.hpp>
#include <tinytorch/quantization/input_statistics.hpp>

namespace tinytorch::inline TT_BUILD {

class Calibration {
 public:
  Calibration() = default;
  Calibration(std::vector<Tensor> batches) {
    if (batches.empty()) return;
    batch_ = [kept = std::move(batches)](int64_t i) {
      return i < static_cast<int64_t>(kept.size()) ? kept[static_cast<size_t>(i)] : Tensor();
    };
  }
  Calibration(const Tensors& batches) : Calibration(std::vector<Tensor>(batches.begin(), batches.end())) {}
  Calibration(std::initializer_list<Tensor> batches) : Calibration(std::vector<Tensor>(batches)) {}
  Calibration(std::function<Tensor(int64_t)> batch) : batch_(std::move(batch)) {}
  template <class F>
  requires std::is_invocable_r_v<Tensor, F, int64_t> Calibration(F batch) : batch_(std::move(batch)) {}

  bool empty() const { return !batch_; }
  // Batch i, or an undefined tensor after the last one.
  Tensor batch(int64_t i) const { return batch_ ? batch_(i) : Tensor(); }

 private:
  std::function<Tensor(int64_t)> batch_;
};

namespace quantization {

inline bool all_finite(const Tensor& x) {
  if (!is_floating(x.dtype())) return true;
  const Tensor values = calibration_values("calibrate", x, Loc::current());
  const float* const p = values.data<float>();
  return std::all_of(p, p + values.numel(), [](float v) { return std::isfinite(v); });
}

// The batch on the device of the model. A model whose layers are all packed has buffers, but no parameters.
inline Tensor on_device_of(const Module& model, const Tensor& batch, Loc loc) {
  const StateDict state = model.state_dict();
  return state.empty() ? batch : batch.to(state.begin()->second.device(), loc);
}

// Calls model(batch) for each batch, then f(outputs).
template <class F>
void run_batches(Module& model, const Calibration& calibration, F&& f, Loc loc) {
  const NoGrad no_grad;
  const EvalMode eval(model);
  const backend::cpu::ProductsByRows by_rows;
  int64_t count = 0;
  for (;; ++count) {
    const Tensor x = calibration.batch(count);
    if (!x.defined()) break;
    if (!all_finite(x)) {
      fail("TT-CALIB-01",
           "calibration batch " + std::to_string(count) + " has a NaN or an infinity: " + x.describe() +
               "\n  hint: calibrate with inputs on which the model works",
           loc);
    }
    f(model(on_device_of(model, x, loc), loc));
  }
  if (count > 0) return;
  fail("TT-CALIB-02",
       "there is no batch of calibration data\n  hint: set `calibration` to a list of inputs, such as token "
       "ids "
       "i64 [B, T]",
       loc);
}

inline void fail_never_called(const std::string& path, Loc loc) {
  fail("TT-CALIB-02",
       "the layer '" + path +
           "' was never called with a row of calibration data\n  hint: choose inputs that reach it, or keep "
           "it: "
           "`choose` returns \"\" for its path",
       loc);
}

// Statistics of the inputs of each layer, in one pass, and the layers in the order of their first calls.
// Takes 8 K^2 bytes a layer of K inputs. transform[i], if given, is applied to the inputs of layer i first.
// Throws TT-CALIB-01 if the inputs of a layer are not finite, and TT-CALIB-02 if a layer is never called; the
// message names it.
struct LayerInputs {
  std::vector<InputStatistics> statistics;
  std::vector<size_t> order;
};
template <class Transform>
LayerInputs observe_inputs(Module& model, const std::vector<LayerPlace>& layers,
                           const Calibration& calibration, Transform&& transform, Loc loc) {
  LayerInputs out;
  CallHooks hooks;
  for (const LayerPlace& l : layers) out.statistics.emplace_back(l.layer->weight.size(1), loc);
  for (size_t i = 0; i < layers.size(); ++i) {
    hooks.add(*layers[i].layer, [&, i](const Tensor& x) {
      if (!all_finite(x)) {
        fail("TT-CALIB-01",
             "the input of the layer '" + layers[i].path +
                 "' has a NaN or an infinity on calibration data\n  hint: the layers before it overflow, or "
                 "their weights are not finite",
             loc);
      }
      if (out.statistics[i].rows() == 0 && x.numel() > 0) out.order.push_back(i);
      out.statistics[i].observe(transform(i, x), loc);
    });
  }
  run_batches(
      model, calibration, [](const Tensor&) {}, loc);
  for (size_t i = 0; i < layers.size(); ++i)
    if (out.statistics[i].rows() == 0) fail_never_called(layers[i].path, loc);
  return out;
}

}  // namespace quantization
}  // namespace tinytorch::inline TT_BUILD
