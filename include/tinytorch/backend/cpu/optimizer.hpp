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
#include <tinytorch/backend/functors.hpp>
#include <tinytorch/core/parallel.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr int64_t kOptimizerGrain = 16384;  // elements that make another thread worthwhile
inline constexpr int64_t kOptimizerPiece = 1024;   // elements that stay in the L1 cache

inline void require_same(const char* op, const View& parameter, const View& other) {
  if (parameter.numel() == other.numel() && parameter.dtype == other.dtype && other.contiguous() &&
      parameter.contiguous()) {
    return;
  }
  fail("TT-OPT-01", std::string(op) + ": a view of " + name_of(other.dtype) + " " + other.shape.str() +
                        " does not match the parameter " + name_of(parameter.dtype) + " " +
                        parameter.shape.str() + "\n  hint: both must be contiguous and of one dtype");
}

// Calls f with a null pointer of the parameter's type. TT-OPT-02 if that is not f32 or f64.
template <class F>
void dispatch_optimizer(const char* op, DType t, F&& f) {
  if (t == DType::f32) return f(static_cast<float*>(nullptr));
  if (t == DType::f64) return f(static_cast<double*>(nullptr));
  fail("TT-OPT-02", std::string(op) + ": parameters must be f32 or f64, got " + name_of(t) +
                        "\n  hint: keep an f32 copy of 16-bit parameters and step that");
}

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

// Factors of a step, computed once per call: its two powers cost as much as hundreds of elements.
template <class T>
struct AdamFactors {
  T beta1, rest1, beta2, rest2, rate, eps, scale, keep, decay;
  explicit AdamFactors(const AdamStep& step)
      : beta1(static_cast<T>(step.beta1)),
        rest1(static_cast<T>(1 - step.beta1)),
        beta2(static_cast<T>(step.beta2)),
        rest2(static_cast<T>(1 - step.beta2)),
        rate(static_cast<T>(step.lr / (1 - std::pow(step.beta1, static_cast<double>(step.step))))),
        eps(static_cast<T>(step.eps)),
        scale(static_cast<T>(1 / std::sqrt(1 - std::pow(step.beta2, static_cast<double>(step.step))))),
        keep(static_cast<T>(step.decoupled ? 1 - step.lr * step.weight_decay : 1.0)),
        decay(static_cast<T>(step.decoupled ? 0.0 : step.weight_decay)) {}
};

template <class T>
void adam_loop(T* p, const T* g, T* m, T* v, int64_t n, const AdamFactors<T>& factors) {
  const auto [beta1, rest1, beta2, rest2, rate, eps, scale, keep, decay] = factors;
  TT_SIMD
  for (int64_t i = 0; i < n; ++i) {
    const T gradient = g[i] + decay * p[i];
    m[i] = beta1 * m[i] + rest1 * gradient;
    v[i] = beta2 * v[i] + rest2 * gradient * gradient;
    p[i] = keep * p[i] - rate * m[i] / (std::sqrt(v[i]) * scale + eps);
  }
}

TT_API void sgd_step(const View& parameter, const View& gradient, const View& velocity, const SgdStep& step) {
  require_same("sgd_step", parameter, gradient);
  if (velocity.data) require_same("sgd_step", parameter, velocity);
  dispatch_optimizer("sgd_step", parameter.dtype, [&]<class T>(T*) {
    parallel_for(parameter.numel(), kOptimizerGrain, [&](int64_t begin, int64_t end) {
      T* state = velocity.data ? velocity.as<T>() + begin : nullptr;
      sgd_loop(parameter.as<T>() + begin, gradient.as<const T>() + begin, state, end - begin, step);
    });
  });
}

TT_API void adam_step(const View& parameter, const View& gradient, const View& m, const View& v,
                      const AdamStep& step) {
  require_same("adam_step", parameter, gradient);
  require_same("adam_step", parameter, m);
  require_same("adam_step", parameter, v);
  dispatch_optimizer("adam_step", parameter.dtype, [&]<class T>(T*) {
    const AdamFactors<T> factors(step);
    parallel_for(parameter.numel(), kOptimizerGrain, [&](int64_t begin, int64_t end) {
      adam_loop(parameter.as<T>() + begin, gradient.as<const T>() + begin, m.as<T>() + begin,
                v.as<T>() + begin, end - begin, factors);
    });
  });
}

// Calls f(first element, count, gradient from there on as T) for elements [begin, end) of a slot, and then
// writes the rounded copy of the parameter. A gradient of 16 bits, or with a factor, is converted in a
// buffer.
template <class T, class F>
void step_pieces(const OptimizerSlot& slot, double factor, int64_t begin, int64_t end, F&& f) {
  const bool direct = slot.gradient.dtype == dtype_of<T> && factor == 1;
  if (direct && !slot.rounded.data) return f(begin, end - begin, slot.gradient.as<const T>() + begin);
  T buffer[kOptimizerPiece];
  for (int64_t at = begin; at < end; at += kOptimizerPiece) {
    const int64_t count = std::min(kOptimizerPiece, end - at);
    dispatch(slot.gradient.dtype, [&]<class G>(G*) {
      const G* g = slot.gradient.as<const G>() + at;
      for (int64_t i = 0; i < count; ++i) buffer[i] = static_cast<T>(factor) * convert<T>(g[i]);
    });
    f(at, count, static_cast<const T*>(buffer));
    if (!slot.rounded.data) continue;
    dispatch(slot.rounded.dtype, [&]<class R>(R*) {
      const T* p = slot.parameter.as<const T>() + at;
      R* r = slot.rounded.as<R>() + at;
      for (int64_t i = 0; i < count; ++i) r[i] = convert<R>(p[i]);
    });
  }
}

