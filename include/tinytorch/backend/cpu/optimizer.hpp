// Optimizer steps on the CPU: one pass over parameter, gradient and state, each element read and written
// once.
//
// Contract of the single-parameter steps: all views are contiguous, of one size and one dtype, f32 or f64.
// The parameter and the state are updated in place; the gradient is only read. As separate tensor operations,
// an Adam step would read and write memory about ten times as often; the step is memory-bound, so it would
// take ten times as long.
// Sources: Sutskever et al., 2013 (momentum, Nesterov); Kingma and Ba, 2015 (Adam); Loshchilov and Hutter,
// 2019 (AdamW).
#pragma once

#include <span>
#include <tinytorch/backend/parameters.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// v = momentum v + g;  p -= lr (nesterov ? g + momentum v : v).  velocity.data is null when momentum is 0.
TT_API void sgd_step(const View& parameter, const View& gradient, const View& velocity, const SgdStep& step);
// m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  p -= lr m^ / (sqrt(v^) + eps), ^ = divided by 1 - b^step
TT_API void adam_step(const View& parameter, const View& gradient, const View& m, const View& v,
                      const AdamStep& step);

// Steps of many parameters at once (OptimizerSlot, parameters.hpp); a gradient may also have 16 bits. The
// rate is scalars[kLearningRate]; weight decay and step count are those of the slot, whose step count is
// incremented. If `clip`, gradients are multiplied by scalars[kGradientFactor]; if that is NaN, nothing
// changes.
TT_API void sgd_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const SgdStep& step,
                         bool clip);
TT_API void adam_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const AdamStep& step,
                          bool clip);
// scalars[kGradientNorm] = Euclidean norm of all elements of all gradients (contiguous, floating), summed in
// double. scalars[kGradientFactor] = min(1, limit / norm), or NaN if the norm is not finite.
TT_API void gradient_factor(const View& scalars, std::span<const View> gradients, double limit);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <algorithm>
#include <cmath>
#include <limits>
#include <tinytorch/backend/cpu/optimizer_slots.hpp>
#include <tinytorch/backend/optimizer_rules.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

template <class T>
void sgd_loop(T* p, const T* g, T* velocity, int64_t n, const SgdStep& step) {
  const T lr = static_cast<T>(step.lr), momentum = static_cast<T>(step.momentum);
  const T decay = static_cast<T>(step.weight_decay);
  if (!velocity) {
    TT_SIMD
    for (int64_t i = 0; i < n; ++i) p[i] -= lr * (g[i] + decay * p[i]);
    return;
  }
  // A factor of 1 or 0 selects Nesterov momentum without a branch in the loop.
  const T own = step.nesterov ? T(1) : T(0), past = step.nesterov ? momentum : T(1);
  TT_SIMD
  for (int64_t i = 0; i < n; ++i) {
    const T gradient = g[i] + decay * p[i];
    velocity[i] = momentum * velocity[i] + gradient;
    p[i] -= lr * (own * gradient + past * velocity[i]);
  }
}

// The rule is a copy, so that writes to the arrays cannot change it, and the loop vectorizes.
template <class T>
void adam_loop(T* p, const T* g, T* m, T* v, int64_t n, const AdamRule<T> rule) {
  TT_SIMD
  for (int64_t i = 0; i < n; ++i) {
    T unused{};
    rule(p[i], g[i], m[i], v[i], unused);
  }
}

TT_API void sgd_step(const View& parameter, const View& gradient, const View& velocity, const SgdStep& step) {
  slots::require_same("sgd_step", parameter, gradient);
  if (velocity.data) slots::require_same("sgd_step", parameter, velocity);
  slots::dispatch_optimizer("sgd_step", parameter.dtype, [&]<class T>(T*) {
    parallel_for(parameter.numel(), slots::kOptimizerGrain, [&](int64_t begin, int64_t end) {
      T* state = velocity.data ? velocity.as<T>() + begin : nullptr;
      sgd_loop(parameter.as<T>() + begin, gradient.as<const T>() + begin, state, end - begin, step);
    });
  });
}

