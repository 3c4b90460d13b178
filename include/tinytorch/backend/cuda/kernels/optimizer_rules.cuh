// Steps of RMSprop, Adagrad, Adam with AMSGrad, and Lion over many parameters at once (contract:
// backend/cpu/optimizer_rules.hpp).
//
// The rules of an element are those of the CPU. Limit: memory bandwidth.
#pragma once

#include <tinytorch/backend/cuda/kernels/optimizer_slots.cuh>
#include <tinytorch/backend/optimizer_rules.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

void rmsprop_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const RmsPropStep& step,
                      bool clip) {
  dispatch_rmsprop(step, [&]<template <class> class Rule>() {
    slots::step_all<slots::OnDevice<Rule>::template Rule>(slots, scalars.as<const double>(), step, 0, clip);
  });
}
void adagrad_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const AdagradStep& step,
                      bool clip) {
  slots::step_all<slots::OnDevice<AdagradRule>::Rule>(slots, scalars.as<const double>(), step, 0, clip);
}
void amsgrad_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const AdamStep& step,
                      bool clip) {
  slots::step_all<slots::OnDevice<AmsGradRule>::Rule>(slots, scalars.as<const double>(), step, 0, clip);
}
void lion_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const LionStep& step,
                   bool clip) {
  slots::step_all<slots::OnDevice<LionRule>::Rule>(slots, scalars.as<const double>(), step, 0, clip);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
