// Layers that only pass on or rearrange their input: Identity, Unflatten and PixelShuffle. (Flatten is in
// pooling.hpp.)
#pragma once

#include <tinytorch/layers/module.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace tinytorch::inline TT_BUILD {

// x itself: a place that another layer can take.
class Identity : public Module {
 public:
  Tensor forward(const Tensor& x) override { return x; }
};

// Dimension `dim` becomes several of the given sizes, one of which may be -1.
class Unflatten : public Module {
 public:
  Unflatten(int dimension, const Shape& given) : dim(dimension), sizes(given) {}
  Tensor forward(const Tensor& x) override { return unflatten(x, dim, sizes); }
  int dim;
  Shape sizes;
};

// [N, C r^2, H, W] -> [N, C, H r, W r] (Shi et al., 2016)
class PixelShuffle : public Module {
 public:
  explicit PixelShuffle(int64_t upscale_factor) : factor(upscale_factor) {}
  Tensor forward(const Tensor& x) override { return pixel_shuffle(x, factor); }
  int64_t factor;
};

}  // namespace tinytorch::inline TT_BUILD
