// EvalMode: a model is in eval mode for a while.
//
//   {
//     const EvalMode eval(model);
//     model(batch);
//   }  // as before, with or without an exception
#pragma once

#include <string>
#include <tinytorch/layers/module.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// Sets eval mode until the end of the C++ scope, then gives each module its own mode back.
class EvalMode {
 public:
  explicit EvalMode(Module& model) {
    model.for_each_module([&](const std::string&, Module& m) { before_.emplace_back(&m, m.training()); });
    model.eval();
  }
  ~EvalMode() {
    for (const auto& [module, training] : before_) module->train(training);  // parents before children
  }
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  std::vector<std::pair<Module*, bool>> before_;
};

}  // namespace tinytorch::inline TT_BUILD
