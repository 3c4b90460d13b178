// The update of one element by RMSprop, Adagrad, Adam with AMSGrad, and Lion, shared by CPU loops and CUDA
// kernels.
//
// rule.prepare() is called once per parameter and step, with the options, the learning rate, the parameter's
// weight decay and the number of the step, which counts from 1. Then rule(p, g, a, b, c) updates an element p
// by its gradient g. a, b and c are its states; the rule uses the first kStates of them. T is float or
// double. Sources: Tieleman and Hinton, "Lecture 6.5: RMSprop", 2012; Duchi, Hazan, Singer, "Adaptive
// subgradient methods", 2011; Reddi, Kale, Kumar, "On the convergence of Adam and beyond", 2018; Chen et al.,
// "Symbolic discovery of optimization algorithms" (Lion), 2023.
#pragma once

#include <cmath>
#include <tinytorch/backend/functors.hpp>

namespace tinytorch::inline TT_BUILD::backend {

// v = alpha v + (1 - alpha) g^2;  p -= lr g / (sqrt(v) + eps). Centered: sqrt(v - mean^2), where mean is a
// running mean of g. With momentum, b = momentum b + g / (...) and p -= lr b. States: v, then b, then mean.
template <class T, bool kMomentum, bool kCentered>
struct RmsPropRule {
  using Step = RmsPropStep;
  static constexpr int kStates = 1 + kMomentum + kCentered;
  T lr, alpha, rest, eps, momentum, decay;

  TT_HOST_DEVICE void prepare(const RmsPropStep& step, double rate, double weight_decay, int64_t) {
    lr = static_cast<T>(rate);
    alpha = static_cast<T>(step.alpha);
    rest = static_cast<T>(1 - step.alpha);
    eps = static_cast<T>(step.eps);
    momentum = static_cast<T>(step.momentum);
    decay = static_cast<T>(weight_decay);
  }
  TT_HOST_DEVICE void operator()(T& p, T g, T& v, T& second, T& third) const {
    const T gradient = g + decay * p;
    v = alpha * v + rest * gradient * gradient;
    T square = v;
    if constexpr (kCentered) {
      T& mean = kMomentum ? third : second;
      mean = alpha * mean + rest * gradient;
      const T variance = v - mean * mean;  // rounding can make it negative
      square = variance < T(0) ? T(0) : variance;
    }
    T move = gradient / (std::sqrt(square) + eps);
    if constexpr (kMomentum) move = second = momentum * second + move;
    p -= lr * move;
  }
};

// sum += g^2;  p -= lr / (1 + (t - 1) lr_decay) g / (sqrt(sum) + eps). State: sum.
template <class T>
struct AdagradRule {
  using Step = AdagradStep;
  static constexpr int kStates = 1;
  T lr, eps, decay;

  TT_HOST_DEVICE void prepare(const AdagradStep& step, double rate, double weight_decay, int64_t number) {
    lr = static_cast<T>(rate / (1 + static_cast<double>(number - 1) * step.lr_decay));
    eps = static_cast<T>(step.eps);
    decay = static_cast<T>(weight_decay);
  }
  TT_HOST_DEVICE void operator()(T& p, T g, T& sum, T&, T&) const {
    const T gradient = g + decay * p;
    sum += gradient * gradient;
    p -= lr * gradient / (std::sqrt(sum) + eps);
  }
};

// Adam whose divisor is the largest second moment so far, so that the size of steps does not grow again.
// States: m, v, and the maximum of v, none of which is corrected for its start at zero.
template <class T>
struct AmsGradRule {
  using Step = AdamStep;
  static constexpr int kStates = 3;
  T rate, scale, beta1, rest1, beta2, rest2, eps, keep, decay;

  TT_HOST_DEVICE void prepare(const AdamStep& step, double lr, double weight_decay, int64_t number) {
    rate = static_cast<T>(lr / (1 - std::pow(step.beta1, static_cast<double>(number))));
    scale = static_cast<T>(1 / std::sqrt(1 - std::pow(step.beta2, static_cast<double>(number))));
    beta1 = static_cast<T>(step.beta1);
    rest1 = static_cast<T>(1 - step.beta1);
    beta2 = static_cast<T>(step.beta2);
    rest2 = static_cast<T>(1 - step.beta2);
    eps = static_cast<T>(step.eps);
    keep = static_cast<T>(step.decoupled ? 1 - lr * weight_decay : 1.0);
    decay = static_cast<T>(step.decoupled ? 0.0 : weight_decay);
  }
  TT_HOST_DEVICE void operator()(T& p, T g, T& m, T& v, T& largest) const {
    const T gradient = g + decay * p;
    m = beta1 * m + rest1 * gradient;
    v = beta2 * v + rest2 * gradient * gradient;
    largest = v > largest || v != v ? v : largest;  // NaN stays
    p = keep * p - rate * m / (std::sqrt(largest) * scale + eps);
  }
};

// p = (1 - lr weight_decay) p - lr sign(beta1 m + (1 - beta1) g);  m = beta2 m + (1 - beta2) g. State: m.
template <class T>
struct LionRule {
  using Step = LionStep;
  static constexpr int kStates = 1;
  T lr, keep, beta1, rest1, beta2, rest2;

  TT_HOST_DEVICE void prepare(const LionStep& step, double rate, double weight_decay, int64_t) {
    lr = static_cast<T>(rate);
    keep = static_cast<T>(1 - rate * weight_decay);
    beta1 = static_cast<T>(step.beta1);
    rest1 = static_cast<T>(1 - step.beta1);
    beta2 = static_cast<T>(step.beta2);
    rest2 = static_cast<T>(1 - step.beta2);
  }
  TT_HOST_DEVICE void operator()(T& p, T g, T& m, T&, T&) const {
    const T mean = beta1 * m + rest1 * g;
    p = keep * p - lr * (mean > T(0) ? T(1) : (mean < T(0) ? T(-1) : mean));  // mean: zero or NaN
    m = beta2 * m + rest2 * g;
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend
