// Steps of RMSprop, Adagrad, Adam with AMSGrad, and Lion over many parameters at once (contract:
// backend/cpu/optimizer_rules.hpp).
//
// The rules of an element are those of the CPU. Limit: memory bandwidth.
#pragma once

#include <tinytorch/backend/cuda/kernels/optimizer_slots.cuh>
#include <tinytorch/backend/optimizer_rules.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// A rule of optimizer_rules.hpp in the form that the kernels of optimizer_slots.cuh use.
template <class T, class Shared>
struct DeviceRule {
  static constexpr int kStates = Shared::kStates;
  using Step = typename Shared::Step;
  Shared shared;
  T factor;  // of the gradient
  bool skip;

  __device__ void prepare(const Step& step, double lr, double f, double weight_decay, int64_t number) {
    factor = static_cast<T>(f);
    shared.prepare(step, lr, weight_decay, number);
  }
  __device__ __forceinline__ void operator()(T& p, T g, T& a, T& b, T& c) const {
    shared(p, factor * g, a, b, c);
  }
};

template <class T>
using RmsPropPlain = DeviceRule<T, RmsPropRule<T, false, false>>;
template <class T>
using RmsPropMomentum = DeviceRule<T, RmsPropRule<T, true, false>>;
template <class T>
using RmsPropCentered = DeviceRule<T, RmsPropRule<T, false, true>>;
template <class T>
using RmsPropBoth = DeviceRule<T, RmsPropRule<T, true, true>>;
template <class T>
using Adagrad = DeviceRule<T, AdagradRule<T>>;
template <class T>
using AmsGrad = DeviceRule<T, AmsGradRule<T>>;
template <class T>
using Lion = DeviceRule<T, LionRule<T>>;

void rmsprop_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const RmsPropStep& step,
                      bool clip) {
  const auto* const values = scalars.as<const double>();
  const bool momentum = step.momentum > 0;
  if (momentum && step.centered) return slots::step_all<RmsPropBoth>(slots, values, step, 0, clip);
  if (momentum) return slots::step_all<RmsPropMomentum>(slots, values, step, 0, clip);
  if (step.centered) return slots::step_all<RmsPropCentered>(slots, values, step, 0, clip);
  slots::step_all<RmsPropPlain>(slots, values, step, 0, clip);
}
void adagrad_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const AdagradStep& step,
                      bool clip) {
  slots::step_all<Adagrad>(slots, scalars.as<const double>(), step, 0, clip);
}
void amsgrad_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const AdamStep& step,
                      bool clip) {
  slots::step_all<AmsGrad>(slots, scalars.as<const double>(), step, 0, clip);
}
void lion_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const LionStep& step,
                   bool clip) {
  slots::step_all<Lion>(slots, scalars.as<const double>(), step, 0, clip);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
