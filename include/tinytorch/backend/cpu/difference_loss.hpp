// l1_loss, huber_loss and smooth_l1_loss on the CPU: one pass over x and the target (the formulas:
// backend/difference_loss.hpp).
#pragma once

#include <tinytorch/backend/difference_loss.hpp>
#include <tinytorch/backend/parameters.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// loss [] or, for LossReduction::none, of x's shape.
TT_API void difference_loss(const DifferenceLoss& parameters, const View& loss, const View& x,
                            const View& target, LossReduction reduction);
// dx, and dtarget = -dx, from grad, the gradient of the loss, of its shape. Either may be without data.
TT_API void difference_loss_grad(const DifferenceLoss& parameters, const View& dx, const View& dtarget,
                                 const View& grad, const View& x, const View& target,
                                 LossReduction reduction);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <tinytorch/backend/cpu/pair_loss.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

template <class F>
void dispatch_difference(const DifferenceLoss& parameters, DType dtype, F&& f) {
  dispatch_floating(dtype, [&]<class T>(T*) {
    if (parameters.delta > 0) return f(HuberDifference<T>(parameters), static_cast<T*>(nullptr));
    f(AbsoluteDifference<T>(parameters), static_cast<T*>(nullptr));
  });
}

TT_API void difference_loss(const DifferenceLoss& parameters, const View& loss, const View& x,
                            const View& target, LossReduction reduction) {
  dispatch_difference(parameters, x.dtype, [&]<class Fn, class T>(Fn fn, T*) {
    pair_loss<T>([fn](T a, T t) { return fn.value(a, t); }, loss, x, target, reduction);
  });
}

TT_API void difference_loss_grad(const DifferenceLoss& parameters, const View& dx, const View& dtarget,
                                 const View& grad, const View& x, const View& target,
                                 LossReduction reduction) {
  dispatch_difference(parameters, x.dtype, [&]<class Fn, class T>(Fn fn, T*) {
    pair_loss_grad<T>([fn](T a, T t) { return fn.slope(a, t); }, dx, grad, x, target, reduction);
    pair_loss_grad<T>([fn](T a, T t) { return -fn.slope(a, t); }, dtarget, grad, x, target, reduction);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
