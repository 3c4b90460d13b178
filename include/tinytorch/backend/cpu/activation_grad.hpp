// The backward pass of an activation on the CPU, dx = dy f'(v): a binary function like others, in one pass.
//
// Contract: fn is one of BinaryFn's *_grad; v is the activation's output for relu, leaky_relu, tanh and
// sigmoid, its input for the others (backend/functors.hpp). One floating dtype; dy and v broadcast to dx,
// which may be the same memory as dy or v, element for element. p0: slope of leaky_relu.
#pragma once

#include <tinytorch/backend/cpu/elementwise.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline void activation_grad(BinaryFn fn, const View& dx, const View& dy, const View& v, double p0 = 0) {
  binary(fn, dx, dy, v, p0);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