inline void require_slot(const char* op, const OptimizerSlot& slot) {
  View gradient = slot.gradient;
  if (size_of(gradient.dtype) == 2 && is_floating(gradient.dtype)) gradient.dtype = slot.parameter.dtype;
  require_same(op, slot.parameter, gradient);
  for (const View& state : slot.state) {
    if (state.data) require_same(op, slot.parameter, state);
  }
  View rounded = slot.rounded;
  rounded.dtype = slot.parameter.dtype;
  if (rounded.data) require_same(op, slot.parameter, rounded);
  dispatch_optimizer(op, slot.parameter.dtype, [](auto*) {});
}

// Calls f(slot, factor, begin, end) for elements [begin, end) of all slots, or not at all if the factor is
// NaN. One parallel loop covers all slots, as if their elements were adjacent, each slot starting at a
// multiple of kOptimizerPiece.
template <class F>
void for_slots(const char* op, std::span<const OptimizerSlot> slots, const View& scalars, bool clip, F&& f) {
  const double factor = clip ? scalars.as<const double>()[kGradientFactor] : 1.0;
  std::vector<int64_t> first{0};  // position of the first element of each slot
  for (const OptimizerSlot& slot : slots) {
    require_slot(op, slot);
    const int64_t pieces = (slot.parameter.numel() + kOptimizerPiece - 1) / kOptimizerPiece;
    first.push_back(first.back() + pieces * kOptimizerPiece);
  }
  if (std::isnan(factor)) return;
  for (const OptimizerSlot& slot : slots) ++*slot.step.as<int64_t>();
  parallel_for(first.back(), kOptimizerGrain, [&](int64_t begin, int64_t end) {
    const auto after = std::upper_bound(first.begin(), first.end(), begin);
    for (auto s = static_cast<size_t>(after - first.begin()) - 1; s < slots.size() && first[s] < end; ++s) {
      const int64_t from = std::max<int64_t>(0, begin - first[s]),
                    to = std::min(end - first[s], slots[s].parameter.numel());
      if (from < to) f(slots[s], factor, from, to);
    }
  });
}

TT_API void sgd_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const SgdStep& step,
                         bool clip) {
  constexpr const char* kName = "sgd_step_all";
  const auto each = [&](const OptimizerSlot& slot, double factor, int64_t begin, int64_t end) {
    SgdStep now = step;
    now.lr = scalars.as<const double>()[kLearningRate];
    now.weight_decay = slot.weight_decay;
    dispatch_optimizer(kName, slot.parameter.dtype, [&]<class T>(T*) {
      step_pieces<T>(slot, factor, begin, end, [&](int64_t at, int64_t count, const T* g) {
        T* const velocity = slot.state[0].data ? slot.state[0].as<T>() + at : nullptr;
        sgd_loop(slot.parameter.as<T>() + at, g, velocity, count, now);
      });
    });
  };
  for_slots(kName, slots, scalars, clip, each);
}

TT_API void adam_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const AdamStep& step,
                          bool clip) {
  constexpr const char* kName = "adam_step_all";
  const auto each = [&](const OptimizerSlot& slot, double factor, int64_t begin, int64_t end) {
    AdamStep now = step;
    now.lr = scalars.as<const double>()[kLearningRate];
    now.weight_decay = slot.weight_decay;
    now.step = *slot.step.as<const int64_t>();
    dispatch_optimizer(kName, slot.parameter.dtype, [&]<class T>(T*) {
      const AdamFactors<T> factors(now);
      step_pieces<T>(slot, factor, begin, end, [&](int64_t at, int64_t count, const T* g) {
        adam_loop(slot.parameter.as<T>() + at, g, slot.state[0].as<T>() + at, slot.state[1].as<T>() + at,
                  count, factors);
      });
    });
  };
  for_slots(kName, slots, scalars, clip, each);
}

// Partial sums are of pieces of fixed size, so the result does not depend on the number of threads.
TT_API void gradient_factor(const View& scalars, std::span<const View> gradients, double limit) {
  double total = 0;
  for (const View& g : gradients) {
    std::vector<double> partial(static_cast<size_t>((g.numel() + kOptimizerGrain - 1) / kOptimizerGrain));
    dispatch(g.dtype, [&]<class T>(T*) {
      parallel_for(static_cast<int64_t>(partial.size()), 1, [&](int64_t begin, int64_t end) {
        for (int64_t piece = begin; piece < end; ++piece) {
          const int64_t last = std::min(g.numel(), (piece + 1) * kOptimizerGrain);
          constexpr int64_t kLanes = 16;  // independent sums hide the latency of additions
          double sums[kLanes] = {};
          int64_t i = piece * kOptimizerGrain;
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
