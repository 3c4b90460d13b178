// Gradient clipping: one bad batch must not throw the weights away.
//
//   by norm    g *= min(1, limit / |all gradients together|)   keeps the direction (Pascanu et al., 2013)
//   by value   every element is cut to [-limit, limit]
#pragma once

#include <cmath>
#include <tinytorch/autograd/grad_mode.hpp>
#include <tinytorch/tensor/ops/reduce.hpp>

namespace tinytorch::inline TT_BUILD {

// Euclidean norm of all gradients taken as one vector; parameters without one count as zero.
inline double gradient_norm(const Tensors& parameters) {
  NoGrad no_grad;
  double total = 0;
  for (const Tensor& p : parameters) {
    if (!p.grad()) continue;
    const double norm_of_one = norm(p.grad()).item<double>();
    total += norm_of_one * norm_of_one;
  }
  return std::sqrt(total);
}

// Scales all gradients so that their common norm is at most `limit`; returns the norm before. A norm that is
// not finite leaves the gradients as they are: scaling cannot repair them, and the caller should skip the
// step.
inline double clip_gradient_norm(const Tensors& parameters, double limit, TT_LOC) {
  if (!(limit > 0)) fail("TT-OPT-09", "clip_gradient_norm: the limit must be above 0", loc);
  NoGrad no_grad;
  const double norm_before = gradient_norm(parameters);
  if (!std::isfinite(norm_before) || norm_before <= limit) return norm_before;
  for (const Tensor& p : parameters) {
    if (Tensor g = p.grad()) g.mul_(limit / norm_before, loc);
  }
  return norm_before;
}

inline void clip_gradient_value(const Tensors& parameters, double limit, TT_LOC) {
  if (!(limit > 0)) fail("TT-OPT-09", "clip_gradient_value: the limit must be above 0", loc);
  NoGrad no_grad;
  for (const Tensor& p : parameters) {
    if (Tensor g = p.grad()) g.copy_(clamp(g, -limit, limit, loc), loc);
  }
}

}  // namespace tinytorch::inline TT_BUILD
