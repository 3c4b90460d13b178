// Upsample: images or sequences of another size, by interpolate(). It has no parameters.
//
//   tt::Upsample({.scale_factor = 2, .mode = tt::Interpolation::bilinear})      [N, C, H, W] -> [N, C, 2 H, 2
//   W]
#pragma once

#include <tinytorch/layers/module.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace tinytorch::inline TT_BUILD {

class Upsample : public Module {
 public:
  explicit Upsample(const InterpolateOptions& given) : options(given) {}
  Tensor forward(const Tensor& x) override { return interpolate(x, options); }
  InterpolateOptions options;
};

}  // namespace tinytorch::inline TT_BUILD
