// InstanceNorm1d, 2d and 3d: each channel of each sample is normalized by its own mean and variance.
//
//   y = (x - mean) / sqrt(var + eps) * weight + bias        x [N, C, ...], weight, bias [C]
//
// It is GroupNorm with one channel in each group. As in PyTorch, there are no weight and bias unless `affine`
// is true. Running statistics are not kept. Source: Ulyanov et al., 2016.
#pragma once

#include <string>
#include <tinytorch/layers/module.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace tinytorch::inline TT_BUILD {

class InstanceNorm : public Module {
 public:
  explicit InstanceNorm(int64_t channel_count, double epsilon = 1e-5, bool affine = false)
      : channels(channel_count), eps(epsilon) {
    if (!affine) return;
    weight = add_parameter("weight", ones({channels}));
    bias = add_parameter("bias", zeros({channels}));
  }
  Tensor forward(const Tensor& x) override {
    if (x.rank() != rank() || x.size(1) != channels) {
      fail("TT-SHAPE-02", "instance norm over " + std::to_string(channels) + " channels needs x " +
                              (rank() == 3   ? "[N, C, L]"
                               : rank() == 4 ? "[N, C, H, W]"
                                             : "[N, C, D, H, W]") +
                              " with as many, got " + x.describe());
    }
    return group_norm(x, channels, weight, bias, eps);
  }

  int64_t channels;
  double eps;
  Tensor weight, bias;  // [C]; undefined unless affine

 protected:
  virtual int rank() const = 0;
};

class InstanceNorm1d : public InstanceNorm {
 public:
  using InstanceNorm::InstanceNorm;

 protected:
  int rank() const override { return 3; }
};
class InstanceNorm2d : public InstanceNorm {
 public:
  using InstanceNorm::InstanceNorm;

 protected:
  int rank() const override { return 4; }
};

class InstanceNorm3d : public InstanceNorm {
 public:
  using InstanceNorm::InstanceNorm;

 protected:
  int rank() const override { return 5; }
};

}  // namespace tinytorch::inline TT_BUILD
