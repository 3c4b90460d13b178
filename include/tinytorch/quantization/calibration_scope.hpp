// Scopes for calibration: eval mode, and functions that are called before layers. At the end of the C++ scope
// the model is as before, with or without an exception.
//
//   const EvalMode eval(model);
//   CallHooks hooks;
//   hooks.add(layer, [&](const Tensor& x) { observer.observe(x); });
//   model(batch);
#pragma once

#include <functional>
#include <string>
#include <tinytorch/layers/eval_mode.hpp>
#include <tinytorch/layers/linear.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD::quantization {

using tinytorch::EvalMode;

// Functions that are called before a layer until the end of the C++ scope. They replace on_call().
class CallHooks {
 public:
  CallHooks() = default;
  ~CallHooks() {
    for (Module* const m : modules_) m->on_call({});
  }
  CallHooks(const CallHooks&) = delete;
  CallHooks& operator=(const CallHooks&) = delete;
  void add(Module& m, std::function<void(const Tensor&)> f) {
    m.on_call(std::move(f)), modules_.push_back(&m);
  }

 private:
  std::vector<Module*> modules_;
};

// A linear layer of a tree by its path.
struct LayerPlace {
  std::string path;
  Linear* layer;
};

}  // namespace tinytorch::inline TT_BUILD::quantization
