// SGD with momentum: v = momentum v + g (+ weight_decay p), p -= lr v.
//
// With momentum, steps accumulate along directions in which gradients agree and cancel where their signs
// alternate. Nesterov's variant evaluates the gradient at the point to which momentum is about to move the
// parameter. As in PyTorch, the rate is not part of v.
// Source: Sutskever, Martens, Dahl, Hinton, "On the importance of initialization and momentum in deep
// learning", 2013.
#pragma once

#include <concepts>
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
  // SGD(net.parameters(), 0.1): the rate alone; the other options are the default ones.
  template <class Parameters, std::floating_point Rate>
  SGD(const Parameters& parameters, Rate lr, TT_LOC) : SGD(parameters, SgdOptions{.lr = lr}, loc) {}
  explicit SGD(const Tensors& parameters, SgdOptions sgd_options = {}, TT_LOC)
      : SGD(numbered(parameters), sgd_options, loc) {}
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
