// Lion: every element moves by the learning rate, in the direction of the sign of a running mean of its
// gradient.
//
//   p = (1 - lr weight_decay) p - lr sign(beta1 m + (1 - beta1) g)      m = beta2 m + (1 - beta2) g
//
// It keeps one state per element, where Adam keeps two. Because all steps have the size lr, rates are three
// to ten times smaller than those of AdamW, and weight decays as many times larger.
// Source: Chen et al., "Symbolic discovery of optimization algorithms", 2023.
#pragma once

#include <concepts>
#include <tinytorch/backend/cpu/optimizer_rules.hpp>
#include <tinytorch/layers/optimizer.hpp>

namespace tinytorch::inline TT_BUILD {

struct LionOptions {
  double lr = 1e-4;
  double beta1 = 0.9, beta2 = 0.99;
  double weight_decay = 0;
};

class Lion : public Optimizer {
 public:
  // Lion(net.parameters(), 0.1): the rate alone; the other options are the default ones.
  template <class Parameters, std::floating_point Rate>
  Lion(const Parameters& parameters, Rate lr, TT_LOC) : Lion(parameters, LionOptions{.lr = lr}, loc) {}
  explicit Lion(const Tensors& parameters, LionOptions lion_options = {}, TT_LOC)
      : Lion(numbered(parameters), lion_options, loc) {}
  explicit Lion(const NamedTensors& parameters, LionOptions lion_options = {}, TT_LOC)
      : Optimizer(parameters, lion_options.lr, lion_options.weight_decay, {"exp_avg"}, loc),
        options(lion_options) {
    const auto is_rate = [](double beta) { return beta >= 0 && beta < 1; };
    if (!is_rate(options.beta1) || !is_rate(options.beta2)) {
      fail("TT-OPT-07", "Lion: beta1 and beta2 must be in [0, 1)", loc);
    }
  }

  const LionOptions options;

 protected:
  void update_all(Updates& updates, const Tensor& scalars, bool clip, Loc) override {
    const std::vector<backend::OptimizerSlot> slots = slots_of(updates);
    TT_KERNEL(scalars, lion_step_all(slots, scalars.view_of(),
                                     {.beta1 = options.beta1, .beta2 = options.beta2}, clip));
  }
};

}  // namespace tinytorch::inline TT_BUILD
