// Backward pass of an activation on the CPU, dx = dy f'(v), in one pass over memory by the kernel of binary
// functions.
//
// Contract: fn is a *_grad function of BinaryFn. v is the output of the activation for tanh and sigmoid,
// either for relu, and the input for all others (backend/functors.hpp). All views have one floating dtype. dy
// and v broadcast to dx. dx may be the memory of dy or v, element for element. p0: the activation's
// parameter, such as the slope of leaky_relu.
#pragma once

#include <tinytorch/backend/cpu/elementwise.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline void activation_grad(BinaryFn fn, const View& dx, const View& dy, const View& v, double p0 = 0) {
  binary(fn, dx, dy, v, p0);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
