// Static post-training quantization: linear layers that multiply 8-bit integers, with scales that are all
// chosen before the model is used.
//
// The frame of a course header: it has the given parts, and includes the functions of task 7.8. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tinytorch/autograd/grad_mode.hpp>
#include <tinytorch/backend/cpu/linear_int8.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/quantization/granularity.hpp>
#include <tinytorch/quantization/separate_mlp.hpp>
#include <tinytorch/tensor/apply.hpp>

namespace tinytorch::inline TT_BUILD {

// Codes of x [M, K] and of a weight [N, K], both i8, the scale of x f32 [1], the scales of the rows of the
// weight f32 [N], and a bias [N] or none -> [M, N]. Sums are exact integers, and are scaled once.
struct Int8LinearOp final : Primitive<Int8LinearOp> {
  static constexpr const char* kName = "linear_int8";
  DType dtype;  // of the result: f32, bf16 or f16
  explicit Int8LinearOp(DType of_result) : dtype(of_result) {}

  Specs infer(const Tensors& in, Loc) const override {
    return {{{in[0].shape()[0], in[1].shape()[0]}, dtype}};
  }
  double flops(const Tensors& in, const Tensors& out) const override {
    return 2.0 * static_cast<double>(out[0].numel()) * static_cast<double>(in[0].shape()[1]);
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

// Takes the place of a Linear. Its codes and scales are buffers, which are saved with the model and move to
// devices with it, and which are not trained.
class StaticLinear : public Module {
 public:
  StaticLinear(const Linear& trained, Range inputs, TT_LOC);  // task 7.8
  inline Tensor forward(const Tensor& x) override;            // task 7.8

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
  // Whether a layer stays in floats, by its path.
  std::function<bool(const std::string& path)> keep = [](const std::string& path) { return path == "head"; };
};

// Lets the fused MLPs of a model call their layers, while this object lives or, after stay(), for ever.
class SeparateMlps {
 public:
  explicit SeparateMlps(Module& model) {
    model.for_each_module([&](const std::string&, Module& m) {
      if (auto* const mlp = dynamic_cast<Mlp*>(&m)) mlps_.push_back(mlp);
    });
    for (Mlp* const mlp : mlps_) mlp->replace(std::make_shared<quantization::SeparateMlp>(*mlp));
  }
  ~SeparateMlps() {
    for (Mlp* const mlp : mlps_) mlp->replace(nullptr);
  }
  SeparateMlps(const SeparateMlps&) = delete;
  SeparateMlps& operator=(const SeparateMlps&) = delete;
  void stay() { mlps_.clear(); }

 private:
  std::vector<Mlp*> mlps_;
};

// The state of each module before calibration. Its destructor brings back its mode, training or not, and
// takes an observer out of it.
class CalibrationScope {
 public:
  explicit CalibrationScope(Module& model) {
    model.for_each_module([&](const std::string&, Module& m) { modes_.emplace_back(&m, m.training()); });
  }
  ~CalibrationScope() {
    for (const auto& [module, training] : modes_) {
      module->on_call({});
      module->train(training);  // parents come before children
    }
  }
  CalibrationScope(const CalibrationScope&) = delete;
  CalibrationScope& operator=(const CalibrationScope&) = delete;

 private:
  std::vector<std::pair<Module*, bool>> modes_;
};

// Task 7.8.
inline std::map<std::string, Linear*> layers_to_convert(Module& model, const StaticOptions& options);
inline InputRanges calibrate(Module& model, const std::vector<Tensor>& batches,
                             const StaticOptions& options = {}, TT_LOC);  // task 7.8
// Task 7.8.
inline int64_t convert(Module& model, const InputRanges& ranges, const StaticOptions& options = {}, TT_LOC);

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/quantization/static_ptq.hpp>
