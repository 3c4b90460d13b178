// Steps of RMSprop, Adagrad, Adam with AMSGrad, and Lion over many parameters at once on the CPU.
//
// The contract is that of sgd_step_all (optimizer.hpp): the learning rate is scalars[kLearningRate], weight
// decay and step count are those of the slot, and if `clip`, gradients are multiplied by
// scalars[kGradientFactor]; if that is NaN, nothing changes. Slots have the states of the rule
// (backend/optimizer_rules.hpp), TT-OPT-01 otherwise. Each element is read and written once.
#pragma once

#include <span>
#include <tinytorch/backend/parameters.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

TT_API void rmsprop_step_all(std::span<const OptimizerSlot> slots, const View& scalars,
                             const RmsPropStep& step, bool clip);
TT_API void adagrad_step_all(std::span<const OptimizerSlot> slots, const View& scalars,
                             const AdagradStep& step, bool clip);
TT_API void amsgrad_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const AdamStep& step,
                             bool clip);
TT_API void lion_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const LionStep& step,
                          bool clip);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <tinytorch/backend/cpu/optimizer_slots.hpp>
#include <tinytorch/backend/optimizer_rules.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

template <class T, class Rule>
void rule_loop(const Rule& rule, T* p, const T* g, T* a, T* b, T* c, int64_t n) {
  TT_SIMD
  for (int64_t i = 0; i < n; ++i) {
    T unused{};
    if constexpr (Rule::kStates == 1) rule(p[i], g[i], a[i], unused, unused);
    if constexpr (Rule::kStates == 2) rule(p[i], g[i], a[i], b[i], unused);
    if constexpr (Rule::kStates == 3) rule(p[i], g[i], a[i], b[i], c[i]);
  }
}

template <template <class> class Rule>
void rule_step_all(const char* op, std::span<const OptimizerSlot> slots, const View& scalars,
                   const typename Rule<float>::Step& step, bool clip) {
  for (const OptimizerSlot& slot : slots) slots::require_states(op, slot, Rule<float>::kStates);
  const auto each = [&](const OptimizerSlot& slot, double factor, int64_t begin, int64_t end) {
    slots::dispatch_optimizer(op, slot.parameter.dtype, [&]<class T>(T*) {
      Rule<T> rule;
      rule.prepare(step, scalars.as<const double>()[kLearningRate], slot.weight_decay,
                   *slot.step.as<const int64_t>());
      slots::step_pieces<T>(slot, factor, begin, end, [&](int64_t at, int64_t count, const T* g) {
        const auto state = [&](int k) { return k < Rule<T>::kStates ? slot.state[k].as<T>() + at : nullptr; };
        rule_loop(rule, slot.parameter.as<T>() + at, g, state(0), state(1), state(2), count);
      });
    });
  };
  slots::for_slots(op, slots, scalars, clip, each);
}

template <class T>
using RmsPropPlain = RmsPropRule<T, false, false>;
template <class T>
using RmsPropMomentum = RmsPropRule<T, true, false>;
template <class T>
using RmsPropCentered = RmsPropRule<T, false, true>;
template <class T>
using RmsPropBoth = RmsPropRule<T, true, true>;

TT_API void rmsprop_step_all(std::span<const OptimizerSlot> slots, const View& scalars,
                             const RmsPropStep& step, bool clip) {
  constexpr const char* kName = "rmsprop_step_all";
  const bool momentum = step.momentum > 0;
  if (momentum && step.centered) return rule_step_all<RmsPropBoth>(kName, slots, scalars, step, clip);
  if (momentum) return rule_step_all<RmsPropMomentum>(kName, slots, scalars, step, clip);
  if (step.centered) return rule_step_all<RmsPropCentered>(kName, slots, scalars, step, clip);
  rule_step_all<RmsPropPlain>(kName, slots, scalars, step, clip);
}
TT_API void adagrad_step_all(std::span<const OptimizerSlot> slots, const View& scalars,
                             const AdagradStep& step, bool clip) {
  rule_step_all<AdagradRule>("adagrad_step_all", slots, scalars, step, clip);
}
TT_API void amsgrad_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const AdamStep& step,
                             bool clip) {
  rule_step_all<AmsGradRule>("amsgrad_step_all", slots, scalars, step, clip);
}
TT_API void lion_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const LionStep& step,
                          bool clip) {
  rule_step_all<LionRule>("lion_step_all", slots, scalars, step, clip);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
