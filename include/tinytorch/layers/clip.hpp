// Gradient clipping: one bad batch must not throw the weights away.
//
//   by norm    g *= min(1, limit / |all gradients together|)   keeps the direction (Pascanu et al., 2013)
//   by value   every element is cut to [-limit, limit]
#pragma once

#include <cmath>
#include <optional>
#include <tinytorch/autograd/grad_mode.hpp>
#include <tinytorch/backend/cpu/optimizer.hpp>
#include <tinytorch/backend/cuda/launch.hpp>
#include <tinytorch/tensor/ops/creation.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// Euclidean norm of all gradients taken as one vector, summed in double; parameters without one count as
// zero.
inline double gradient_norm(const Tensors& parameters, TT_LOC) {
  NoGrad no_grad;
  std::vector<std::pair<Device, Tensors>> by_device;
  for (const Tensor& p : parameters) {
    if (!p.grad()) continue;
    const Tensor g = p.grad().contiguous(loc);
    auto found = by_device.begin();
    while (found != by_device.end() && found->first != g.device()) ++found;
    if (found == by_device.end()) found = by_device.insert(found, {g.device(), {}});
    found->second.push_back(g);
  }
  double total = 0;
  for (const auto& [device, gradients] : by_device) {
    const Tensor scalars = zeros({backend::kStepScalarCount}, f64, device, loc);
    std::vector<backend::View> views;
    for (const Tensor& g : gradients) views.push_back(g.view_of());
    std::optional<backend::cuda::DeviceGuard> on_device;
    if (!device.is_cpu()) on_device.emplace(device.index, loc);
    TT_KERNEL(scalars, gradient_factor(scalars.view_of(), views, 1));
    const double norm = scalars.select(0, backend::kGradientNorm, loc).item<double>(loc);
    total += norm * norm;
  }
  return std::sqrt(total);
}

// Scales all gradients so that their common norm is at most `limit`; returns the norm before. A norm that is
// not finite leaves the gradients as they are: scaling cannot repair them, and the caller should skip the
// step. On CUDA the host waits for the norm; Optimizer::step_clipped() does not.
inline double clip_gradient_norm(const Tensors& parameters, double limit, TT_LOC) {
  if (!(limit > 0)) fail("TT-OPT-09", "clip_gradient_norm: the limit must be above 0", loc);
  NoGrad no_grad;
  const double norm_before = gradient_norm(parameters, loc);
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
