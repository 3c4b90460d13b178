// Adam and AdamW: each element has its own step size, from running means of its gradient and squared
// gradient.
//
//   m = b1 m + (1 - b1) g      v = b2 v + (1 - b2) g^2      p -= lr m^ / (sqrt(v^) + eps)
//   m^ = m / (1 - b1^t)        v^ = v / (1 - b2^t)
//
// m^ and v^ correct the bias of running means that start at zero. Adam adds weight_decay p to g, so the decay
// is divided by sqrt(v) too. AdamW subtracts lr weight_decay p from p instead. With amsgrad, the divisor uses
// the largest v so far, so that steps do not grow again after a rare large gradient.
// Sources: Kingma and Ba, 2015; Loshchilov and Hutter, "Decoupled weight decay regularization", 2019; Reddi,
// Kale, Kumar, "On the convergence of Adam and beyond", 2018.
#pragma once

#include <concepts>
#include <tinytorch/backend/cpu/optimizer_rules.hpp>
#include <tinytorch/layers/optimizer.hpp>

namespace tinytorch::inline TT_BUILD {

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
};

class Adam : public Optimizer {
 public:
  // Adam(net.parameters(), 0.1): the rate alone; the other options are the default ones.
  template <class Parameters, std::floating_point Rate>
  Adam(const Parameters& parameters, Rate lr, TT_LOC) : Adam(parameters, AdamOptions{.lr = lr}, loc) {}
  explicit Adam(const Tensors& parameters, AdamOptions adam_options = {}, TT_LOC)
      : Adam(numbered(parameters), adam_options, loc) {}
  explicit Adam(const NamedTensors& parameters, AdamOptions adam_options = {}, TT_LOC)
      : Adam(parameters, adam_options, false, loc) {}

  const AdamOptions options;

 protected:
  Adam(const NamedTensors& parameters, const AdamOptions& adam_options, bool decoupled, Loc loc)
      : Optimizer(parameters, adam_options.lr, adam_options.weight_decay, state_names(adam_options), loc),
        options(adam_options),
        decoupled_(decoupled) {
    const auto is_rate = [](double beta) { return beta >= 0 && beta < 1; };
    if (!is_rate(options.beta1) || !is_rate(options.beta2) || !(options.eps >= 0)) {
      fail("TT-OPT-07", "Adam: beta1 and beta2 must be in [0, 1) and eps >= 0", loc);
    }
  }

  void update_all(Updates& updates, const Tensor& scalars, bool clip, Loc) override {
    const std::vector<backend::OptimizerSlot> slots = slots_of(updates);
    const backend::AdamStep step{
        .beta1 = options.beta1, .beta2 = options.beta2, .eps = options.eps, .decoupled = decoupled_};
    if (options.amsgrad) {
      TT_KERNEL(scalars, amsgrad_step_all(slots, scalars.view_of(), step, clip));
    } else {
      TT_KERNEL(scalars, adam_step_all(slots, scalars.view_of(), step, clip));
    }
  }

 private:
  static std::vector<std::string> state_names(const AdamOptions& options) {
    if (options.amsgrad) return {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
    return {"exp_avg", "exp_avg_sq"};
  }

  bool decoupled_;
};

class AdamW : public Adam {
 public:
  // AdamW(net.parameters(), 0.1): the rate alone; the other options are the default ones.
  template <class Parameters, std::floating_point Rate>
  AdamW(const Parameters& parameters, Rate lr, TT_LOC)
      : AdamW(parameters, AdamOptions{.lr = lr, .weight_decay = 0.01}, loc) {}
  explicit AdamW(const Tensors& parameters, AdamOptions adam_options = {.weight_decay = 0.01}, TT_LOC)
      : AdamW(numbered(parameters), adam_options, loc) {}
  explicit AdamW(const NamedTensors& parameters, AdamOptions adam_options = {.weight_decay = 0.01}, TT_LOC)
      : Adam(parameters, adam_options, true, loc) {}
};

}  // namespace tinytorch::inline TT_BUILD