TT_API void adam_step(const View& parameter, const View& gradient, const View& m, const View& v,
                      const AdamStep& step) {
  slots::require_same("adam_step", parameter, gradient);
  slots::require_same("adam_step", parameter, m);
  slots::require_same("adam_step", parameter, v);
  slots::dispatch_optimizer("adam_step", parameter.dtype, [&]<class T>(T*) {
    AdamRule<T> rule;
    rule.prepare(step, step.lr, step.weight_decay, step.step);
    parallel_for(parameter.numel(), slots::kOptimizerGrain, [&](int64_t begin, int64_t end) {
      adam_loop(parameter.as<T>() + begin, gradient.as<const T>() + begin, m.as<T>() + begin,
                v.as<T>() + begin, end - begin, rule);
    });
  });
}

TT_API void sgd_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const SgdStep& step,
                         bool clip) {
  constexpr const char* kName = "sgd_step_all";
  const auto each = [&](const OptimizerSlot& slot, double factor, int64_t begin, int64_t end) {
    SgdStep now = step;
    now.lr = scalars.as<const double>()[kLearningRate];
    now.weight_decay = slot.weight_decay;
    slots::dispatch_optimizer(kName, slot.parameter.dtype, [&]<class T>(T*) {
      slots::step_pieces<T>(slot, factor, begin, end, [&](int64_t at, int64_t count, const T* g) {
        T* const velocity = slot.state[0].data ? slot.state[0].as<T>() + at : nullptr;
        sgd_loop(slot.parameter.as<T>() + at, g, velocity, count, now);
      });
    });
  };
  slots::for_slots(kName, slots, scalars, clip, each);
}

TT_API void adam_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const AdamStep& step,
                          bool clip) {
  constexpr const char* kName = "adam_step_all";
  const auto each = [&](const OptimizerSlot& slot, double factor, int64_t begin, int64_t end) {
    slots::dispatch_optimizer(kName, slot.parameter.dtype, [&]<class T>(T*) {
      AdamRule<T> rule;
      rule.prepare(step, scalars.as<const double>()[kLearningRate], slot.weight_decay,
                   *slot.step.as<const int64_t>());
      slots::step_pieces<T>(slot, factor, begin, end, [&](int64_t at, int64_t count, const T* g) {
        adam_loop(slot.parameter.as<T>() + at, g, slot.state[0].as<T>() + at, slot.state[1].as<T>() + at,
                  count, rule);
      });
    });
  };
  slots::for_slots(kName, slots, scalars, clip, each);
}

// Partial sums are of pieces of fixed size, so the result does not depend on the number of threads.
TT_API void gradient_factor(const View& scalars, std::span<const View> gradients, double limit) {
  double total = 0;
  for (const View& g : gradients) {
    std::vector<double> partial(static_cast<size_t>(ceil_div(g.numel(), slots::kOptimizerGrain)));
    dispatch(g.dtype, [&]<class T>(T*) {
      parallel_for(static_cast<int64_t>(partial.size()), 1, [&](int64_t begin, int64_t end) {
        for (int64_t piece = begin; piece < end; ++piece) {
          const int64_t last = std::min(g.numel(), (piece + 1) * slots::kOptimizerGrain);
          constexpr int64_t kLanes = 16;  // independent sums hide the latency of additions
          double sums[kLanes] = {};
          int64_t i = piece * slots::kOptimizerGrain;
          for (; i + kLanes <= last; i += kLanes) {
            TT_SIMD
            for (int64_t k = 0; k < kLanes; ++k) {
              const double value = convert<double>(g.as<const T>()[i + k]);
              sums[k] += value * value;
            }
          }
          for (; i < last; ++i) {
            const double value = convert<double>(g.as<const T>()[i]);
            sums[0] += value * value;
          }
          double sum = 0;
          for (const double part : sums) sum += part;
          partial[static_cast<size_t>(piece)] = sum;
        }
      });
    });
    for (double sum : partial) total += sum;
  }
  const double norm = std::sqrt(total);
  double* const out = scalars.as<double>();
  out[kGradientNorm] = norm;
  out[kGradientFactor] =
      !std::isfinite(norm) ? std::numeric_limits<double>::quiet_NaN() : (norm > limit ? limit / norm : 1.0);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
