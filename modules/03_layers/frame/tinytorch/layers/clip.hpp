// Gradient clipping limits the effect of a batch with large gradients on the weights.
//
// The frame of a course header: it has the given parts, and includes the functions of task 3.17. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <algorithm>
#include <cmath>
#include <tinytorch/autograd/grad_mode.hpp>
#include <tinytorch/backend/cpu/optimizer.hpp>
#include <tinytorch/backend/cuda/launch.hpp>
#include <tinytorch/tensor/ops.hpp>
#include <type_traits>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// The gradients of the parameters that have one.
inline Tensors gradients_of(const Tensors& parameters) {
  Tensors gradients;
  for (const Tensor& p : parameters) {
    if (Tensor g = p.grad(); g.defined()) gradients.push_back(std::move(g));
  }
  return gradients;
}

// Euclidean norm of all tensors taken as one vector, summed in double. The tensors must be on one device.
// Returns f64 [] on that device, or on the CPU if there are no tensors.
inline Tensor norm_of_all(const Tensors& tensors, TT_LOC) {
  NoGrad no_grad;
  const Device device = tensors.empty() ? cpu : tensors.front().device();
  Tensors contiguous;
  std::vector<backend::View> views;
  for (const Tensor& t : tensors) {
    contiguous.push_back(t.contiguous(loc));
    views.push_back(contiguous.back().view_of());
  }
  const Tensor scalars = zeros({backend::kStepScalarCount}, DType::f64, device, loc);
  const backend::cuda::DeviceGuard on_device(device, loc);
  TT_KERNEL(scalars, gradient_factor(scalars.view_of(), views, 1));
  return scalars.select(0, backend::kGradientNorm, loc).clone(loc);
}

// g *= factor. A 16-bit gradient is scaled in f32, because a bf16 factor with 8 significant bits would be off
// by 0.2 %.
template <class Factor>
void scale_gradient(Tensor g, const Factor& factor, Loc loc) {
  if (is_16_bit(g.dtype())) {
    g.copy_((g.to(DType::f32, loc) * factor).to(g.dtype(), loc), loc);
  } else if constexpr (std::is_same_v<Factor, Tensor>) {
    g.copy_(g * factor, loc);
  } else {
    g.mul_(factor, loc);
  }
}

// Scales all gradients so that their common norm is at most `limit`. No value is copied to the host, so a
// CUDA graph can capture it. Returns the norm before clipping, as norm_of_all() does.
inline Tensor clip_gradient_norm_on_device(const Tensors& gradients, double limit, TT_LOC) {
  NoGrad no_grad;
  const Tensor before = norm_of_all(gradients, loc), one = ones_like(before, loc);
  const Tensor factor = where(limit < before, where(before < HUGE_VAL, limit / before, one), one);
  for (const Tensor& g : gradients) {
    scale_gradient(g, g.dtype() == DType::f64 ? factor : factor.to(DType::f32, loc), loc);
  }
  return before;
}

inline double gradient_norm(const Tensors& parameters, TT_LOC);               // task 3.17
inline double clip_by_norm(const Tensors& parameters, double limit, TT_LOC);  // task 3.17

// clip_by_norm, for a limit above 0 (otherwise TT-OPT-09). While a CUDA graph is captured, the norm is not
// available on the host, and NaN is returned. Optimizer::step_clipped() clips and updates in one pass.
inline double clip_gradient_norm(const Tensors& parameters, double limit, TT_LOC) {
  if (!(limit > 0)) fail("TT-OPT-09", "clip_gradient_norm: the limit must be above 0", loc);
  NoGrad no_grad;
  if (backend::cuda::is_capturing()) {
    const Tensors gradients = gradients_of(parameters);
    if (!gradients.empty()) clip_gradient_norm_on_device(gradients, limit, loc);
    return std::nan("");
  }
  return clip_by_norm(parameters, limit, loc);
}

inline void clip_gradient_value(const Tensors& parameters, double limit, TT_LOC);  // task 3.17

// PyTorch's names of clip_gradient_norm and clip_gradient_value.
inline double clip_grad_norm_(const Tensors& parameters, double max_norm, TT_LOC) {
  return clip_gradient_norm(parameters, max_norm, loc);
}
inline void clip_grad_value_(const Tensors& parameters, double clip_value, TT_LOC) {
  clip_gradient_value(parameters, clip_value, loc);
}

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/layers/clip.hpp>
