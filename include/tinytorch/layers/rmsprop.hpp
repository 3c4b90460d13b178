// RMSprop: each element's step is divided by the root of a running mean of its squared gradient.
//
//   v = alpha v + (1 - alpha) g^2      p -= lr g / (sqrt(v) + eps)
//
// `centered` divides by the standard deviation of the gradient instead: it subtracts the square of a running
// mean of g from v. With momentum, the divided gradients are accumulated as in SGD. weight_decay p is added
// to g. Names, defaults and results are PyTorch's.
// Sources: Tieleman and Hinton, "Lecture 6.5: RMSprop", 2012; Graves, 2013 (centered).
#pragma once

#include <concepts>
#include <tinytorch/backend/cpu/optimizer_rules.hpp>
#include <tinytorch/layers/optimizer.hpp>

namespace tinytorch::inline TT_BUILD {

struct RmsPropOptions {
  double lr = 0.01;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;
};

class RMSprop : public Optimizer {
 public:
  // RMSprop(net.parameters(), 0.1): the rate alone; the other options are the default ones.
  template <class Parameters, std::floating_point Rate>
  RMSprop(const Parameters& parameters, Rate lr, TT_LOC)
      : RMSprop(parameters, RmsPropOptions{.lr = lr}, loc) {}
  explicit RMSprop(const Tensors& parameters, RmsPropOptions rmsprop_options = {}, TT_LOC)
      : RMSprop(numbered(parameters), rmsprop_options, loc) {}
  explicit RMSprop(const NamedTensors& parameters, RmsPropOptions rmsprop_options = {}, TT_LOC)
      : Optimizer(parameters, rmsprop_options.lr, rmsprop_options.weight_decay, state_names(rmsprop_options),
                  loc),
        options(rmsprop_options) {
    if (!(options.alpha >= 0 && options.alpha < 1) || !(options.momentum >= 0) || !(options.eps >= 0)) {
      fail("TT-OPT-07", "RMSprop: alpha must be in [0, 1), momentum and eps >= 0", loc);
    }
  }

  const RmsPropOptions options;

 protected:
  void update_all(Updates& updates, const Tensor& scalars, bool clip, Loc) override {
    const std::vector<backend::OptimizerSlot> slots = slots_of(updates);
    const backend::RmsPropStep step{.alpha = options.alpha,
                                    .eps = options.eps,
                                    .momentum = options.momentum,
                                    .centered = options.centered};
    TT_KERNEL(scalars, rmsprop_step_all(slots, scalars.view_of(), step, clip));
  }

 private:
  static std::vector<std::string> state_names(const RmsPropOptions& options) {
    std::vector<std::string> names{"square_avg"};
    if (options.momentum > 0) names.push_back("momentum_buffer");
    if (options.centered) names.push_back("grad_avg");
    return names;
  }
};

}  // namespace tinytorch::inline TT_BUILD
