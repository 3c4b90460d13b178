// Adagrad: each element's step is divided by the root of the sum of all its squared gradients, so that rare
// features keep large steps.
//
//   sum += g^2      p -= lr / (1 + (t - 1) lr_decay) g / (sqrt(sum) + eps)
//
// weight_decay p is added to g. Names, defaults and results are PyTorch's.
// Source: Duchi, Hazan, Singer, "Adaptive subgradient methods for online learning and stochastic
// optimization", 2011.
#pragma once

#include <concepts>
#include <tinytorch/backend/cpu/optimizer_rules.hpp>
#include <tinytorch/layers/optimizer.hpp>

namespace tinytorch::inline TT_BUILD {

struct AdagradOptions {
  double lr = 0.01;
  double lr_decay = 0;
  double weight_decay = 0;
  double initial_accumulator_value = 0;
  double eps = 1e-10;
};

class Adagrad : public Optimizer {
 public:
  // Adagrad(net.parameters(), 0.1): the rate alone; the other options are the default ones.
  template <class Parameters, std::floating_point Rate>
  Adagrad(const Parameters& parameters, Rate lr, TT_LOC)
      : Adagrad(parameters, AdagradOptions{.lr = lr}, loc) {}
  explicit Adagrad(const Tensors& parameters, AdagradOptions adagrad_options = {}, TT_LOC)
      : Adagrad(numbered(parameters), adagrad_options, loc) {}
  explicit Adagrad(const NamedTensors& parameters, AdagradOptions adagrad_options = {}, TT_LOC)
      : Optimizer(parameters, adagrad_options.lr, adagrad_options.weight_decay, {"sum"}, loc,
                  adagrad_options.initial_accumulator_value),
        options(adagrad_options) {
    if (!(options.lr_decay >= 0) || !(options.initial_accumulator_value >= 0) || !(options.eps >= 0)) {
      fail("TT-OPT-07", "Adagrad: lr_decay, initial_accumulator_value and eps must be >= 0", loc);
    }
  }

  const AdagradOptions options;

 protected:
  void update_all(Updates& updates, const Tensor& scalars, bool clip, Loc) override {
    const std::vector<backend::OptimizerSlot> slots = slots_of(updates);
    TT_KERNEL(scalars, adagrad_step_all(slots, scalars.view_of(),
                                        {.lr_decay = options.lr_decay, .eps = options.eps}, clip));
  }
};

}  // namespace tinytorch::inline TT_BUILD
