// SGD: p -= lr v, where v = momentum v + g (+ weight_decay p) remembers the past.
//
// Momentum lets steps add up where gradients agree and cancel where they alternate; Nesterov's variant uses
// the gradient seen from where momentum is about to carry the parameter. Source: Sutskever, Martens, Dahl,
// Hinton, 2013; the form is PyTorch's, with the rate outside of v.
#pragma once

#include <tinytorch/layers/optimizer.hpp>

namespace tinytorch::inline TT_BUILD {

struct SgdOptions {
  double lr = 0.01;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

class SGD : public Optimizer {
 public:
  explicit SGD(const NamedTensors& parameters, SgdOptions sgd_options = {}, TT_LOC)
      : Optimizer(parameters, sgd_options.lr, sgd_options.weight_decay, state_names(sgd_options), loc),
        options(sgd_options) {
    if (!(options.momentum >= 0 && options.momentum < 1)) {
      fail("TT-OPT-06", "SGD: momentum must be in [0, 1), got " + std::to_string(options.momentum), loc);
    }
    if (options.nesterov && options.momentum == 0) {
      fail("TT-OPT-06", "SGD: Nesterov needs a momentum above 0", loc);
    }
  }

  const SgdOptions options;

 protected:
  void update_all(Updates& updates, const Tensor& scalars, bool clip, Loc) override {
    const std::vector<backend::OptimizerSlot> slots = slots_of(updates);
    TT_KERNEL(scalars, sgd_step_all(slots, scalars.view_of(),
                                    {.momentum = options.momentum, .nesterov = options.nesterov}, clip));
  }

 private:
  static std::vector<std::string> state_names(const SgdOptions& options) {
    if (options.momentum == 0) return {};
    return {"momentum"};
  }
};

}  // namespace tinytorch::inline TT_BUILD
