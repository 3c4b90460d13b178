// Losses of a difference e = x - target, and their derivatives with respect to x: the absolute value and
// Huber's loss, for both backends.
//
//   delta 0    factor |e|                                                            l1_loss
//   delta > 0  factor e^2 / 2 if |e| <= delta, else factor delta (|e| - delta / 2)   huber_loss,
//   smooth_l1_loss
//
// smooth_l1_loss with beta is Huber's loss with delta = beta and factor 1 / beta. The derivative with respect
// to the target is the negative one. Source: Huber, 1964.
#pragma once

#include <tinytorch/core/config.hpp>

namespace tinytorch::inline TT_BUILD::backend {

struct DifferenceLoss {
  double delta = 0, factor = 1;
};

// NaN stays NaN: comparisons with NaN are false, so the last branch of each expression computes with it.
template <class T>
struct AbsoluteDifference {
  T factor;
  explicit AbsoluteDifference(const DifferenceLoss& p) : factor(static_cast<T>(p.factor)) {}
  TT_HOST_DEVICE T value(T x, T t) const {
    const T e = x - t;
    return factor * (e < T(0) ? -e : e);
  }
  TT_HOST_DEVICE T slope(T x, T t) const {
    const T e = x - t;
    return e > T(0) ? factor : e < T(0) ? -factor : factor * e;
  }
};
template <class T>
struct HuberDifference {
  T delta, factor;
  explicit HuberDifference(const DifferenceLoss& p)
      : delta(static_cast<T>(p.delta)), factor(static_cast<T>(p.factor)) {}
  TT_HOST_DEVICE T value(T x, T t) const {
    const T e = x - t, size = e < T(0) ? -e : e;
    const T near = size > delta ? delta : size;
    return factor * near * (size - T(0.5) * near);
  }
  TT_HOST_DEVICE T slope(T x, T t) const {
    const T e = x - t;
    return factor * (e > delta ? delta : e < -delta ? -delta : e);
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend
