// Optimizer steps on the CPU: one pass over parameter, gradient and state, each element read and written
// once.
//
// The frame of a course header: it has the given parts, and includes the functions of tasks 3.13 and 3.14.
#pragma once

#include <span>
#include <tinytorch/backend/parameters.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// velocity.data is null when momentum is 0.
TT_API void sgd_step(const View& parameter, const View& gradient, const View& velocity, const SgdStep& step);
TT_API void adam_step(const View& parameter, const View& gradient, const View& m, const View& v,
                      const AdamStep& step);

// One step of many parameters at once, with gradients times scalars[kGradientFactor] if `clip`, and rates
// and step counts that come from the views (parameters.hpp), not from `step`.
TT_API void sgd_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const SgdStep& step,
                         bool clip);
TT_API void adam_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const AdamStep& step,
                          bool clip);
// scalars[kGradientNorm] = Euclidean norm of all elements of all gradients (contiguous, floating), summed in
// double; scalars[kGradientFactor] = min(1, limit / norm), NaN when the norm is not finite.
TT_API void gradient_factor(const View& scalars, std::span<const View> gradients, double limit);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND) || defined(TINYTORCH_TASK)
#include <cmath>
#include <limits>
#include <tinytorch/backend/cpu/optimizer_slots.hpp>
#include <tinytorch/backend/functors.hpp>
#include <vector>

#include <tasks/backend/cpu/optimizer.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// --- Given
// -----------------------------------------------------------------------------------------------------

TT_API void sgd_step(const View& parameter, const View& gradient, const View& velocity, const SgdStep& step) {
  slots::require_same("sgd_step", parameter, gradient);
  if (velocity.data) slots::require_same("sgd_step", parameter, velocity);
  slots::dispatch_optimizer("sgd_step", parameter.dtype, [&]<class T>(T*) {
    sgd_update(parameter.as<T>(), gradient.as<const T>(), velocity.as<T>(), parameter.numel(), step);
  });
}

TT_API void adam_step(const View& parameter, const View& gradient, const View& m, const View& v,
                      const AdamStep& step) {
  for (const View* other : {&gradient, &m, &v}) slots::require_same("adam_step", parameter, *other);
  slots::dispatch_optimizer("adam_step", parameter.dtype, [&]<class T>(T*) {
    adam_update(parameter.as<T>(), gradient.as<const T>(), m.as<T>(), v.as<T>(), parameter.numel(), step);
  });
}

// Counts a step of each slot and calls f(slot, its number, the gradient as T times the factor); nothing
// happens where the factor is no number. Afterwards the parameter is written in 16 bits beside itself, if
// asked for.
template <class F>
void for_each_slot(const char* op, std::span<const OptimizerSlot> slots, const View& scalars, bool clip,
                   F&& f) {
  const double factor = clip ? scalars.as<const double>()[kGradientFactor] : 1.0;
  for (const OptimizerSlot& slot : slots) slots::require_slot(op, slot);
  if (std::isnan(factor)) return;
  for (const OptimizerSlot& slot : slots) {
    const int64_t number = ++*slot.step.as<int64_t>(), n = slot.parameter.numel();
    slots::dispatch_optimizer(op, slot.parameter.dtype, [&]<class T>(T*) {
      std::vector<T> gradient(static_cast<size_t>(n));
      dispatch(slot.gradient.dtype, [&]<class G>(G*) {
        for (int64_t i = 0; i < n; ++i) {
          gradient[static_cast<size_t>(i)] =
              static_cast<T>(factor) * convert<T>(slot.gradient.as<const G>()[i]);
        }
      });
      f(slot, number, static_cast<const T*>(gradient.data()));
      if (!slot.rounded.data) return;
      dispatch(slot.rounded.dtype, [&]<class R>(R*) {
        for (int64_t i = 0; i < n; ++i) slot.rounded.as<R>()[i] = convert<R>(slot.parameter.as<const T>()[i]);
      });
    });
  }
}

TT_API void sgd_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const SgdStep& step,
                         bool clip) {
  SgdStep now = step;
  now.lr = scalars.as<const double>()[kLearningRate];
  const auto update = [&]<class T>(const OptimizerSlot& slot, int64_t, const T* g) {
    now.weight_decay = slot.weight_decay;
    sgd_update(slot.parameter.as<T>(), g, slot.state[0].as<T>(), slot.parameter.numel(), now);
  };
  for_each_slot("sgd_step_all", slots, scalars, clip, update);
}

TT_API void adam_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const AdamStep& step,
                          bool clip) {
  AdamStep now = step;
  now.lr = scalars.as<const double>()[kLearningRate];
  const auto update = [&]<class T>(const OptimizerSlot& slot, int64_t number, const T* g) {
    now.weight_decay = slot.weight_decay;
    now.step = number;
    adam_update(slot.parameter.as<T>(), g, slot.state[0].as<T>(), slot.state[1].as<T>(),
                slot.parameter.numel(), now);
  };
  for_each_slot("adam_step_all", slots, scalars, clip, update);
}

TT_API void gradient_factor(const View& scalars, std::span<const View> gradients, double limit) {
  double total = 0;
  for (const View& g : gradients) {
    dispatch(g.dtype, [&]<class T>(T*) {
      for (int64_t i = 0; i < g.numel(); ++i) {
        const double value = convert<double>(g.as<const T>()[i]);
        total += value * value;
      }
    });
  }
  const double norm = std::sqrt(total), factor = norm > limit ? limit / norm : 1.0;
  scalars.as<double>()[kGradientNorm] = norm;
  scalars.as<double>()[kGradientFactor] =
      std::isfinite(norm) ? factor : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
