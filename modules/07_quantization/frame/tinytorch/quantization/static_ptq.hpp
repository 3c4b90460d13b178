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
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/quantization/calibration_scope.hpp>
#include <tinytorch/quantization/int8_linear.hpp>
#include <tinytorch/quantization/separate_mlp.hpp>

namespace tinytorch::inline TT_BUILD {

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
  // Returns true for the path of a layer that keeps its float weights.
  std::function<bool(const std::string& path)> keep = [](const std::string& path) { return path == "head"; };
};

// Task 7.8.
inline std::vector<quantization::LayerPlace> layers_to_convert(Module& model, const StaticOptions& options);
inline InputRanges calibrate(Module& model, const std::vector<Tensor>& batches,
                             const StaticOptions& options = {}, TT_LOC);  // task 7.8
// Task 7.8.
inline int64_t convert(Module& model, const InputRanges& ranges, const StaticOptions& options = {}, TT_LOC);

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/quantization/static_ptq.hpp>
