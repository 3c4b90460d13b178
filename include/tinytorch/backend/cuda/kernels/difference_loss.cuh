// l1_loss, huber_loss and smooth_l1_loss, and their gradients (contract: backend/cpu/difference_loss.hpp).
#pragma once

#include <tinytorch/backend/cuda/kernels/pair_loss.cuh>
#include <tinytorch/backend/cuda/launch.hpp>
#include <tinytorch/backend/difference_loss.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// A loss of x - target, whose derivative with respect to the target is the negative one.
template <class Difference>
struct OfDifference {
  Difference fn;
  template <class A>
  __device__ A value(A x, A t) const {
    return fn.value(x, t);
  }
  template <class A>
  __device__ A slope(A x, A t) const {
    return fn.slope(x, t);
  }
  template <class A>
  __device__ A target_slope(A x, A t) const {
    return -fn.slope(x, t);
  }
};

template <class F>
void dispatch_difference(const DifferenceLoss& parameters, DType dtype, F&& f) {
  dispatch_stored(dtype, [&]<class T>(T*) {
    using A = Compute<T>;
    if (parameters.delta > 0) {
      return f(OfDifference<HuberDifference<A>>{HuberDifference<A>(parameters)}, static_cast<T*>(nullptr));
    }
    f(OfDifference<AbsoluteDifference<A>>{AbsoluteDifference<A>(parameters)}, static_cast<T*>(nullptr));
  });
}

void difference_loss(const DifferenceLoss& parameters, const View& loss, const View& x, const View& target,
                     LossReduction reduction) {
  dispatch_difference(parameters, x.dtype,
                      [&]<class Fn, class T>(Fn fn, T*) { pair_loss<T>(fn, loss, x, target, reduction); });
}

void difference_loss_grad(const DifferenceLoss& parameters, const View& dx, const View& dtarget,
                          const View& grad, const View& x, const View& target, LossReduction reduction) {
  dispatch_difference(parameters, x.dtype, [&]<class Fn, class T>(Fn fn, T*) {
    pair_loss_grad<T>(fn, dx, dtarget, grad, x, target, reduction);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
