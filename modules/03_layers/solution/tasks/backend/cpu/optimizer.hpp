// Optimizer steps on the CPU: one pass over parameter, gradient and state, each element read and written
// once.
//
// Contract: all views are contiguous, of one size and one dtype, f32 or f64; the parameter and the state are
// updated in place, the gradient is only read. You write the two loops; what brings many parameters, 16-bit
// gradients and clipping to them is given. Sources: Sutskever et al., 2013 (momentum, Nesterov); Kingma and
// Ba, 2015 (Adam); Loshchilov and Hutter, 2019 (AdamW).
//
// Task 3.13: sgd_update. Task 3.14: adam_update. The given parts of this header are in
// modules/03_layers/frame/tinytorch/backend/cpu/optimizer.hpp, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cpu {

// One step of n elements of type T, float or double. With the gradient g' = g + weight_decay p:
//   v = momentum v + g'                      v starts at zero, and keeps memory of past gradients
//   p -= lr v                                or with step.nesterov  p -= lr (g' + momentum v)
// velocity is null when momentum is 0; then p -= lr g'. Fields: step.lr, .momentum, .weight_decay, .nesterov.
template <class T>
void sgd_update(T* p, const T* g, T* velocity, int64_t n, const SgdStep& step) {
  const T lr = static_cast<T>(step.lr), momentum = static_cast<T>(step.momentum);
  for (int64_t i = 0; i < n; ++i) {
    const T gradient = g[i] + static_cast<T>(step.weight_decay) * p[i];
    if (!velocity) {
      p[i] -= lr * gradient;
      continue;
    }
    velocity[i] = momentum * velocity[i] + gradient;
    p[i] -= lr * (step.nesterov ? gradient + momentum * velocity[i] : velocity[i]);
  }
}

// One step of n elements; t = step.step counts from 1:
//   m = beta1 m + (1 - beta1) g              running mean of gradients, from zero
//   v = beta2 v + (1 - beta2) g^2            running mean of their squares, from zero
//   p -= lr m^ / (sqrt(v^) + eps)            m^ = m / (1 - beta1^t), v^ = v / (1 - beta2^t) undo the start at
//   zero
// Weight decay: Adam first adds weight_decay p to g. AdamW (step.decoupled) leaves g alone and first shrinks
// p by lr weight_decay p, so that decay is not divided by sqrt(v^). eps is added after the root, and v^
// corrected before.
template <class T>
void adam_update(T* p, const T* g, T* m, T* v, int64_t n, const AdamStep& step) {
  const double t = static_cast<double>(step.step);
  const T correction1 = static_cast<T>(1 - std::pow(step.beta1, t));
  const T correction2 = static_cast<T>(1 - std::pow(step.beta2, t));
  const T beta1 = static_cast<T>(step.beta1), rest1 = static_cast<T>(1 - step.beta1);
  const T beta2 = static_cast<T>(step.beta2), rest2 = static_cast<T>(1 - step.beta2);
  const T lr = static_cast<T>(step.lr), decay = static_cast<T>(step.weight_decay);
  for (int64_t i = 0; i < n; ++i) {
    const T gradient = step.decoupled ? g[i] : g[i] + decay * p[i];
    if (step.decoupled) p[i] -= lr * decay * p[i];
    m[i] = beta1 * m[i] + rest1 * gradient;
    v[i] = beta2 * v[i] + rest2 * gradient * gradient;
    p[i] -= lr * (m[i] / correction1) / (std::sqrt(v[i] / correction2) + static_cast<T>(step.eps));
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
